//! The steal order: own queue, then a sibling in the same domain, then another domain at a price.
//!
//! 1. A core runs what is in its own queue.
//! 2. If that is empty, it takes from a sibling of its domain, whose cache is its own.
//! 3. Only if its domain has nothing waiting does it look elsewhere, and then it takes a task only where the tasks wait
//!    longer for a warm core than a cold cache costs ([`is_worth_crossing`]), and only if its domain's own tables need
//!    few workers ([`can_help`]).
//!
//! Waits and prices are times. A table's mean service time stands for each of its waiting tasks.

use std::time::Duration;

/// What waits in a domain's queue, as a worker of another domain sees it. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    /// Workers that serve the queue.
    pub workers: u32,
    /// Tasks that wait.
    pub queued: u32,
    /// What all of them will take of the workers' time, by the mean service times of their tables.
    pub work: u64,
    /// Mean service time of the table whose task would be taken; zero while none of its tasks has ended.
    pub service: u64,
    /// How many times as long that table's tasks take away from home, in parts of [`UNIT_FACTOR`]; of all the queue's
    /// tables, if too few of its tasks were measured.
    pub cold: Option<u32>,
    /// How long the oldest task has waited.
    pub age: u64,
}

settings! {
    /// The price of crossing domains.
    pub struct StealConfig {
        /// How many times longer a query takes on a cold cache than on a warm one, until that is measured for its
        /// table.
        ///
        /// Default 2.0. Two pinned threads on private L2s answered 100.7 k q/s with every table warm and
        /// 40-50 k q/s when tables were cold (a factor of 2.0 to 2.5, measured for this project); the whole
        /// system in arXiv 2605.10090 gained 1.4 from warm caches, of which not every query was cold before.
        /// DRAM latency over L3 latency on Genoa (110 / 15 ns) bounds it at 7. Below 1, infinite or NaN counts
        /// as the default. With `None` nothing ever crosses.
        pub cold_factor: Option<f64> = Some(Self::COLD_FACTOR),
        /// The most that a cold cache can cost a task, however long it runs.
        ///
        /// Default 3 ms: one core fills an L3 of 32 MiB in that time at 11 GB/s.
        #[doc(hidden)]
        pub cold_limit: Duration = Duration::from_millis(3),
        /// A task that has waited this long may be taken whatever the price.
        ///
        /// Default 4 ms. Together with the interval of the timed look (2 ms) it bounds how long a task waits while a
        /// worker that may run it idles.
        pub max_wait: Duration = Duration::from_millis(4),
    }
}

impl StealConfig {
    /// The default of [`StealConfig::cold_factor`].
    const COLD_FACTOR: f64 = 2.0;

    /// Whether anything may cross.
    #[doc(hidden)]
    pub fn is_ever(&self) -> bool {
        self.cold_factor.is_some()
    }

    /// The same in whole numbers.
    pub(crate) fn prices(&self) -> Prices {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let is_sane = |factor: &f64| (1.0..f64::INFINITY).contains(factor);
        let factor = self.cold_factor.filter(is_sane);
        Prices {
            is_ever: self.is_ever(),
            extra: ((factor.unwrap_or(Self::COLD_FACTOR) - 1.0) * f64::from(UNIT_FACTOR)) as u64,
            limit: nanos(self.cold_limit),
            max_wait: nanos(self.max_wait),
        }
    }
}

/// A factor of 1, where factors are whole numbers.
pub const UNIT_FACTOR: u32 = 1 << 10;

/// [`StealConfig`] in nanoseconds and parts of [`UNIT_FACTOR`], as every push and take asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prices {
    is_ever: bool,
    /// What a crossing costs in service times and parts of [`UNIT_FACTOR`], until that is measured.
    extra: u64,
    limit: u64,
    pub(crate) max_wait: u64,
}

impl Prices {
    /// What a cold cache costs a task of this queue, at most [`StealConfig::cold_limit`]. Zero while nothing is known
    /// of its table's service time.
    #[inline]
    pub(crate) fn of(&self, backlog: &Backlog) -> u64 {
        let extra = match backlog.cold {
            Some(factor) => u64::from(factor.max(LEAST_COLD) - UNIT_FACTOR),
            None => self.extra,
        };
        (backlog.service.saturating_mul(extra) / u64::from(UNIT_FACTOR)).min(self.limit)
    }

    /// [`is_worth_crossing`], where a cold cache costs `price`.
    #[inline]
    pub(crate) fn are_worth(&self, backlog: &Backlog, price: u64) -> bool {
        if backlog.queued == 0 || !self.is_ever {
            return false;
        }
        if backlog.workers == 0 || backlog.age >= self.max_wait {
            return true;
        }
        let workers = u64::from(backlog.workers);
        match backlog.service {
            0 => {
                u64::from(backlog.queued) * u64::from(UNIT_FACTOR)
                    > workers.saturating_mul(self.extra)
            }
            _ => backlog.work > workers.saturating_mul(price),
        }
    }
}

/// A measured cold factor counts as at least this, 1.25 times. What a task reads away from home also evicts what the
/// tables there need, and that is not in its own time.
pub const LEAST_COLD: u32 = 5 * UNIT_FACTOR / 4;

/// Whether an idle worker of another domain should take a task of this queue: the task at its back would wait longer
/// than a cold cache costs, or the oldest has waited for [`StealConfig::max_wait`].
///
/// While nothing is known of the table's service time, tasks are counted instead: worth it if more wait than
/// `workers * (cold_factor - 1)`.
///
/// ```
/// use chiplet_policy::{Backlog, StealConfig, is_worth_crossing};
///
/// let config = StealConfig::new().cold_factor(Some(2.0));
/// let service = 100_000;
/// let queue = |queued| Backlog { workers: 8, queued, work: u64::from(queued) * service, service, ..Backlog::default()
/// }; assert!(!is_worth_crossing(&queue(8), &config)); // a core is free in one service time: wait
/// assert!(is_worth_crossing(&queue(9), &config));
/// let old = Backlog { age: 4_000_000, ..queue(1) };
/// assert!(is_worth_crossing(&old, &config));
/// ```
pub fn is_worth_crossing(backlog: &Backlog, config: &StealConfig) -> bool {
    let prices = config.prices();
    prices.are_worth(backlog, prices.of(backlog))
}

/// Whether a new task should go to another domain's queue although nobody is idle there: it waits `home` at home,
/// `other` there, and pays `price` for a cold cache.
///
/// Only if the wait at home is a twenty-fourth longer, and by several prices. Queues of domains that are equally loaded
/// differ by chance: with a number of queries kept outstanding one of two queues is as likely long as short, and p99 is
/// up to twice that of one common queue. Few tasks that go over keep them alike (measured with 256 waiting for each
/// worker: 0.2 % of them), so affinity hardly suffers.
///
/// ```
/// use std::time::Duration;
/// use chiplet_policy::is_worth_rebalancing;
///
/// let [home, other, price] = [3_000, 2_000, 20].map(Duration::from_micros);
/// assert!(is_worth_rebalancing(home, other, price));
/// assert!(!is_worth_rebalancing(home, other, 20 * price));
/// assert!(!is_worth_rebalancing(home, home, price));
/// ```
pub fn is_worth_rebalancing(home: Duration, other: Duration, price: Duration) -> bool {
    home > other + other / EVEN + EVENING_PRICES * price
}

/// Whether a busy worker should take the next task of another domain's queue before its own: it has waited for `other`,
/// its own for `own`, and a cold cache costs `price`.
///
/// Queues of equal length stay alike by [`is_worth_rebalancing`]. One falls behind all the same when its workers stop,
/// because the system runs something else on their cores or a task takes much longer than usual. What waits there is
/// then older than anything elsewhere, and nobody is idle.
///
/// Twice the own queue's age is beyond what runs of one table and [`is_worth_rebalancing`] leave. With a fourth more
/// instead of twice, one task in twelve crossed at saturation and throughput fell by 5-9 % (8 tables of 1,500 x 64, two
/// domains of one core).
///
/// ```
/// use std::time::Duration;
/// use chiplet_policy::is_worth_stealing_while_busy;
///
/// let [own, other, price] = [3_000, 7_000, 20].map(Duration::from_micros);
/// assert!(is_worth_stealing_while_busy(own, other, price));
/// assert!(!is_worth_stealing_while_busy(own, other, 40 * price));
/// assert!(!is_worth_stealing_while_busy(other, own, price));
/// ```
pub fn is_worth_stealing_while_busy(own: Duration, other: Duration, price: Duration) -> bool {
    other > 2 * own + EVENING_PRICES * price
}

/// Waits that differ by less than this part of the shorter one are alike.
const EVEN: u32 = 24;

/// Prices that a task which goes to another busy domain must save. A query of ten others loses nothing that anybody
/// sees by waiting for one more.
const EVENING_PRICES: u32 = 4;

/// The workers of a domain, by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staff {
    /// All that are not standing by.
    pub workers: u32,
    /// Those without a task.
    pub idle: u32,
    /// Those that run a task of the domain's own. The others help elsewhere.
    pub at_home: u32,
}

/// Whether a domain's idle workers may help others: at most a quarter of its workers, rounded up, run tasks of its own
/// tables.
///
/// Once its own tables take longer, because what it takes from others evicts them, more of its workers are at home, and
/// it helps no more. A larger part serves lists that half fill the machine worse, a smaller one leaves more to wait
/// (modelled; results/lab/2026-11/rules.md).
///
/// ```
/// use chiplet_policy::{Staff, can_help};
/// assert!(can_help(&Staff { workers: 8, idle: 6, at_home: 2 }));
/// assert!(!can_help(&Staff { workers: 8, idle: 5, at_home: 3 }));
/// assert!(can_help(&Staff { workers: 1, idle: 1, at_home: 0 }));
/// ```
pub fn can_help(staff: &Staff) -> bool {
    staff.idle > 0 && staff.at_home <= staff.workers.div_ceil(4)
}
