//! The matrix: how long a line takes from one core to another, as far as it was measured.

/// What was measured of one pair of cores, in nanoseconds for one pass of the line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The best of several runs: whatever else the machine does only makes runs longer.
    pub best: f64,
    /// The median of the runs.
    pub typical: f64,
}

impl Sample {
    /// One that came out alike in all runs.
    pub fn exact(nanos: f64) -> Self {
        Self {
            best: nanos,
            typical: nanos,
        }
    }
}

/// Latencies between cores, the same both ways.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    cpus: Vec<u32>,
    /// Of `a` and `b < a` at `a * (a - 1) / 2 + b`.
    samples: Vec<Option<Sample>>,
}

impl Latencies {
    /// An empty matrix of these cores, each named by one of its cpus.
    pub fn new(cpus: Vec<u32>) -> Self {
        let pairs = cpus.len() * cpus.len().saturating_sub(1) / 2;
        Self {
            cpus,
            samples: vec![None; pairs],
        }
    }

    /// The cores' cpus, in the order of rows and columns.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// What was measured between the cores at two positions; `None` if they are one core or were not measured.
    ///
    /// # Panics
    /// If a position is beyond the cores.
    pub fn get(&self, a: usize, b: usize) -> Option<Sample> {
        self.at(a, b).and_then(|at| self.samples[at])
    }

    /// Enters what was measured between the cores at two positions; of several measurements the best is kept. That of a
    /// core with itself is not kept, nor is what is no positive number.
    ///
    /// # Panics
    /// If a position is beyond the cores.
    pub fn set(&mut self, a: usize, b: usize, sample: Sample) {
        let sound = |nanos: f64| nanos.is_finite() && nanos > 0.0;
        if let Some(at) = self.at(a, b)
            && sound(sample.best)
            && sound(sample.typical)
            && self.samples[at].is_none_or(|kept| sample.best < kept.best)
        {
            self.samples[at] = Some(sample);
        }
    }

    fn at(&self, a: usize, b: usize) -> Option<usize> {
        let (high, low) = (a.max(b), a.min(b));
        assert!(high < self.cpus.len(), "there is no core {high}");
        (high > low).then(|| high * (high - 1) / 2 + low)
    }

    /// The pairs that were measured, by position.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize, Sample)> + '_ {
        let cores = self.cpus.len();
        let all = (1..cores).flat_map(|a| (0..a).map(move |b| (a, b)));
        all.filter_map(|(a, b)| Some((a, b, self.get(a, b)?)))
    }
}
