//! A task that runs its own code on several workers: `Context::par_map`.
//!
//! The parts stay in one place. The worker that runs the task takes one after the other, and so does every sibling
//! that has accepted an invitation. So the worker never waits for a part that nobody has begun: if none comes, it
//! runs all of them itself. When none is left to begin, it waits for those that siblings are inside, which are at
//! work on them: who waits for whom follows how the parts are nested, so nobody waits in a circle.

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::{StealLevel, Time};
use chiplet_table::Context;
use chiplet_table::host::{Host, Part, Tally, contain, context, tally};

use super::in_context;
use crate::engine::stats::Note;
use crate::engine::task::{Shared, Task};
use crate::engine::worker::Worker;
use crate::sync::{Condvar, Mutex, PAUSES, Step, left_out, pause};

/// Parts of a task, and how far they are.
struct Parts {
    task: Arc<dyn Task>,
    /// When that was begun.
    began: Time,
    count: usize,
    progress: Mutex<Progress>,
    /// The last worker besides the task's own has left.
    left: Condvar,
}

struct Progress {
    /// Dropped by the task's worker at the end, though an invitation may lie about for longer.
    code: Option<Arc<Part>>,
    /// The first part that nobody has begun; their number if no more is to begin.
    next: usize,
    /// Workers that run parts, besides the task's own.
    inside: usize,
    /// The task's worker waits for them.
    awaited: bool,
    /// What the other workers have used.
    used: Tally,
}

/// Runs `code` for each of `0..count` on the worker of `task`, with contexts of `host`, and on siblings that come.
/// Returns what was used when all parts that were begun have ended.
pub(super) fn run(
    worker: &Worker,
    task: Arc<dyn Task>,
    host: &dyn Host,
    (count, code): (usize, Arc<Part>),
) -> Tally {
    let others = host.helpers().min(count.saturating_sub(1));
    let parts = Arc::new(Parts::new(task, worker.began, count, code));
    let shared = Arc::clone(&parts) as Arc<dyn Shared>;
    worker.invite(&shared, others, others);
    drop(shared);
    let mut context = context(host);
    while let Some((part, code)) = parts.begin(false) {
        parts.run(part, code, &mut context);
    }
    parts.await_others();
    let mut used = tally(&context);
    used.add(parts.finish());
    used
}

impl Parts {
    fn new(task: Arc<dyn Task>, began: Time, count: usize, code: Arc<Part>) -> Self {
        let progress = Progress {
            code: Some(code),
            next: 0,
            inside: 0,
            awaited: false,
            used: Tally::default(),
        };
        Self {
            task,
            began,
            count,
            progress: Mutex::new(progress),
            left: Condvar::default(),
        }
    }

    /// Takes the next part. A worker that `enters` has to [`Parts::leave`] if it gets one.
    fn begin(&self, enters: bool) -> Option<(usize, Arc<Part>)> {
        let mut progress = self.progress.lock();
        let code = progress.code.clone()?;
        let part = progress.next;
        if part >= self.count {
            return None;
        }
        progress.next += 1;
        progress.inside += usize::from(enters);
        Some((part, code))
    }

    /// Whether a worker that helps should leave for a task that waits, while parts are left.
    fn gives_way(&self, worker: &Worker) -> bool {
        let header = self.task.header();
        worker.gives_way(header.class, header.accepted, self.began) && self.is_any_left()
    }

    /// Whether a part is left that nobody has begun.
    fn is_any_left(&self) -> bool {
        self.progress.lock().next < self.count
    }

    fn run(&self, part: usize, code: Arc<Part>, context: &mut Context<'_>) {
        let goes_on = code(part, context).is_continue();
        // Before the part counts as ended: then only the task's worker refers to it.
        drop(code);
        if !goes_on {
            self.progress.lock().next = self.count;
        }
    }

    /// A worker that has entered leaves, having counted its time.
    fn leave(&self, used: Tally) {
        let wakes = {
            let mut progress = self.progress.lock();
            progress.inside -= 1;
            progress.used.add(used);
            progress.inside == 0 && progress.awaited
        };
        if wakes && !left_out(Step::LastPartWakes) {
            self.left.notify_one();
        }
    }

    /// Waits until all others have left. No part is left to begin, so nobody enters any more.
    fn await_others(&self) {
        // They have all begun, so the last of them is often about to end.
        for _ in 0..PAUSES {
            if self.progress.lock().inside == 0 {
                return;
            }
            pause();
        }
        let mut progress = self.progress.lock();
        progress.awaited = true;
        while progress.inside > 0 {
            progress = self.left.wait(progress);
        }
    }

    /// What the others have used, once they have left. Nobody refers to the code after this.
    fn finish(&self) -> Tally {
        let (code, used) = {
            let mut progress = self.progress.lock();
            (progress.code.take(), progress.used)
        };
        contain(|| drop(code));
        used
    }
}

impl Shared for Parts {
    fn is_open(&self) -> bool {
        self.is_any_left()
    }

    fn join(self: Arc<Self>, worker: &mut Worker, level: StealLevel) -> bool {
        if self.gives_way(worker) {
            return true;
        }
        let mut begun = self.begin(true);
        if begun.is_none() {
            return false;
        }
        let started = worker.now();
        worker.take_part(self.began);
        let mut gives_way = false;
        let ((), mut used) = in_context(worker, &self.task, |context| {
            while let Some((part, code)) = begun.take() {
                worker.counts.begun(level);
                self.run(part, code, context);
                gives_way = self.gives_way(worker);
                if !gives_way {
                    begun = self.begin(false);
                }
            }
        });
        let ended = worker.now();
        worker.set_clock(ended);
        let busy = used.busy(ended.since(started));
        // The task's own worker does not wait for that.
        used.blocked = Duration::ZERO;
        // The bytes are counted by the task, with its own.
        let table = self.task.header().entry.id;
        worker.note(Note::part(table, 0, busy));
        used.helped += busy;
        self.leave(used);
        gives_way
    }
}
