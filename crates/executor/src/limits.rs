//! The most that one query may ask for.

use chiplet_policy::settings;
use chiplet_table::Query;

use crate::error::{QueryParameter, SubmitError};

settings! {
    /// The most that one query may ask for ([`Builder::limits`](crate::Builder::limits)). `None` is no limit, and
    /// the default of all but `max_tables`.
    ///
    /// They are for services whose callers choose these numbers: one query with a huge `k` or `ef` holds a core for as
    /// long as thousands of others. A query over a limit is refused when it is submitted, with
    /// [`SubmitError::OverLimit`], before it takes a place in a queue. Nothing is cut down to a limit silently.
    ///
    /// A query that names no `ef` or `nprobe` is searched with its table's own default, whatever the limits are. The
    /// candidate list of a graph is never shorter than `k`, so whoever limits `ef` should limit `k` too.
    ///
    /// ```
    /// use chiplet_executor::{Executor, QueryLimits, QueryParameter, SubmitError, Topology};
    /// use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
    /// # struct Empty;
    /// # impl Table for Empty {
    /// #     fn dim(&self) -> usize { 1 }
    /// #     fn len(&self) -> usize { 0 }
    /// #     fn size_bytes(&self) -> u64 { 0 }
    /// #     fn search(&self, _: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> { Ok(Vec::new()) }
    /// # }
    ///
    /// let limits = QueryLimits::new().max_k(Some(1_000)).max_ef(Some(2_000));
    /// let executor = Executor::builder()
    ///     .topology(Topology::uniform(1, 2, 32 << 20))
    ///     .limits(limits)
    ///     .build()?;
    /// let table = executor.add_table("songs", Empty);
    /// let refused = executor.submit(table, Query::new([0.5]).top(5_000)).unwrap_err();
    /// let (parameter, asked, limit) = (QueryParameter::K, 5_000, 1_000);
    /// assert_eq!(refused.reason, SubmitError::OverLimit { parameter, asked, limit });
    /// assert_eq!(refused.input.k(), 5_000); // the query comes back
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct QueryLimits {
        /// Neighbours ([`Query::top`]).
        pub(crate) max_k: Option<usize> = None,
        /// Candidate list of a graph search ([`Query::ef`]), if the query names one.
        pub(crate) max_ef: Option<usize> = None,
        /// Inverted lists to visit ([`Query::nprobe`]), if the query says how many. A query may ask for more than the
        /// table has, which visits all; over the limit that is refused too.
        pub(crate) max_nprobe: Option<usize> = None,
        /// Queries in one batch ([`Executor::submit_batch`](crate::Executor::submit_batch)).
        pub(crate) max_batch: Option<usize> = None,
        /// Tables that one query is searched in ([`Executor::submit_over`](crate::Executor::submit_over)), each by a
        /// task of its own. Default: 1024.
        pub(crate) max_tables: Option<usize> = Some(1_024),
    }
}

impl QueryLimits {
    /// The limits by the names of their fields, for whoever checks them.
    pub(crate) fn named(&self) -> [(&'static str, Option<usize>); 5] {
        [
            ("max_k", self.max_k),
            ("max_ef", self.max_ef),
            ("max_nprobe", self.max_nprobe),
            ("max_batch", self.max_batch),
            ("max_tables", self.max_tables),
        ]
    }

    /// Checks queries that were submitted together: how many they are, then each in order.
    pub(crate) fn check(&self, queries: &[Query]) -> Result<(), SubmitError> {
        within(QueryParameter::Batch, queries.len(), self.max_batch)?;
        if (self.max_k, self.max_ef, self.max_nprobe) == (None, None, None) {
            return Ok(());
        }
        queries.iter().try_for_each(|query| {
            within(QueryParameter::K, query.k(), self.max_k)?;
            let (ef, nprobe) = (query.requested_ef(), query.requested_nprobe());
            within(QueryParameter::Ef, ef.unwrap_or(0), self.max_ef)?;
            within(QueryParameter::Nprobe, nprobe.unwrap_or(0), self.max_nprobe)
        })
    }
}

fn within(
    parameter: QueryParameter,
    asked: usize,
    limit: Option<usize>,
) -> Result<(), SubmitError> {
    match limit {
        Some(limit) if asked > limit => Err(SubmitError::OverLimit {
            parameter,
            asked,
            limit,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: QueryLimits = QueryLimits::new()
        .max_k(Some(10))
        .max_ef(Some(20))
        .max_nprobe(Some(30))
        .max_batch(Some(2));

    fn over(parameter: QueryParameter, asked: usize, limit: usize) -> Result<(), SubmitError> {
        Err(SubmitError::OverLimit {
            parameter,
            asked,
            limit,
        })
    }

    #[test]
    fn a_limit_is_the_most_that_is_allowed() {
        let most = Query::new([0.0]).top(10).ef(20).nprobe(30);
        assert_eq!(LIMITS.check(&[most.clone(), most.clone()]), Ok(()));
        let check = |query| LIMITS.check(&[query]);
        assert_eq!(check(most.clone().top(11)), over(QueryParameter::K, 11, 10));
        assert_eq!(check(most.clone().ef(21)), over(QueryParameter::Ef, 21, 20));
        assert_eq!(check(most.nprobe(31)), over(QueryParameter::Nprobe, 31, 30));
    }

    #[test]
    fn the_length_of_a_batch_counts_before_its_queries_and_those_in_order() {
        let [good, bad, worse] = [10, 11, 12].map(|k| Query::new([0.0]).top(k));
        let three = [worse.clone(), good.clone(), good.clone()];
        assert_eq!(LIMITS.check(&three), over(QueryParameter::Batch, 3, 2));
        assert_eq!(
            LIMITS.check(&[bad.clone(), worse.clone()]),
            over(QueryParameter::K, 11, 10)
        );
        assert_eq!(
            LIMITS.check(&[good, worse]),
            over(QueryParameter::K, 12, 10)
        );
        assert_eq!(LIMITS.check(&[]), Ok(()));
    }

    #[test]
    fn the_message_says_what_how_much_and_the_limit() {
        let error = over(QueryParameter::Nprobe, 31, 30).unwrap_err();
        let message = error.to_string();
        for part in ["nprobe", "31", "30"] {
            assert!(message.contains(part), "{message}");
        }
    }

    proptest! {
        /// A query is refused exactly if it asks for more than a limit that there is.
        #[test]
        fn refused_is_what_is_over_a_limit(
            k in 0_usize..5,
            ef in prop::option::of(0_usize..5),
            nprobe in prop::option::of(0_usize..5),
            max_k in prop::option::of(1_usize..5),
            max_ef in prop::option::of(1_usize..5),
            max_nprobe in prop::option::of(1_usize..5),
        ) {
            let mut query = Query::new([0.0]).top(k);
            if let Some(ef) = ef {
                query = query.ef(ef);
            }
            if let Some(nprobe) = nprobe {
                query = query.nprobe(nprobe);
            }
            let limits = QueryLimits::new().max_k(max_k).max_ef(max_ef).max_nprobe(max_nprobe).max_batch(None);
            let is_over = |asked: Option<usize>, limit: Option<usize>| {
                asked.zip(limit).is_some_and(|(asked, limit)| asked > limit)
            };
            let expected = is_over(Some(k), max_k) || is_over(ef, max_ef) || is_over(nprobe, max_nprobe);
            prop_assert_eq!(limits.check(&[query]).is_err(), expected);
        }
    }
}
