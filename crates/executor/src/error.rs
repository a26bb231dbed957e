//! What can go wrong, by the moment it does: building the executor, submitting, and the task itself.

use std::fmt;
use std::time::Duration;

use chiplet_policy::TableId;
use chiplet_table::SearchError;

/// Why an executor could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The machine could not be read.
    #[error("the machine's topology could not be read: {0}")]
    Topology(#[from] chiplet_topology::TopologyError),
    /// No core is left to run on.
    #[error(
        "{reserved} of {cores} usable cores are to be left free, which leaves no worker; reserve fewer"
    )]
    NoCores {
        /// Usable cores of the machine.
        cores: usize,
        /// Cores asked to be left free.
        reserved: usize,
    },
    /// A bound is zero.
    #[error("{what} is 0, which would accept nothing; give at least 1")]
    ZeroBound {
        /// The builder's method, or the field of its [`QueryLimits`](crate::QueryLimits).
        what: &'static str,
    },
    /// No thread can have the name.
    #[error("the name {name:?} has a NUL, which no thread's name may have; leave it out")]
    NulInName {
        /// The name given.
        name: String,
    },
    /// The operating system refused a thread. Those started before it have ended.
    #[error(
        "thread {name} could not be started: {source}; raise the limit on threads (`ulimit -u`, the cgroup's \
         pids.max) or on memory (`ulimit -v`), or ask for fewer with max_workers"
    )]
    Spawn {
        /// The thread's name.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The setting with which a query was over its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueryParameter {
    /// Neighbours ([`Query::top`](chiplet_table::Query::top)).
    K,
    /// Candidate list of a graph search ([`Query::ef`](chiplet_table::Query::ef)).
    Ef,
    /// Inverted lists to visit ([`Query::nprobe`](chiplet_table::Query::nprobe)).
    Nprobe,
    /// Queries in one batch.
    Batch,
    /// Tables that one query is searched in.
    Tables,
}

impl fmt::Display for QueryParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::K => "k",
            Self::Ef => "ef",
            Self::Nprobe => "nprobe",
            Self::Batch => "batch length",
            Self::Tables => "number of tables",
        })
    }
}

/// Why a task was not accepted. Nothing was queued; the caller still has its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The home domain's queue is full. Shed the request or retry after a pause
    /// ([`expected_wait`](Self::expected_wait)).
    #[error(
        "overloaded: the queue of domain {domain} holds its limit of {limit} tasks; retry later"
    )]
    #[non_exhaustive]
    Overloaded {
        /// The domain whose queue is full.
        domain: u32,
        /// Its limit, in tasks.
        limit: usize,
        /// How long the task would have waited in it, in microseconds, at most an hour
        /// ([`expected_wait`](Self::expected_wait)).
        wait_us: u32,
    },
    /// This table's share of the home domain's queue is full; other tables may still be accepted.
    #[error(
        "overloaded: the table holds its part of the queue, {limit} tasks at most; retry later"
    )]
    #[non_exhaustive]
    TableOverloaded {
        /// The table's limit in one domain, in tasks.
        limit: usize,
        /// How long the task would have waited in the domain's queue, as above.
        wait_us: u32,
    },
    /// The table's own [`queue_limit`](crate::TableOptions::queue_limit) is 0: it takes no task before that is raised.
    /// Not counted as shed, and not as load.
    #[error(
        "the table takes no tasks, as its queue_limit is 0; raise it with Executor::set_table_options"
    )]
    TableClosed,
    /// The system has no memory for a longer queue, or for a block's answers. Shed the request or retry after a pause,
    /// when tasks that wait now have left their places. A task's own memory cannot be refused: without it the process
    /// ends.
    #[error(
        "the system has no memory for a longer queue, or for a block's answers; retry later, lower queue_limit, or \
         submit fewer rows"
    )]
    OutOfMemory,
    /// No such table: it was removed, or the id is another executor's.
    #[error("there is no such table in this executor; it may have been removed")]
    UnknownTable,
    /// The table was added for closures only and has no index to search.
    #[error("the table has no index to search; use spawn, or add it with add_table")]
    NotSearchable,
    /// The query asks for more than the executor allows one to ([`Builder::limits`](crate::Builder::limits)). Retrying
    /// it as it is will not help.
    #[error(
        "{parameter} = {asked} is over the limit of {limit}; ask for less, or raise Builder::limits"
    )]
    OverLimit {
        /// What it asks too much of.
        parameter: QueryParameter,
        /// How much it asks for.
        asked: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// A block's rows have another dimension than the table.
    #[error("the table has rows of {expected} components, the block has rows of {got}")]
    WrongDimension {
        /// The table's dimension.
        expected: usize,
        /// The block's.
        got: usize,
    },
    /// A block ends within a row.
    #[error("{components} components are no whole number of rows of {dim}")]
    RaggedRows {
        /// Components of the block, all rows together.
        components: usize,
        /// Its dimension.
        dim: usize,
    },
    /// A block has filters, and not one for each row.
    #[error("the block has {filters} filters for {rows} rows; give one a row, or none")]
    WrongFilters {
        /// Filters of the block.
        filters: usize,
        /// Its rows.
        rows: usize,
    },
    /// The executor is shutting down.
    #[error("the executor is shutting down")]
    ShuttingDown,
    /// This process was forked from the one that built the executor, and has none of its threads. Known on Linux. It
    /// can only shut the executor down or drop it; calls that return no error panic with this one.
    #[error(
        "this process is a fork of the one that built the executor, whose threads it does not have; build one after the fork"
    )]
    Forked,
}

impl SubmitError {
    /// How long the task would have waited for a worker, had it been accepted. A client may be told to come back after
    /// this time: about then the tasks that fill the queue now have begun. `None` unless a queue was full.
    ///
    /// It is what waits before the task, in time, over the domain's workers, from the mean service times of the tables:
    /// zero if nothing of them has been answered yet. Services bound it from below and above before they tell it.
    pub fn expected_wait(&self) -> Option<Duration> {
        match self {
            Self::Overloaded { wait_us, .. } | Self::TableOverloaded { wait_us, .. } => {
                Some(Duration::from_micros(u64::from(*wait_us)))
            }
            _ => None,
        }
    }
}

/// Why a table was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There is no such table.
    #[error("there is no such table: it was removed, or it belongs to another executor")]
    Unknown,
    /// The table has no index that another could replace.
    #[error("only closures search this table: it has no index; add another table for one")]
    NoIndex,
    /// As [`SubmitError::Forked`].
    #[error("{}", SubmitError::Forked)]
    Forked,
}

/// What was refused: the reason, and what the caller passed in. That is a task, or an index.
#[derive(thiserror::Error)]
#[error("{reason}")]
pub struct Refused<T, E = SubmitError> {
    /// Why.
    #[source]
    pub reason: E,
    /// What the caller passed in.
    pub input: T,
}

impl<T, E: fmt::Debug> fmt::Debug for Refused<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

/// An error of one of several tables, with the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table}: {error}")]
#[non_exhaustive]
pub struct OfTable<E> {
    /// The table.
    pub table: TableId,
    /// What went wrong.
    pub error: E,
}

/// How a task ended without an answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It was never accepted.
    #[error(transparent)]
    Refused(#[from] SubmitError),
    /// It was cancelled before it started.
    #[error("cancelled before it started")]
    Cancelled,
    /// Its deadline passed before it was answered; or, while others waited, so little time was left when its turn came
    /// that it was not begun ([`is_too_late`](chiplet_policy::is_too_late)).
    #[error("the deadline passed before the task was answered")]
    Expired,
    /// The search or closure panicked; the message is its payload. No other task is affected.
    #[error("the task panicked: {0}")]
    Panicked(String),
    /// The executor shut down before the task started.
    #[error("the executor shut down before the task started")]
    ShutDown,
    /// The table refused the query or failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A task waited for a task of its own executor, which could wait for ever on a small pool.
    #[error(
        "a task may not block on a ticket of its own executor; wait in Context::block_in_place with a free substitute, \
         return the ticket, or wait outside"
    )]
    WouldDeadlock,
}
