//! Traffic of every table over two sliding windows: a fast one for quick changes, a slow one for trend.
//!
//! Each window is a ring of buckets. A bucket has a number, `time / width`; a window at time `now`
//! holds the bucket of `now` and the `buckets - 1` before it, so it forgets in steps of one width.
//! The rate is the window's sum over the time that it has really seen: from the table's first record or
//! the oldest bucket's start, whichever is later, but never less than one bucket, so that the first
//! query of a table is not taken for a burst.
//!
//! Invariants: bytes are never counted twice and never lost before their bucket leaves the window; a
//! `now` earlier than one already recorded is taken as that later one; tables come out in id order.
//! With 10 buckets a table costs about 250 bytes; one that was never recorded costs nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::TableId;

/// Lengths and resolution of the two windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// Length of the fast window; default 10 s (arXiv 2605.10090).
    pub fast: Duration,
    /// Length of the slow window; default 60 s (arXiv 2605.10090).
    pub slow: Duration,
    /// Buckets in each window; default 10: the oldest tenth is forgotten at once, so a rate is at most
    /// a tenth of a window behind, for 8 bytes a bucket. 0 counts as 1.
    pub buckets: u32,
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self {
            fast: Duration::from_secs(10),
            slow: Duration::from_secs(60),
            buckets: 10,
        }
    }
}

impl WindowConfig {
    /// Width of one bucket of the fast window: the shortest time in which a rate can change for good.
    pub fn fast_bucket(&self) -> Duration {
        Duration::from_nanos(self.width(self.fast))
    }

    /// Nanoseconds of one bucket of a window of this length; at least 1.
    fn width(&self, length: Duration) -> u64 {
        (nanos(length) / u64::from(self.buckets.max(1))).max(1)
    }
}

/// Traffic of a table, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Over the fast window.
    pub fast: f64,
    /// Over the slow window.
    pub slow: f64,
}

/// The sliding sums of all tables.
///
/// ```
/// use std::time::Duration;
/// use chiplet_policy::{TableId, TrafficWindows, WindowConfig};
///
/// let mut windows = TrafficWindows::new(WindowConfig::default());
/// let table = TableId { slot: 0, generation: 0 };
/// for second in 0..30 {
///     windows.record(table, Duration::from_secs(second), 1_000);
/// }
/// let rates = windows.rates(table, Duration::from_secs(30));
/// assert!((900.0..=1_100.0).contains(&rates.fast));
/// // Ten quiet seconds later the fast window is empty, the slow one still remembers.
/// let later = windows.rates(table, Duration::from_secs(40));
/// assert_eq!(later.fast, 0.0);
/// assert!(later.slow > 500.0);
/// ```
#[derive(Clone, Debug)]
pub struct TrafficWindows {
    fast_width: u64,
    slow_width: u64,
    buckets: usize,
    tables: BTreeMap<TableId, Sums>,
}

impl TrafficWindows {
    /// Windows that have seen nothing.
    pub fn new(config: WindowConfig) -> Self {
        Self {
            fast_width: config.width(config.fast),
            slow_width: config.width(config.slow),
            buckets: config.buckets.max(1) as usize,
            tables: BTreeMap::new(),
        }
    }

    /// Adds `bytes` that `table` pulled at `now` (time since the executor's start).
    pub fn record(&mut self, table: TableId, now: Duration, bytes: u64) {
        let now = nanos(now);
        let sums = self.tables.entry(table).or_insert_with(|| Sums {
            since: now,
            last: now,
            rings: vec![0; 2 * self.buckets].into_boxed_slice(),
        });
        let now = now.max(sums.last);
        let (fast, slow) = sums.rings.split_at_mut(self.buckets);
        add(fast, self.fast_width, sums.last, now, bytes);
        add(slow, self.slow_width, sums.last, now, bytes);
        sums.last = now;
    }

    /// Traffic of `table` at `now`; zero for one that was never recorded.
    pub fn rates(&self, table: TableId, now: Duration) -> Rates {
        self.tables
            .get(&table)
            .map_or_else(Rates::default, |sums| self.rates_of(sums, nanos(now)))
    }

    /// Drops what is known of `table`, as when it is removed.
    pub fn forget(&mut self, table: TableId) {
        self.tables.remove(&table);
    }

    /// Every table that has been recorded, in id order, with its traffic at `now`.
    pub fn iter(&self, now: Duration) -> impl Iterator<Item = (TableId, Rates)> + '_ {
        let now = nanos(now);
        self.tables
            .iter()
            .map(move |(&table, sums)| (table, self.rates_of(sums, now)))
    }

    /// Tables that hold memory here.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether nothing has been recorded since the start, or all of it forgotten.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    fn rates_of(&self, sums: &Sums, now: u64) -> Rates {
        let now = now.max(sums.last);
        let (fast, slow) = sums.rings.split_at(self.buckets);
        Rates {
            fast: rate(fast, self.fast_width, sums.last, sums.since, now),
            slow: rate(slow, self.slow_width, sums.last, sums.since, now),
        }
    }
}

/// One table's two rings, the fast one first; times in nanoseconds since the executor's start.
#[derive(Clone, Debug)]
struct Sums {
    /// First record.
    since: u64,
    /// Latest record; its bucket is the newest that holds anything.
    last: u64,
    rings: Box<[u64]>,
}

/// Empties the buckets that time has passed over since `last`, then adds `bytes` to that of `now`.
fn add(ring: &mut [u64], width: u64, last: u64, now: u64, bytes: u64) {
    let size = ring.len() as u64;
    let (newest, current) = (last / width, now / width);
    for number in (current - (current - newest).min(size) + 1)..=current {
        ring[(number % size) as usize] = 0;
    }
    let bucket = &mut ring[(current % size) as usize];
    *bucket = bucket.saturating_add(bytes);
}

/// Bytes per second of one ring at `now >= last`.
fn rate(ring: &[u64], width: u64, last: u64, since: u64, now: u64) -> f64 {
    let size = ring.len() as u64;
    let oldest = (now / width + 1).saturating_sub(size);
    let bytes: f64 = (oldest..=last / width)
        .rev()
        .take(ring.len())
        .map(|number| ring[(number % size) as usize] as f64)
        .sum();
    let seen_from = since.max(oldest.saturating_mul(width));
    let span = now.saturating_sub(seen_from).max(width);
    bytes * 1e9 / span as f64
}

/// Nanoseconds in a `u64`, at most half its range so that sums of two never overflow: 292 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(u64::MAX / 2, |nanos| nanos.min(u64::MAX / 2))
}
