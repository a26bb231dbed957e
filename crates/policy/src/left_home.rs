//! Why a task left its home.

/// Why a task, or a part of it, was run by another domain than the home that its submit chose.
///
/// In the order of how far it came: of several parts the last of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LeftHome {
    /// Its submit queued it in another domain: its home's tasks waited so much longer that this is worth a cold cache
    /// ([`route::evens_out`](crate::route::evens_out)).
    Rebalanced,
    /// Its submit queued it in another domain: its home's queue was full
    /// ([`route::nearest_spare`](crate::route::nearest_spare)), or had lost its workers.
    Overflow,
    /// A worker of another domain stole it, though tasks waited there: those at home had waited far longer
    /// ([`steal_order::is_behind`](crate::steal_order::is_behind)).
    StolenByBusy,
    /// An idle worker of another domain stole it ([`is_worth_crossing`](crate::is_worth_crossing)), or took part in it.
    StolenByIdle,
}

/// Where a worker got a task, or a part of one. Ordered by how far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StealLevel {
    /// Its domain's queue, which is the task's home.
    Own,
    /// What a worker of the same domain has started.
    Domain,
    /// Another domain is the task's home.
    Away(LeftHome),
}

impl StealLevel {
    /// Why the task left its home, if it did.
    pub fn left_home(self) -> Option<LeftHome> {
        match self {
            Self::Own | Self::Domain => None,
            Self::Away(why) => Some(why),
        }
    }
}
