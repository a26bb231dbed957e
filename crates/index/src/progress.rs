//! How far a build has come, for progress bars, and whether it goes on.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::error::BuildError;

/// One report of a build's progress. `done` of `total` rows are through `stage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What the build is doing.
    pub stage: Stage,
    /// Rows finished in this stage.
    pub done: usize,
    /// Rows of this stage.
    pub total: usize,
}

/// A stage of a build. Each reports `done == 0` when it begins and `done == total` when it ends. Which stages there are
/// depends on the kind of table; they come in the order of this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Checking rows and ids.
    Checking,
    /// Trying row formats ([`Fit`](crate::Fit)).
    Choosing,
    /// Finding centroids and code books (IVF). One step of Faiss, which cannot be stopped: it reports nothing between
    /// begin and end.
    Training,
    /// Linking rows (HNSW), or adding them to lists (IVF).
    Adding,
    /// Laying the table out in its memory.
    Finishing,
}

impl fmt::Display for Stage {
    /// The stage's name in lower case, as for a progress bar.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checking => "checking",
            Self::Choosing => "choosing",
            Self::Training => "training",
            Self::Adding => "adding",
            Self::Finishing => "finishing",
        })
    }
}

/// What a build tells, and asks. It ends with [`BuildError::Stopped`] at [`ControlFlow::Break`].
pub(crate) type Report<'a> = Box<dyn FnMut(Progress) -> ControlFlow<()> + 'a>;

/// The time between two reports of a stage: often enough for a smooth bar and for who waits for a build to stop, too
/// seldom to cost anything.
pub(crate) const EVERY: Duration = Duration::from_millis(20);

/// Short pieces of work between two looks at the clock, as a look takes some 25 ns and on some machines far more.
const SHORT: u32 = 128;

/// A build's side of its report: each loop over rows passes by here, so that the report is asked every so often.
pub(crate) struct Watch<'a> {
    report: Option<RefCell<Report<'a>>>,
    every: Duration,
    at: Cell<Progress>,
    asked: Cell<Instant>,
    short: Cell<u32>,
}

impl<'a> Watch<'a> {
    /// Of a build that tells `report` about its progress every so often.
    pub(crate) fn new(report: Option<Report<'a>>, every: Duration) -> Self {
        let at = Progress {
            stage: Stage::Checking,
            done: 0,
            total: 0,
        };
        Self {
            report: report.map(RefCell::new),
            every,
            at: Cell::new(at),
            asked: Cell::new(Instant::now()),
            short: Cell::new(0),
        }
    }

    /// Of a build that nobody watches.
    pub(crate) fn none() -> Self {
        Self::new(None, EVERY)
    }

    /// Begins a stage of `total` rows.
    ///
    /// # Errors
    /// [`BuildError::Stopped`], as of all that follow.
    pub(crate) fn begin(&self, stage: Stage, total: usize) -> Result<(), BuildError> {
        let done = 0;
        self.at.set(Progress { stage, done, total });
        self.ask()
    }

    /// Says that `done` rows are through the stage.
    #[inline]
    pub(crate) fn done(&self, done: usize) -> Result<(), BuildError> {
        self.at.set(Progress {
            done,
            ..self.at.get()
        });
        self.look()
    }

    /// Ends the stage.
    pub(crate) fn end(&self) -> Result<(), BuildError> {
        let at = self.at.get();
        self.at.set(Progress {
            done: at.total,
            ..at
        });
        self.ask()
    }

    /// Passes by, after a piece of work that takes up to some milliseconds.
    #[inline]
    pub(crate) fn look(&self) -> Result<(), BuildError> {
        match self.report.is_some() && self.asked.get().elapsed() >= self.every {
            true => self.ask(),
            false => Ok(()),
        }
    }

    /// Passes by, after a piece of work that takes a microsecond or less.
    #[inline]
    pub(crate) fn glance(&self) -> Result<(), BuildError> {
        let short = self.short.get().wrapping_add(1);
        self.short.set(short);
        match short.is_multiple_of(SHORT) {
            true => self.look(),
            false => Ok(()),
        }
    }

    fn ask(&self) -> Result<(), BuildError> {
        let Some(report) = &self.report else {
            return Ok(());
        };
        let answer = report.borrow_mut()(self.at.get());
        self.asked.set(Instant::now());
        match answer {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(BuildError::Stopped),
        }
    }
}
