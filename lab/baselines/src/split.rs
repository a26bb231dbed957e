//! A query whose lists go over all workers, one list at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chiplet_table::{Context, Neighbor, Probe, Query, SearchError, SplitTable, Table};
use parking_lot::Mutex;

/// What is told the answer, on the thread that has it.
pub(crate) type Done = Box<dyn FnOnce(Result<Vec<Neighbor>, SearchError>) + Send>;

/// A query that several workers scan.
pub(crate) struct Split {
    table: Arc<dyn Table>,
    query: Query,
    probes: Vec<Probe>,
    grain: usize,
    /// The first probe that nobody has taken.
    next: AtomicUsize,
    progress: Mutex<Progress>,
    answered: AtomicBool,
    /// The worker that waits for the answer, if one does.
    pub(crate) waiting: Option<usize>,
}

struct Progress {
    /// Probes that have not been scanned.
    left: usize,
    parts: Vec<(usize, Vec<Neighbor>)>,
    failure: Option<SearchError>,
    done: Option<Done>,
}

impl Split {
    /// The lists of `query`, if there are several to hand out.
    pub(crate) fn new(
        table: Arc<dyn Table>,
        query: Query,
        probes: Vec<Probe>,
        grain: usize,
        done: Done,
        waiting: Option<usize>,
    ) -> Self {
        let progress = Progress {
            left: probes.len(),
            parts: Vec::new(),
            failure: None,
            done: Some(done),
        };
        Self {
            table,
            query,
            probes,
            grain,
            next: AtomicUsize::new(0),
            progress: Mutex::new(progress),
            answered: AtomicBool::new(false),
            waiting,
        }
    }

    /// Units that there are in all.
    pub(crate) fn units(&self) -> usize {
        self.probes.len().div_ceil(self.grain)
    }

    /// Whether a list is left that nobody has taken.
    pub(crate) fn is_open(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.probes.len()
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// Scans the next unit. `None`: nothing was left. `Some(true)`: it was the last to end, and the query is answered.
    pub(crate) fn scan_next(&self) -> Option<bool> {
        let first = self.next.fetch_add(self.grain, Ordering::Relaxed);
        let unit = first..(first + self.grain).min(self.probes.len());
        if first >= self.probes.len() {
            return None;
        }
        let scanned = unit.len();
        let found = guarded(|| {
            let table = split(&*self.table)?;
            table.scan(&self.query, &self.probes, unit, &mut Context::default())
        });
        let ended = {
            let mut progress = self.progress.lock();
            progress.left -= scanned;
            match found {
                Ok(part) => progress.parts.push((first, part)),
                Err(error) => drop(progress.failure.get_or_insert(error)),
            }
            (progress.left == 0).then(|| {
                let parts = std::mem::take(&mut progress.parts);
                (parts, progress.failure.take(), progress.done.take())
            })
        };
        let Some((mut parts, failure, done)) = ended else {
            return Some(false);
        };
        parts.sort_unstable_by_key(|&(first, _)| first);
        let parts = parts.into_iter().map(|(_, part)| part).collect();
        let answer = match failure {
            Some(error) => Err(error),
            None => guarded(|| {
                let table = split(&*self.table)?;
                table.merge(&self.query, parts, &mut Context::default())
            }),
        };
        if let Some(done) = done {
            done(answer);
        }
        self.answered.store(true, Ordering::Release);
        Some(true)
    }
}

fn split(table: &dyn Table) -> Result<&dyn SplitTable, SearchError> {
    let lost = || SearchError::Backend("the table can be split no more".to_owned());
    table.as_split().ok_or_else(lost)
}

/// A table's panic is its query's failure.
pub(crate) fn guarded<T>(code: impl FnOnce() -> Result<T, SearchError>) -> Result<T, SearchError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(code))
        .unwrap_or_else(|_| Err(SearchError::Backend("the search panicked".to_owned())))
}
