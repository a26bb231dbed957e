//! When a placement may change, and what keeps two placements from alternating.
//!
//! The planner finds reason and gain of a remap. [`Trigger`] adds the brakes; it knows moves and times, not the load:
//!
//! 1. **Pause.** After a remap the next one waits for [`cooldown`](TriggerConfig::cooldown), so that the fast window
//!    shows the new placement alone. A fifth of it is enough if the last second asked a home for more than its time.
//! 2. **Strain.** Every remap raises the strain by one; each [`horizon`](TriggerConfig::horizon) lowers it by one.
//!    Above [`burst`](TriggerConfig::burst) nothing shortens the pause, and each further step doubles it, up to one
//!    horizon.
//! 3. **Returns.** A remap that takes a table back to a domain which it left less than a horizon ago must be a gain in
//!    the slow window too, and lifts the strain above `burst` at once.
//!
//! **Bound.** At some strain `s` the pause is a whole horizon. A remap below `s` raises the strain, and one unit drains
//! per horizon: at most `s + t / horizon` in time `t`. One at `s` is followed by a horizon's pause: at most
//! `1 + t / horizon`. Together **at most `s + 1 + 2 t / horizon` remaps, whatever the load
//! does**: with the defaults 10, and 24 for each further hour.
//!
//! **Still followed.** At little strain a lasting change is followed once the fast window shows it and the pause ends
//! (10 s by default). At worst it takes two horizons: the first remap may still make room for load that alternated.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use chiplet_topology::DomainId;

use crate::{Move, TableId, Time};

/// A home that is asked for more than its time waits for this part of the cooldown: by default two of the seconds that
/// show it, of which the second is of the new placement alone.
const URGENT: u32 = 5;

settings! {
    /// Thresholds and brakes of a remap. A float that is NaN or negative is replaced by its default.
    pub struct TriggerConfig {
        /// Imbalance (busiest domain over mean, less 1, per core) in the fast window that calls for a remap.
        ///
        /// Default 0.5: ten seconds of a few hundred heavy-tailed queries vary by some tens of percent by
        /// themselves; half above the mean is a domain at 100 % while the machine is at 67 %.
        #[doc(hidden)]
        pub fast_threshold: f64 = 0.5,
        /// The same in the slow window. Default 0.2: six times the data, so less than half the noise.
        #[doc(hidden)]
        pub slow_threshold: f64 = 0.2,
        /// Part by which a new placement must lower the predicted wait; where tables are placed by traffic, the traffic
        /// of the busiest domain. Default 0.1, for the reason given at
        /// [`MapperConfig::stay`](crate::MapperConfig::stay).
        #[doc(hidden)]
        pub min_gain: f64 = 0.1,
        /// Where tables are placed by time, by how much a new placement must lower the predicted mean wait of the
        /// domains that it changes, in mean service times ([`predicted_wait`](crate::predicted_wait)).
        ///
        /// Default 0.1: a query on a cold cache takes about one service time longer, so the move is earned back by ten
        /// queries for each that runs cold. At low utilisation nobody waits so long, and nothing moves: a domain of
        /// eight cores has to be busy for two thirds of its time before there is as much to gain.
        ///
        /// A cache that holds a part of a table saves that part at most, so less is asked for where tables move that
        /// exceed it: the mean of that part, by load. From 50 caches on it is a fiftieth, which eight cores have to
        /// gain when they are busy for a quarter of their time.
        #[doc(hidden)]
        pub min_wait: f64 = 0.1,
        /// Shortest time between two remaps, and from the start to the first; a fifth of it where a home is asked for
        /// more than its time. Default 10 s, the fast window: a placement is judged by load that it has shaped itself.
        /// `None` keeps the placement still.
        pub cooldown: Option<Duration> = Some(Duration::from_secs(10)),
        /// How far back the trigger remembers: the longest pause, the time in which one unit of strain
        /// drains, and how long a home counts as just left. Default 300 s, five slow windows: a pattern that
        /// repeats within it is an alternation to sit out, a slower one a change worth following. Never
        /// shorter than the cooldown.
        #[doc(hidden)]
        pub horizon: Duration = Duration::from_secs(300),
        /// Remaps in a row that pause for no more than `cooldown`; `None` is no brake but that. Default 4: a table
        /// whose load was capped by its home needs two or three to find its number of homes.
        #[doc(hidden)]
        pub burst: Option<u32> = Some(4),
    }
}

impl TriggerConfig {
    /// The shortest pause; for ever if the placement is to keep still.
    fn shortest(&self) -> Duration {
        self.cooldown.unwrap_or(Duration::MAX)
    }

    /// The pause where a home is asked for more than its time and the strain is low.
    fn urgent(&self) -> Duration {
        self.cooldown
            .map_or(Duration::MAX, |cooldown| cooldown / URGENT)
    }

    /// The longest pause.
    fn longest(&self) -> Duration {
        self.horizon.max(self.shortest())
    }

    /// [`TriggerConfig::burst`] as a number that no strain exceeds if there is no brake.
    fn most_burst(&self) -> u32 {
        self.burst.unwrap_or(u32::MAX)
    }

    /// How long the next remap must wait at this strain.
    fn pause(&self, strain: u32) -> Duration {
        self.pause_after(strain.saturating_sub(self.most_burst()))
    }

    /// The pause, doubled so many times.
    fn pause_after(&self, doublings: u32) -> Duration {
        let (shortest, longest) = (self.shortest(), self.longest());
        // A cooldown of zero could be doubled for ever.
        let least = shortest.max(longest / 1024).max(Duration::from_nanos(1));
        2_u32
            .checked_pow(doublings)
            .and_then(|factor| least.checked_mul(factor))
            .unwrap_or(longest)
            .min(longest)
            .max(shortest)
    }

    /// This configuration with every senseless value replaced by its default.
    pub(crate) fn sane(self) -> Self {
        let or = |value: f64, fallback: f64| if value >= 0.0 { value } else { fallback };
        let default = Self::default();
        Self {
            fast_threshold: or(self.fast_threshold, default.fast_threshold),
            slow_threshold: or(self.slow_threshold, default.slow_threshold),
            min_gain: or(self.min_gain, default.min_gain),
            min_wait: or(self.min_wait, default.min_wait),
            horizon: self.longest(),
            ..self
        }
    }
}

/// Why a placement changed. Imbalances are of the busiest domain over the mean, less 1, per core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RemapReason {
    /// In the last second a home was asked for all of its time, or more.
    Overfull {
        /// What the busiest domain was asked for under the old placement, as a part of its time.
        before: f64,
        /// What it is asked for under the new one.
        after: f64,
    },
    /// The fast window showed one domain far above the mean.
    FastImbalance {
        /// Imbalance under the old placement.
        before: f64,
        /// Imbalance of the same traffic under the new one.
        after: f64,
    },
    /// The slow window showed one domain above the mean.
    SlowImbalance {
        /// Imbalance under the old placement.
        before: f64,
        /// Imbalance of the same traffic under the new one.
        after: f64,
    },
    /// A table needed more homes than it had.
    Saturated {
        /// The table; the hottest, if there were several.
        table: TableId,
        /// Its number of homes before.
        homes_before: usize,
        /// And now.
        homes_after: usize,
    },
    /// A table had more homes than it needed any longer.
    Relaxed {
        /// The table; the hottest, if there were several.
        table: TableId,
        /// Its number of homes before.
        homes_before: usize,
        /// And now.
        homes_after: usize,
    },
    /// Workers came or went with the cpus that may be used ([`Planner::resize`](crate::Planner::resize)).
    Resized {
        /// Workers before.
        workers_before: u32,
        /// And now.
        workers_after: u32,
    },
}

impl fmt::Display for RemapReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut busiest = |before: &str, of: &str, parts: (f64, f64)| {
            let (was, is) = (parts.0 * 100.0, parts.1 * 100.0);
            write!(f, "{before} {was:.0} % {of}, now {is:.0} %")
        };
        match *self {
            Self::Overfull { before, after } => busiest(
                "overload: the busiest domain was asked for",
                "of its time",
                (before, after),
            ),
            Self::FastImbalance { before, after } => busiest(
                "quick change: the busiest domain was",
                "above the mean",
                (before, after),
            ),
            Self::SlowImbalance { before, after } => busiest(
                "trend: the busiest domain was",
                "above the mean",
                (before, after),
            ),
            Self::Saturated {
                table,
                homes_before,
                homes_after,
            } => write!(
                f,
                "{table} is more than its {homes_before} home(s) can serve: now {homes_after}"
            ),
            Self::Relaxed {
                table,
                homes_before,
                homes_after,
            } => write!(
                f,
                "{table} no longer needs {homes_before} homes: now {homes_after}"
            ),
            Self::Resized {
                workers_before,
                workers_after,
            } => write!(
                f,
                "the usable cpus changed: there were {workers_before} workers, now {workers_after}"
            ),
        }
    }
}

/// The brakes: what was moved when, and so when and what may be moved next.
#[derive(Clone, Debug)]
pub struct Trigger {
    config: TriggerConfig,
    strain: u32,
    /// When the strain last drained, or rose from zero.
    drained: Time,
    ready_at: Time,
    urgent_at: Time,
    /// When each table last left each domain; no older than a horizon.
    left: BTreeMap<(TableId, DomainId), Time>,
}

impl Trigger {
    /// A trigger that has seen nothing; the first remap may come after one cooldown.
    pub fn new(config: TriggerConfig) -> Self {
        let config = config.sane();
        Self {
            config,
            strain: 0,
            drained: Time::ZERO,
            ready_at: config.shortest().into(),
            urgent_at: config.urgent().into(),
            left: BTreeMap::new(),
        }
    }

    /// Whether there have been so many remaps lately, or one that undid another, that load seems to alternate.
    pub(crate) fn is_strained(&self) -> bool {
        self.strain > self.config.most_burst()
    }

    /// The earliest time at which a remap may happen.
    pub fn ready_at(&self) -> Time {
        self.ready_at
    }

    /// The earliest time at which a remap may happen because a home is asked for more than its time.
    pub fn urgent_at(&self) -> Time {
        self.urgent_at
    }

    /// Whether these moves, made at `now`, would take a table back to a domain that it has just left.
    pub fn is_return(&self, moves: &[Move], now: Time) -> bool {
        let just_left = |key| {
            let left = self.left.get(&key);
            left.is_some_and(|&left| now.since(left) < self.config.horizon)
        };
        moves
            .iter()
            .any(|step| step.gained().any(|domain| just_left((step.table, domain))))
    }

    /// Takes note that these moves were made at `now`.
    pub fn remapped(&mut self, moves: &[Move], now: Time) {
        self.drain(now);
        if self.strain == 0 {
            self.drained = now;
        }
        // Above the strain of the longest pause nothing changes any more.
        if self.config.pause(self.strain) < self.config.longest() {
            self.strain = self.strain.saturating_add(1);
            if self.is_return(moves, now) {
                let strained = self.config.most_burst().saturating_add(1);
                self.strain = self.strain.max(strained);
            }
        }
        self.ready_at = now + self.config.pause(self.strain);
        self.urgent_at = match self.is_strained() {
            true => self.ready_at,
            false => now + self.config.urgent(),
        };
        self.left
            .retain(|_, &mut left| now.since(left) < self.config.horizon);
        for step in moves {
            let left = step.left().map(|domain| ((step.table, domain), now));
            self.left.extend(left);
        }
    }

    /// Drops what is known of a table that was removed.
    pub fn forget(&mut self, table: TableId) {
        self.left.retain(|&(other, _), _| other != table);
    }

    /// Lowers the strain by one for each horizon since it last drained.
    fn drain(&mut self, now: Time) {
        let horizon = self.config.horizon.max(Duration::from_nanos(1));
        let passed = now.since(self.drained).as_nanos() / horizon.as_nanos();
        let drained = u32::try_from(passed).unwrap_or(u32::MAX).min(self.strain);
        self.strain -= drained;
        self.drained += horizon * drained;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_brake_each_remap_may_follow_after_a_cooldown() {
        let config = TriggerConfig::new().burst(None);
        let mut trigger = Trigger::new(config);
        for _ in 0..40 {
            let now = trigger.ready_at();
            trigger.remapped(&[], now);
            assert_eq!(trigger.ready_at(), now + config.shortest());
        }
    }

    #[test]
    fn a_cooldown_without_end_keeps_the_placement_still() {
        let mut trigger = Trigger::new(TriggerConfig::new().cooldown(None));
        trigger.remapped(&[], Time::from_secs(1));
        assert_eq!(trigger.ready_at(), Time::MAX);
    }
}
