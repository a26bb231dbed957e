//! What every table uses over two sliding windows, a fast one for quick changes and a slow one for trend: its load,
//! which is busy time, and its traffic, which is bytes.
//!
//! Each window is a ring of buckets. A bucket has a number, `time / width`; a window at time `now`
//! holds the bucket of `now` and the `buckets - 1` before it, so it forgets in steps of one width.
//! The rate is the window's sum over the time that it has really seen: from the table's first record or
//! the oldest bucket's start, whichever is later, but never less than one bucket, so that the first
//! query of a table is not taken for a burst.
//!
//! Invariants: time and bytes are never counted twice and never lost before their bucket leaves the window; a
//! `now` earlier than one already recorded is taken as that later one; tables come out in id order.
//! With 10 buckets a table costs about 400 bytes; one that was never recorded costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{TableId, Time};

settings! {
    /// Lengths and resolution of the windows.
    pub struct WindowConfig {
        /// Length of the fast window; default 10 s (arXiv 2605.10090).
        pub fast: Duration = Duration::from_secs(10),
        /// Length of the slow window; default 60 s (arXiv 2605.10090).
        pub slow: Duration = Duration::from_secs(60),
        /// Buckets in each window; default 10: the oldest tenth is forgotten at once, so a rate is at most
        /// a tenth of a window behind, for 16 bytes a bucket. 0 counts as 1.
        #[doc(hidden)]
        pub buckets: u32 = 10,
    }
}

impl WindowConfig {
    /// Width of one bucket of the fast window: the shortest time in which a rate can change for good.
    #[doc(hidden)]
    pub fn fast_bucket(&self) -> Duration {
        Duration::from_nanos(self.width(self.fast))
    }

    /// Nanoseconds of one bucket of a window of this length; at least 1.
    fn width(&self, length: Duration) -> u64 {
        (nanos(length) / u64::from(self.buckets.max(1))).max(1)
    }
}

/// What a table's queries used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time that cores were busy with them. Queries that were refused or expired count too, with the time that they
    /// would have taken; otherwise a flooded table would look as light as what its home can serve of it.
    pub busy: Duration,
    /// Bytes that they read, as far as the table reports them. Zero for a table that reports none.
    pub bytes: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.busy += other.busy;
        self.bytes += other.bytes;
    }
}

/// A table's load in core-seconds per second, or its traffic in bytes per second.
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
/// use chiplet_policy::{TableId, Time, Usage, UsageWindows, WindowConfig};
///
/// let mut windows = UsageWindows::new(WindowConfig::default());
/// let table = TableId { slot: 0, generation: 0 };
/// for second in 0..30 {
///     let usage = Usage { busy: Duration::from_millis(500), bytes: 1_000 };
///     windows.record(table, Time::from_secs(second), usage);
/// }
/// let now = Time::from_secs(30);
/// assert!((0.45..=0.55).contains(&windows.load(table, now).fast));
/// assert!((900.0..=1_100.0).contains(&windows.traffic(table, now).fast));
/// // Ten quiet seconds later the fast window is empty, the slow one still remembers.
/// let later = windows.traffic(table, Time::from_secs(40));
/// assert_eq!(later.fast, 0.0);
/// assert!(later.slow > 500.0);
/// ```
#[derive(Clone, Debug)]
pub struct UsageWindows {
    fast_width: u64,
    slow_width: u64,
    buckets: usize,
    tables: BTreeMap<TableId, Sums>,
    /// Those of which a window may hold something.
    busy: BTreeSet<TableId>,
}

impl UsageWindows {
    /// Windows that have seen nothing.
    pub fn new(config: WindowConfig) -> Self {
        Self {
            fast_width: config.width(config.fast),
            slow_width: config.width(config.slow),
            buckets: config.buckets.max(1) as usize,
            tables: BTreeMap::new(),
            busy: BTreeSet::new(),
        }
    }

    /// Adds what `table` used at `now` .
    pub fn record(&mut self, table: TableId, now: Time, usage: Usage) {
        self.busy.insert(table);
        let now = now.as_nanos().min(FAR);
        let sums = self.tables.entry(table).or_insert_with(|| Sums {
            since: now,
            last: now,
            rings: vec![Bucket::default(); 2 * self.buckets].into_boxed_slice(),
        });
        let now = now.max(sums.last);
        let (fast, slow) = sums.rings.split_at_mut(self.buckets);
        add(fast, self.fast_width, sums.last, now, usage);
        add(slow, self.slow_width, sums.last, now, usage);
        sums.last = now;
    }

    /// Leaves those tables out of [`UsageWindows::busy`] of which no window holds anything at `now`.
    pub(crate) fn forget_idle(&mut self, now: Time) {
        let (tables, buckets) = (&self.tables, self.buckets as u64);
        let widths = [self.fast_width, self.slow_width];
        self.busy.retain(|table| {
            tables.get(table).is_some_and(|sums| {
                let holds = |width| sums.last / width + buckets > now.as_nanos() / width;
                widths.into_iter().any(holds)
            })
        });
    }

    /// The tables of which a window may hold something, in id order: all others ask for nothing.
    pub(crate) fn busy(&self) -> impl Iterator<Item = TableId> + '_ {
        self.busy.iter().copied()
    }

    /// Load of `table` at `now`, in core-seconds per second; zero for one that was never recorded.
    pub fn load(&self, table: TableId, now: Time) -> Rates {
        let nanos = self.per_second(table, now, |bucket| bucket.busy);
        Rates {
            fast: nanos.fast / 1e9,
            slow: nanos.slow / 1e9,
        }
    }

    /// Traffic of `table` at `now`, in bytes per second; zero for one that was never recorded.
    pub fn traffic(&self, table: TableId, now: Time) -> Rates {
        self.per_second(table, now, |bucket| bucket.bytes)
    }

    /// Drops what is known of `table`, as when it is removed.
    pub fn forget(&mut self, table: TableId) {
        self.tables.remove(&table);
        self.busy.remove(&table);
    }

    /// Every table that has been recorded, in id order.
    pub fn tables(&self) -> impl Iterator<Item = TableId> + '_ {
        self.tables.keys().copied()
    }

    fn per_second(&self, table: TableId, now: Time, of: impl Fn(&Bucket) -> u64) -> Rates {
        let Some(sums) = self.tables.get(&table) else {
            return Rates::default();
        };
        let now = now.as_nanos().min(FAR).max(sums.last);
        let (fast, slow) = sums.rings.split_at(self.buckets);
        Rates {
            fast: rate(fast, self.fast_width, sums, now, &of),
            slow: rate(slow, self.slow_width, sums, now, &of),
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
    rings: Box<[Bucket]>,
}

/// What was used in one bucket's time.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Nanoseconds.
    busy: u64,
    bytes: u64,
}

/// Empties the buckets that time has passed over since `last`, then adds `usage` to that of `now`.
fn add(ring: &mut [Bucket], width: u64, last: u64, now: u64, usage: Usage) {
    let size = ring.len() as u64;
    let (newest, current) = (last / width, now / width);
    for number in (current - (current - newest).min(size) + 1)..=current {
        ring[(number % size) as usize] = Bucket::default();
    }
    let bucket = &mut ring[(current % size) as usize];
    bucket.busy = bucket.busy.saturating_add(nanos(usage.busy));
    bucket.bytes = bucket.bytes.saturating_add(usage.bytes);
}

/// What `of` counts of one ring, per second, at `now`, which is not before the last record.
fn rate(ring: &[Bucket], width: u64, sums: &Sums, now: u64, of: impl Fn(&Bucket) -> u64) -> f64 {
    let size = ring.len() as u64;
    let oldest = (now / width + 1).saturating_sub(size);
    let amount: f64 = (oldest..=sums.last / width)
        .rev()
        .take(ring.len())
        .map(|number| of(&ring[(number % size) as usize]) as f64)
        .sum();
    let seen_from = sums.since.max(oldest.saturating_mul(width));
    let span = now.saturating_sub(seen_from).max(width);
    amount * 1e9 / span as f64
}

/// The most nanoseconds that are counted: 292 years, so that sums of two never overflow.
const FAR: u64 = u64::MAX / 2;

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(FAR, |nanos| nanos.min(FAR))
}
