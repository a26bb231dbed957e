//! What the executor does not do, to see what it would give. `results/ideas.md` has the figures.

/// Ideas that a run tries; the default is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ideas {
    /// A table that exceeds a domain's cache and gets more than two domains' share of all queries has so many regions,
    /// each an item with homes of its own. A query goes to the region that it ends in, which is found by comparing it
    /// with the middle of each. 1: none.
    pub regions: u32,
    /// So many queries of one table of lists that wait in one queue become one task, which reads each list once.
    /// 1: none.
    pub together: u32,
    /// What tables are placed by, where they are placed by time.
    pub budgets: Budgets,
}

impl Default for Ideas {
    fn default() -> Self {
        Self {
            regions: 1,
            together: 1,
            budgets: Budgets::default(),
        }
    }
}

/// What the planner is told of tables. The first that is set is balanced; the others decide between domains that are
/// about equal in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Core-seconds a second.
    pub time: bool,
    /// Bytes that a table asks a cache to hold.
    pub cache: bool,
    /// Bytes a second that it reads.
    pub link: bool,
}

impl Default for Budgets {
    /// All of them.
    fn default() -> Self {
        Self {
            time: true,
            cache: true,
            link: true,
        }
    }
}
