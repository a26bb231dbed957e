//! A log of tasks that came to an executor, from which their way can be decided again, and what was decided.
//!
//! ```
//! use std::time::Duration;
//! use chiplet_policy::Time;
//! use chiplet_policy::replay::{Arrival, Log};
//!
//! let log = Log {
//!     homes: vec![0, 1],
//!     arrivals: vec![Arrival { at: Time::from_nanos(250), table: 1, took: Duration::from_nanos(9_000) }],
//! };
//! assert_eq!(log.to_string(), "homes 0 1\n250 1 9000\n");
//! assert_eq!(log.to_string().parse::<Log>()?, log);
//! # Ok::<(), chiplet_policy::replay::LogError>(())
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::{StealLevel, Time};

/// Tasks in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Each table's home: the place of its group.
    pub homes: Vec<usize>,
    /// The tasks.
    pub arrivals: Vec<Arrival>,
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it came.
    pub at: Time,
    /// Its table's place in [`Log::homes`].
    pub table: usize,
    /// How long it took a worker.
    pub took: Duration,
}

/// A task was begun, or it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A worker began it.
    Begun {
        /// The task's place in [`Log::arrivals`].
        task: usize,
        /// When.
        at: Time,
        /// Which worker.
        worker: usize,
        /// Where the worker found it.
        level: StealLevel,
    },
    /// No queue had a place for it.
    Refused {
        /// The task's place in [`Log::arrivals`].
        task: usize,
    },
}

/// What happens at a time in a replay. Of what happens at the same time this order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A task comes.
    Arrive(usize),
    /// A worker has ended its task, or is awake.
    Work(usize),
    /// The timed look.
    Look,
}

/// In a replay, the time from a worker's wake-up until it looks for work. Each worker's number is added in nanoseconds,
/// so that two that are woken at once come one after the other.
pub fn wake_time(worker: usize) -> Duration {
    Duration::from_nanos(5_000 + worker as u64)
}

/// Why a text is no log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} of the log is not {expected}")]
pub struct LogError {
    line: usize,
    expected: &'static str,
}

impl fmt::Display for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "homes")?;
        for home in &self.homes {
            write!(out, " {home}")?;
        }
        writeln!(out)?;
        for Arrival { at, table, took } in &self.arrivals {
            writeln!(out, "{} {table} {}", at.as_nanos(), took.as_nanos())?;
        }
        Ok(())
    }
}

impl FromStr for Log {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        let mut lines = text.lines();
        let first = LogError {
            line: 1,
            expected: "\"homes\" and a number for each table",
        };
        let homes = lines.next().and_then(|line| line.strip_prefix("homes"));
        let homes = homes.ok_or_else(|| first.clone())?.split_whitespace();
        let homes: Result<Vec<usize>, _> = homes.map(str::parse).collect();
        let homes = homes.map_err(|_| first)?;
        let arrivals = lines.zip(2..).map(|(line, number)| {
            let mut fields = line.split(' ').map(str::parse::<u64>);
            let mut next = || fields.next().and_then(Result::ok);
            let arrival = (|| {
                Some(Arrival {
                    at: Time::from_nanos(next()?),
                    table: usize::try_from(next()?)
                        .ok()
                        .filter(|&table| table < homes.len())?,
                    took: Duration::from_nanos(next()?),
                })
            })();
            arrival.ok_or(LogError {
                line: number,
                expected: "a time, a table and a time that it took, in nanoseconds",
            })
        });
        let arrivals: Result<Vec<_>, _> = arrivals.collect();
        Ok(Self {
            arrivals: arrivals?,
            homes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_log_is_refused_with_the_line() {
        for (text, line) in [
            ("", 1),
            ("homes x\n", 1),
            ("homes 0\n1 2 3\n", 2),
            ("homes 0\n1 0 3\n1 0\n", 3),
        ] {
            assert_eq!(text.parse::<Log>().unwrap_err().line, line, "{text:?}");
        }
    }
}
