//! How often a thread without work, or without its answer, stays awake for a moment before it sleeps.

/// Times that are left out in a row, or forgiven, at most.
const MOST: i32 = 8;

/// After a time in vain it leaves out as many as have been in vain in a row. Each time that was not in vain before
/// those forgives one of them. So where nothing ever comes in time, it stays awake a ninth of the times. Where
/// something comes again, that is found out soon. Where something mostly comes, a few times in vain change nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpinBudget {
    /// Times in vain in a row; of times not in vain the negative.
    in_vain: i32,
    left_out: i32,
}

impl SpinBudget {
    /// Whether to stay awake this time.
    pub(super) fn tries(&mut self) -> bool {
        let tries = self.left_out <= 0;
        self.left_out -= i32::from(!tries);
        tries
    }

    /// It has stayed awake, and what it waited for `came`.
    pub(super) fn note(&mut self, came: bool) {
        self.in_vain = match came {
            true => (self.in_vain.min(0) - 1).max(-MOST),
            false => (self.in_vain + 1).min(MOST),
        };
        self.left_out = self.in_vain;
    }
}
