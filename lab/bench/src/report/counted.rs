//! What was counted, as the report holds it: by query.

use super::Counters;
use crate::counters::{
    CXL, CYCLES, CounterValues, INSTRUCTIONS, L3_LOOKUPS, L3_MISSES, LLC_MISSES, MEMORY, OTHER_L3,
    OWN_L3, PREFETCHED_BEYOND, PREFETCHED_OWN_L3, REMOTE_MEMORY, STALLED,
};

/// What the report says of `queries` queries that ran meanwhile; all `None` if there were none.
///
/// Where lines are counted by their source, a last-level miss is a line from beyond the own L3. What the L2 prefetched
/// is counted in other rounds, so [`with_prefetches`] adds it to the medians of all.
pub fn per_query(values: &CounterValues, queries: u64) -> Counters {
    if queries == 0 {
        return Counters::default();
    }
    let each = |name| Some(values.total(name)? / queries as f64);
    let beyond = [OTHER_L3, MEMORY, REMOTE_MEMORY, CXL].map(each);
    // CXL memory alone may be missing: older processors have none.
    let beyond = beyond[..3]
        .iter()
        .try_fold(beyond[3].unwrap_or(0.0), |sum, source| {
            Some(sum + (*source)?)
        });
    let cycles = values.total(CYCLES).filter(|&cycles| cycles > 0.0);
    Counters {
        cycles: each(CYCLES),
        instructions: each(INSTRUCTIONS),
        llc_misses: each(LLC_MISSES).or(beyond),
        stalled_share: values
            .total(STALLED)
            .zip(cycles)
            .map(|(stalled, all)| stalled / all),
        from_own_l3: each(OWN_L3),
        from_other_l3: each(OTHER_L3),
        from_memory: each(MEMORY),
        from_remote_memory: each(REMOTE_MEMORY),
        from_cxl: each(CXL),
        prefetched_own_l3: each(PREFETCHED_OWN_L3),
        prefetched_beyond_l3: each(PREFETCHED_BEYOND),
        l3_miss_ratio: values
            .total(L3_MISSES)
            .zip(values.total(L3_LOOKUPS).filter(|&all| all > 0.0))
            .map(|(misses, all)| misses / all),
    }
}

/// Misses of all rounds' medians, with the lines that the L2 prefetched.
pub fn with_prefetches(counted: Counters) -> Counters {
    Counters {
        llc_misses: counted
            .llc_misses
            .map(|misses| misses + counted.prefetched_beyond_l3.unwrap_or(0.0)),
        ..counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_gets_shares_and_counts_a_query() {
        let all = CounterValues::made_of(&[
            (INSTRUCTIONS, 3_000.0),
            (CYCLES, 2_000.0),
            (STALLED, 500.0),
            (OWN_L3, 40.0),
            (OTHER_L3, 10.0),
            (MEMORY, 15.0),
            (REMOTE_MEMORY, 5.0),
            (L3_LOOKUPS, 80.0),
            (L3_MISSES, 20.0),
        ]);
        let expected = Counters {
            cycles: Some(200.0),
            instructions: Some(300.0),
            llc_misses: Some(3.0),
            stalled_share: Some(0.25),
            from_own_l3: Some(4.0),
            from_other_l3: Some(1.0),
            from_memory: Some(1.5),
            from_remote_memory: Some(0.5),
            from_cxl: None,
            prefetched_own_l3: None,
            prefetched_beyond_l3: None,
            l3_miss_ratio: Some(0.25),
        };
        assert_eq!(per_query(&all, 10), expected);
        assert_eq!(per_query(&all, 0), Counters::default());
        let some = per_query(
            &CounterValues::made_of(&[(LLC_MISSES, 70.0), (STALLED, 1.0)]),
            10,
        );
        let expected = Counters {
            llc_misses: Some(7.0),
            ..Counters::default()
        };
        assert_eq!(some, expected);
    }

    #[test]
    fn prefetches_of_other_rounds_are_misses_too() {
        let prefetched =
            CounterValues::made_of(&[(PREFETCHED_OWN_L3, 90.0), (PREFETCHED_BEYOND, 40.0)]);
        let prefetched = per_query(&prefetched, 10);
        assert_eq!(
            (prefetched.llc_misses, prefetched.prefetched_beyond_l3),
            (None, Some(4.0))
        );
        let all = Counters {
            llc_misses: Some(3.0),
            ..prefetched
        };
        assert_eq!(with_prefetches(all).llc_misses, Some(7.0));
        assert_eq!(with_prefetches(prefetched).llc_misses, None);
        let without = Counters {
            llc_misses: Some(3.0),
            ..Counters::default()
        };
        assert_eq!(with_prefetches(without), without);
    }
}
