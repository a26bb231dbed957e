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

impl Intake {
    /// Adds another table's counts.
    pub fn absorb(&mut self, other: Intake) {
        self.accepted += other.accepted;
        self.shed += other.shed;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
    }
}
