//! What a worker has done for a table, as it notes it.

use std::time::Duration;

use chiplet_policy::TableId;

use crate::counts::End;

/// What a worker has done for a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) table: TableId,
    /// How its tasks ended.
    pub(crate) end: End,
    /// How many have.
    pub(crate) tasks: u32,
    /// Wait and service time of each of them in nanoseconds, if a worker took them up.
    pub(crate) times: Option<[u64; 2]>,
    /// Bytes that were read, and nanoseconds for which the worker was busy, which have not been noted before.
    pub(crate) used: (u64, u64),
}

impl Note {
    /// So many tasks of a table have ended in this way, without having been taken up.
    pub(crate) fn untouched(table: TableId, end: End, tasks: u64) -> Self {
        Self {
            table,
            end,
            tasks: tasks as u32,
            times: None,
            used: (0, 0),
        }
    }

    /// What was used for a part of a task, which has not ended.
    pub(crate) fn part(table: TableId, bytes: u64, busy: Duration) -> Self {
        Self {
            used: (bytes, busy.as_nanos() as u64),
            ..Self::untouched(table, End::Done, 0)
        }
    }
}
