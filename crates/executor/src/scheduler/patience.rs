//! How often a thread without work, or without its answer, stays awake for a moment before it sleeps.

/// Times that are left out in a row, at most.
const MOST: u32 = 8;

/// After a time in vain it leaves out as many as have been in vain in a row. So where nothing ever comes in time, it
/// takes a ninth of the processor time, and where something does again, that is found out soon.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    in_vain: u32,
    left_out: u32,
}

impl Patience {
    /// Whether to stay awake this time.
    pub(super) fn tries(&mut self) -> bool {
        let tries = self.left_out == 0;
        self.left_out = self.left_out.saturating_sub(1);
        tries
    }

    /// It has stayed awake, and what it waited for `came`.
    pub(super) fn note(&mut self, came: bool) {
        self.in_vain = match came {
            true => 0,
            false => (self.in_vain + 1).min(MOST),
        };
        self.left_out = self.in_vain;
    }
}
