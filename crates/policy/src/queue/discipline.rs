//! How a queue behaves: its bounds, and how far it may leave the order of arrival.

/// How a group's queue behaves; the same for all groups of an executor.
#[derive(Clone, Copy, Debug)]
pub struct Discipline {
    /// Tasks of one table that a worker may run in a row although older ones wait; 1 means plain order.
    pub run_length: u32,
    /// A task may go before the oldest if it is younger by at most this part of that one's age.
    pub reorder: f64,
    /// Tasks the group may hold.
    pub limit: usize,
    /// Tasks one table may hold of them, unless it has a limit of its own.
    pub table_limit: usize,
    /// While interactive tasks wait, all bulk work together counts as one of their tables of this weight.
    pub bulk_weight: f32,
}

/// Queued tasks each worker brings to its group's bound. At 100 us a query a full queue is a wait of 25 ms: beyond that
/// an interactive search is better refused.
pub const QUEUE_PER_WORKER: usize = 256;

impl Discipline {
    /// How far a worker may leave the order of arrival by default: no task waits more than 1.43 times as long as in
    /// plain order.
    pub const REORDER: f64 = 0.3;

    /// The weight of all bulk work by default.
    pub const BULK_WEIGHT: f32 = 1.0 / 16.0;

    /// How many tasks of one table a worker may run in a row by default, although older ones of other tables wait.
    pub const RUN_LENGTH: u32 = 16;

    /// The defaults for groups of at most so many workers.
    pub fn for_workers(workers: usize) -> Self {
        let limit = QUEUE_PER_WORKER * workers;
        Self {
            run_length: Self::RUN_LENGTH,
            reorder: Self::REORDER,
            limit,
            table_limit: Self::usual_table_limit(limit),
            bulk_weight: Self::BULK_WEIGHT,
        }
    }

    /// The part of `limit` that one table may hold by default: three quarters. The last one is for tables of which
    /// little waits.
    pub fn usual_table_limit(limit: usize) -> usize {
        (limit - limit.div_ceil(4)).max(1)
    }

    /// Whether a table whose limit is `limit` may have `own` of the `waiting` tasks that there are then, of so many
    /// tables.
    ///
    /// The last quarter of a queue, or what a larger limit of its own leaves of that, is for tables of which little
    /// waits: a table may go into it with the mean of all tables' tasks at first, and with ever fewer the fewer places
    /// are left. So floods end at three quarters together, however many they are. A table's only task needs just a
    /// place.
    pub(super) fn has_place(
        &self,
        own: usize,
        limit: usize,
        waiting: usize,
        tables: usize,
    ) -> bool {
        let last = self.limit.div_ceil(4).min(self.limit.saturating_sub(limit));
        let left = self.limit - waiting;
        if own <= 1 || left >= last {
            return true;
        }
        let [own, waiting, tables, last, left] =
            [own, waiting, tables, last, left].map(|count| count as u128);
        own * tables * last <= waiting * left
    }
}
