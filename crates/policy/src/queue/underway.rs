//! A task that is shared out among workers, beside those that wait.

use chiplet_table::Class;

use super::Queue;
use super::order::BURST;
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
    /// more than a burst, like a table that floods: whatever has come by now goes before its next piece.
    pub fn goes_before(&self, task: &Underway, now: Time) -> bool {
        let Some((class, front)) = self.front() else {
            return false;
        };
        if class != task.class {
            return task.class == Class::Bulk;
        }
        let is_long = now.since(task.began) > BURST;
        is_long || !front.is_flood && front.since < task.came.as_nanos()
    }
}
