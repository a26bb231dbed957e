//! When a placement may change.
//!
//! The planner finds reason and gain of a remap. [`Trigger`] adds the brakes; it knows times, not the load:
//!
//! 1. **Pause.** After a remap the next one waits for [`cooldown`](TriggerConfig::cooldown), so that the fast window
//!    shows the new placement alone.
//! 2. **Strain.** Every remap raises the strain by one; each [`horizon`](TriggerConfig::horizon) lowers it by one.
//!    Above [`burst`](TriggerConfig::burst) each further step doubles the pause, up to one horizon.
//!
//! **Bound.** At some strain `s` the pause is a whole horizon. A remap below `s` raises the strain, and one unit drains
//! per horizon: at most `s + t / horizon` in time `t`. One at `s` is followed by a horizon's pause: at most
//! `1 + t / horizon`. Together **at most `s + 1 + 2 t / horizon` remaps, whatever the load
//! does**: with the defaults 10, and 24 for each further hour.
//!
//! **Still followed.** At little strain a lasting change is followed once the fast window shows it, at worst after a
//! horizon.

use std::fmt;
use std::time::Duration;

use crate::Time;

settings! {
    /// Thresholds and brakes of a remap. A float that is NaN or negative is replaced by its default.
    pub struct TriggerConfig {
        /// Where tables are placed by traffic, the part by which a new placement must lower the traffic of the busiest
        /// domain. Default 0.2: ten seconds of a few hundred heavy-tailed queries vary by some tens of percent.
        #[doc(hidden)]
        pub min_gain: f64 = 0.2,
        /// Where tables are placed by time, by how much a new placement must lower the predicted mean wait of the
        /// domains that it changes, in mean service times ([`predicted_wait`](crate::predicted_wait)).
        ///
        /// Default 0.1: a query on a cold cache takes about one service time longer, so the move is earned back by ten
        /// queries for each that runs cold. At low utilisation nobody waits so long, and nothing moves: a domain of
        /// eight cores has to be busy for two thirds of its time before there is as much to gain.
        #[doc(hidden)]
        pub min_wait: f64 = 0.1,
        /// Shortest time between two remaps, and from the start to the first. Default 10 s, the fast window: a
        /// placement is judged by load that it has shaped itself.
        /// `None` keeps the placement still.
        pub cooldown: Option<Duration> = Some(Duration::from_secs(10)),
        /// The longest pause, and the time in which one unit of strain drains. Default 300 s: load that alternates
        /// moves tables ten times and then 24 times an hour, at most. Never shorter than the cooldown.
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
    /// The load of the fast window lay unevenly.
    Imbalance {
        /// Imbalance under the old placement.
        before: f64,
        /// Imbalance of the same load under the new one.
        after: f64,
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
        match *self {
            Self::Imbalance { before, after } => {
                let (was, is) = (before * 100.0, after * 100.0);
                write!(
                    f,
                    "the busiest domain was {was:.0} % above the mean, now {is:.0} %"
                )
            }
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

/// The brakes: when there were remaps, and so when the next one may come.
#[derive(Clone, Debug)]
pub struct Trigger {
    config: TriggerConfig,
    strain: u32,
    /// When the strain last drained, or rose from zero.
    drained: Time,
    ready_at: Time,
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
        }
    }

    /// The earliest time at which a remap may happen.
    pub fn ready_at(&self) -> Time {
        self.ready_at
    }

    /// Takes note of a remap at `now`.
    pub fn remapped(&mut self, now: Time) {
        self.drain(now);
        if self.strain == 0 {
            self.drained = now;
        }
        // Above the strain of the longest pause nothing changes any more.
        if self.config.pause(self.strain) < self.config.longest() {
            self.strain = self.strain.saturating_add(1);
        }
        self.ready_at = now + self.config.pause(self.strain);
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
            trigger.remapped(now);
            assert_eq!(trigger.ready_at(), now + config.shortest());
        }
    }

    #[test]
    fn a_cooldown_without_end_keeps_the_placement_still() {
        let mut trigger = Trigger::new(TriggerConfig::new().cooldown(None));
        trigger.remapped(Time::from_secs(1));
        assert_eq!(trigger.ready_at(), Time::MAX);
    }
}
