//! Where reads were answered from.

/// Where blocks were found; where caches have sets, their lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    pub(crate) l2: u64,
    pub(crate) l3: u64,
    pub(crate) memory: u64,
}

impl Hits {
    pub(crate) fn all(&self) -> u64 {
        self.l2 + self.l3 + self.memory
    }

    /// The parts found in the L3 and in memory, if there are any blocks.
    pub(crate) fn parts(&self) -> Option<[f64; 2]> {
        let all = self.all() as f64;
        (all > 0.0).then(|| [self.l3 as f64 / all, self.memory as f64 / all])
    }
}

/// Cache lines read, by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lines {
    pub(crate) l2: f64,
    pub(crate) l3: f64,
    pub(crate) memory: f64,
}

impl Lines {
    pub(crate) fn add(&mut self, other: Lines) {
        self.l2 += other.l2;
        self.l3 += other.l3;
        self.memory += other.memory;
    }
}
