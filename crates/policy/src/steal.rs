//! The steal ladder: own queue, then a sibling in the same domain, then another domain at a price.
//!
//! 1. A core runs what is in its own queue.
//! 2. If that is empty, it takes from a sibling of its domain, whose cache is its own.
//! 3. Only when its *whole domain* has no work of its own does it look elsewhere, and then it takes a
//!    query only where that query would wait longer for a warm core than it loses on a cold cache.
//!
//! The price is counted in service times, so no clock is needed: a query at the back of `queued` others
//! waits about `queued / workers` service times for one of its home's cores, and it loses
//! `cold_factor - 1` service times by running elsewhere.

use chiplet_topology::DomainId;

/// Where a worker found its next task. Ordered as the ladder is climbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// In its own queue.
    Own,
    /// With a sibling of the same domain, or in the domain's queue.
    Domain,
    /// In another domain.
    Remote,
}

impl Rung {
    /// All rungs, lowest first.
    pub const ALL: [Self; 3] = [Self::Own, Self::Domain, Self::Remote];
}

/// What a worker should do next, as [`climb`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take from its own queue.
    Own,
    /// Take from its domain.
    Domain,
    /// Take from this other domain.
    Remote(DomainId),
}

impl Step {
    /// The rung that this step stands on.
    pub fn rung(self) -> Rung {
        match self {
            Self::Own => Rung::Own,
            Self::Domain => Rung::Domain,
            Self::Remote(_) => Rung::Remote,
        }
    }
}

/// A domain as the ladder sees it at one moment. Counts may be slightly stale: a wrong answer costs a
/// steal too many or too few, never a lost task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainLoad {
    /// Workers of the domain.
    pub workers: u32,
    /// Tasks that wait in the domain's queues.
    pub queued: u32,
    /// Workers that now run work of the domain's own tables; stolen work does not count.
    pub home_running: u32,
}

impl DomainLoad {
    /// Whether the domain has no work of its own, waiting or running.
    pub fn is_idle(&self) -> bool {
        self.queued == 0 && self.home_running == 0
    }

    /// Service times that a task at the back of the queue waits for one of the domain's workers.
    pub fn backlog(&self) -> f64 {
        f64::from(self.queued) / f64::from(self.workers.max(1))
    }
}

/// The price of crossing domains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StealConfig {
    /// How many times longer a query takes on a cold cache than on a warm one.
    ///
    /// Default 2.0. Two pinned threads on private L2s answered 100.7 k q/s with every table warm and
    /// 40-50 k q/s when tables were cold (a factor of 2.0 to 2.5, measured for this project); the whole
    /// system in arXiv 2605.10090 gained 1.4 from warm caches, of which not every query was cold before.
    /// DRAM latency over L3 latency on Genoa (110 / 15 ns) bounds it at 7. Below 1 or NaN counts as the
    /// default; infinity means never.
    pub cold_factor: f64,
}

impl Default for StealConfig {
    fn default() -> Self {
        Self { cold_factor: 2.0 }
    }
}

impl StealConfig {
    /// What a crossing costs, in service times.
    fn price(&self) -> f64 {
        let factor = self.cold_factor;
        let factor = if factor >= 1.0 {
            factor
        } else {
            Self::default().cold_factor
        };
        factor - 1.0
    }
}

/// Who may take work from another domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StealRule {
    /// Nobody: a worker runs what was given to it.
    Never,
    /// Any worker from any domain that has a task waiting, at no price: topology-blind, as bthread.
    Anywhere,
    /// The ladder, with [`may_cross`] on its third rung.
    Ladder,
}

/// Whether a worker of `thief`'s domain may take a task of `victim`'s: its whole domain is idle and the
/// task would wait longer at home than a cold cache costs here.
///
/// ```
/// use chiplet_policy::{DomainLoad, StealConfig, may_cross};
///
/// let config = StealConfig { cold_factor: 2.0 };
/// let idle = DomainLoad { workers: 8, queued: 0, home_running: 0 };
/// let victim = |queued| DomainLoad { workers: 8, queued, home_running: 8 };
/// assert!(!may_cross(idle, victim(8), &config)); // a core is free in one service time: wait
/// assert!(may_cross(idle, victim(9), &config));
/// let half_idle = DomainLoad { home_running: 1, ..idle };
/// assert!(!may_cross(half_idle, victim(1_000), &config));
/// ```
pub fn may_cross(thief: DomainLoad, victim: DomainLoad, config: &StealConfig) -> bool {
    thief.is_idle() && victim.queued >= crossing_backlog(victim.workers, config)
}

/// The smallest `queued` of a domain with `workers` workers at which an idle thief may cross: the first
/// that exceeds `workers * (cold_factor - 1)`. At least 1; 1 for a domain without workers, whose tasks
/// nobody else can run.
///
/// An executor can keep this number beside the queue and compare once for each push.
pub fn crossing_backlog(workers: u32, config: &StealConfig) -> u32 {
    if workers == 0 {
        return 1;
    }
    // A float too large for the integer becomes its maximum: in effect, never.
    let worth_waiting = f64::from(workers) * config.price();
    (worth_waiting as u32).saturating_add(1)
}

/// The domain that a worker of `thief` should take a task from, under `rule`.
///
/// `loads` is indexed by domain; `by_distance` names the other domains, nearest first; ones without an
/// entry in `loads`, and the thief itself, are skipped.
///
/// [`StealRule::Ladder`] looks at those that [`may_cross`] allows, nearest first, and a farther one
/// replaces the choice so far only if its backlog for each worker is more than a quarter longer: a
/// backlog is stale by the time it is read, the distance is not. So no backlog is more than a quarter
/// longer than the chosen one's. [`StealRule::Anywhere`] takes the longest backlog wherever it is, the
/// lowest domain of several.
pub fn choose_victim(
    thief: DomainId,
    loads: &[DomainLoad],
    by_distance: impl IntoIterator<Item = DomainId>,
    rule: StealRule,
    config: &StealConfig,
) -> Option<DomainId> {
    let load = |domain: DomainId| loads.get(domain.0 as usize).copied();
    let others = by_distance
        .into_iter()
        .filter(|&domain| domain != thief)
        .filter_map(|domain| Some((domain, load(domain)?)));
    match rule {
        StealRule::Never => None,
        StealRule::Anywhere => others
            .filter(|(_, victim)| victim.queued > 0)
            .min_by(|(a_id, a), (b_id, b)| b.backlog().total_cmp(&a.backlog()).then(a_id.cmp(b_id)))
            .map(|(domain, _)| domain),
        StealRule::Ladder => {
            let thief = load(thief)?;
            if !thief.is_idle() {
                return None;
            }
            let mut best: Option<(DomainId, f64)> = None;
            for (domain, victim) in others {
                let backlog = victim.backlog();
                let longer = best.is_none_or(|(_, other)| backlog > other * NEAR_TIE);
                if longer && may_cross(thief, victim, config) {
                    best = Some((domain, backlog));
                }
            }
            best.map(|(domain, _)| domain)
        }
    }
}

/// Backlogs within this factor of one another count as equal, and the nearer domain wins.
const NEAR_TIE: f64 = 1.25;

/// The next step of a worker whose own queue holds `own` tasks and whose domain holds `domain` more
/// that it may take. `victim` is asked, and asked only, when both are empty: no rung is ever skipped.
///
/// ```
/// use chiplet_policy::{Step, climb};
/// use chiplet_topology::DomainId;
///
/// assert_eq!(climb(2, 5, || Some(DomainId(1))), Some(Step::Own));
/// assert_eq!(climb(0, 5, || Some(DomainId(1))), Some(Step::Domain));
/// assert_eq!(climb(0, 0, || Some(DomainId(1))), Some(Step::Remote(DomainId(1))));
/// assert_eq!(climb(0, 0, || None), None);
/// ```
pub fn climb(own: usize, domain: usize, victim: impl FnOnce() -> Option<DomainId>) -> Option<Step> {
    if own > 0 {
        Some(Step::Own)
    } else if domain > 0 {
        Some(Step::Domain)
    } else {
        victim().map(Step::Remote)
    }
}
