//! What a queue counts of one table.

/// What a queue saw of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Tasks taken in.
    pub accepted: u64,
    /// Tasks refused.
    pub shed: u64,
    /// Tasks that were cancelled in the queue, without a worker.
    pub cancelled: u64,
    /// Tasks that expired in the queue.
    pub expired: u64,
}

/// Where a reader of a queue's counters stands ([`Queue::intake_part`](super::Queue::intake_part)); the default is the
/// beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntakeAt {
    /// Orders that have been read.
    pub(super) orders: usize,
    /// Lanes of the next one that have been read.
    pub(super) lanes: usize,
}

impl Intake {
    /// Adds another table's counts.
    pub fn absorb(&mut self, other: Intake) {
        self.accepted += other.accepted;
        self.shed += other.shed;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
    }
}
