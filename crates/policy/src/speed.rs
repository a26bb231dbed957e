//! What a domain can serve, from what workers have measured.

/// How fast one busy worker of a domain reads, as measured lately.
///
/// ```
/// use chiplet_policy::Speed;
///
/// let mut speed = Speed::default();
/// assert_eq!(speed.per_worker(), None);
/// speed.add(3e9, 2.0);
/// assert_eq!(speed.per_worker(), Some(1.5e9));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Speed {
    bytes: f64,
    seconds: f64,
}

impl Speed {
    /// What each tick leaves of what was known: half is left after about seven. Steady against one odd tick, quick to
    /// follow a new mix of tables.
    const KEEP: f64 = 0.9;

    /// Busy seconds below which nothing is told.
    const ENOUGH: f64 = 0.001;

    /// Workers that were busy for so many seconds since the last tick have read so many bytes.
    pub fn add(&mut self, bytes: f64, seconds: f64) {
        self.bytes = self.bytes * Self::KEEP + bytes;
        self.seconds = self.seconds * Self::KEEP + seconds;
    }

    /// Bytes per second of one busy worker, once there is enough to tell.
    pub fn per_worker(&self) -> Option<f64> {
        let known = self.seconds > Self::ENOUGH && self.bytes > 0.0;
        known.then(|| self.bytes / self.seconds)
    }
}
