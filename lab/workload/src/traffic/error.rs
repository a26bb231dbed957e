//! Why a traffic cannot be drawn from.

use std::ops::Range;
use std::time::Duration;

/// A traffic that cannot be drawn from.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// There is nothing to ask.
    #[error("traffic without groups; add at least one Group")]
    NoGroups,
    /// A group without tables or queries.
    #[error("group of tables {tables:?} with {queries} queries each; it needs at least 1 of both")]
    EmptyGroup {
        /// The group's tables.
        tables: Range<usize>,
        /// Queries for each.
        queries: usize,
    },
    /// A share that is no weight.
    #[error("share {share}; give a finite number above 0")]
    BadShare {
        /// As given.
        share: f64,
    },
    /// A Zipf exponent out of range.
    #[error("skew {exponent}; give a finite Zipf exponent of at least 0")]
    BadSkew {
        /// As given.
        exponent: f64,
    },
    /// A rate that gives no arrivals.
    #[error("rate {rate} per second; give a finite number above 0")]
    BadRate {
        /// As given.
        rate: f64,
    },
    /// A burst state that nothing ever leaves or enters.
    #[error("calm for {calm:?} and bursting for {burst:?} on average; both must be above 0")]
    BadPhases {
        /// Mean time between bursts.
        calm: Duration,
        /// Mean length of a burst.
        burst: Duration,
    },
}
