//! A task that is shared out among workers, beside those that wait.

use chiplet_table::Class;

use super::Queue;
use super::order::TOO_FAST;
use crate::Time;

/// A task that runs in pieces, on whoever takes the next one.
#[derive(Clone, Copy, Debug)]
pub struct Underway {
    /// How urgent it is.
    pub class: Class,
    /// When it came.
    pub came: Time,
    /// When it was begun.
    pub began: Time,
}

impl<T> Queue<T> {
    /// Whether the task that is next goes before another piece of `task` at `now`, for a worker that may leave it. Its
    /// own worker goes on with it at any rate, so it never stands still.
    ///
    /// A piece stands where a task would. It came when its task came, and a bulk one gives way. So what has been
    /// started goes before what came later, and ends soon. But a task that has kept several workers for long asks for
    /// more than its share, like a table that floods: its next piece is due only now, and whatever has come by now goes
    /// before it.
    pub fn goes_before(&self, task: &Underway, now: Time) -> bool {
        let at = now.as_nanos();
        let fronts = self.fronts(at);
        let Some((class, front)) = self.next(fronts) else {
            return false;
        };
        let is_long = now.since(task.began) > TOO_FAST;
        let came = if is_long { now } else { task.came };
        self.place(class, front.key) < self.place(task.class, came.as_nanos())
    }
}
