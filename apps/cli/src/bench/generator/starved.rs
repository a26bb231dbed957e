//! Whether the workers of a saturated round always had a query: else the sender was measured, not the pool.

/// Share of the workers' time between `first` and `last` (nanoseconds, as the queries') for which they were idle
/// because fewer queries than workers were outstanding. 0 to 1. `queries` are the times at which each was sent and
/// ended.
pub(super) fn share(
    queries: impl IntoIterator<Item = (u64, u64)>,
    (first, last): (u64, u64),
    workers: usize,
) -> f64 {
    let (mut sent, mut ended): (Vec<u64>, Vec<u64>) = queries.into_iter().unzip();
    sent.sort_unstable();
    ended.sort_unstable();
    let (mut sent, mut ended) = (sent.into_iter().peekable(), ended.into_iter().peekable());
    let (mut now, mut outstanding, mut idle) = (first, 0_usize, 0_u128);
    while now < last {
        // A query that is sent at the moment another ends leaves nobody idle.
        while sent.next_if(|&at| at <= now).is_some() {
            outstanding += 1;
        }
        while ended.next_if(|&at| at <= now).is_some() {
            outstanding = outstanding.saturating_sub(1);
        }
        let next = [sent.peek(), ended.peek()].into_iter().flatten().copied();
        let next = next.min().unwrap_or(last).min(last);
        idle += u128::from(next - now) * workers.saturating_sub(outstanding) as u128;
        now = next;
    }
    let time = u128::from(last.saturating_sub(first)) * workers as u128;
    if time == 0 {
        return 0.0;
    }
    idle as f64 / time as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_with_a_query_each_are_not_starved() {
        let queries: Vec<_> = (0..100)
            .flat_map(|n| [(n * 10, n * 10 + 10), (n * 10, n * 10 + 10)])
            .collect();
        assert_eq!(share(queries.clone(), (0, 1_000), 2), 0.0);
        // Of three workers one has nothing to do.
        let third = share(queries.clone(), (0, 1_000), 3);
        assert!((third - 1.0 / 3.0).abs() < 1e-12, "{third}");
    }

    #[test]
    fn idle_time_counts_within_the_measured_time_only() {
        // 512 queries each 20 units, all answered in 5: what a sender that sleeps too long gives.
        let queries: Vec<_> = (0..50)
            .flat_map(|n| (0..512).map(move |_| (n * 20, n * 20 + 5)))
            .collect();
        assert_eq!(share(queries.clone(), (0, 1_000), 2), 0.75);
        assert_eq!(share(queries.clone(), (200, 600), 2), 0.75);
        assert_eq!(share(queries.clone(), (205, 220), 2), 1.0);
        assert_eq!(share([], (0, 10), 2), 1.0);
        assert_eq!(share([], (0, 10), 0), 0.0);
    }
}
