//! When queries arrive: the times alone.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand_distr::Exp1;

use super::error::TrafficError;

/// A process that arrival times are drawn from. Rates are in arrivals a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Evenly spaced. Kinder than any real traffic: for finding capacity, not for latency claims.
    Steady {
        /// Arrivals a second.
        rate: f64,
    },
    /// Many independent users: exponential gaps, so arrivals bunch up by chance alone.
    Poisson {
        /// Mean arrivals a second.
        rate: f64,
    },
    /// Traffic that comes in bursts: a Poisson process that switches between two rates, staying at each
    /// for an exponential time (a two-state Markov-modulated Poisson process). Starts calm.
    Bursty {
        /// Mean arrivals a second between bursts; may be 0.
        calm_rate: f64,
        /// Mean arrivals a second in a burst.
        burst_rate: f64,
        /// Mean time between bursts.
        calm: Duration,
        /// Mean length of a burst.
        burst: Duration,
    },
}

impl Arrivals {
    /// Arrivals a second in the long run.
    #[must_use]
    pub fn mean_rate(&self) -> f64 {
        match *self {
            Self::Steady { rate } | Self::Poisson { rate } => rate,
            Self::Bursty {
                calm_rate,
                burst_rate,
                calm,
                burst,
            } => {
                let (calm, burst) = (calm.as_secs_f64(), burst.as_secs_f64());
                (calm_rate * calm + burst_rate * burst) / (calm + burst)
            }
        }
    }

    /// The same with rates for one of `parts` senders.
    fn shared_by(self, parts: u64) -> Self {
        let share = |rate: f64| rate / parts as f64;
        match self {
            Self::Steady { rate } => Self::Steady { rate: share(rate) },
            Self::Poisson { rate } => Self::Poisson { rate: share(rate) },
            Self::Bursty {
                calm_rate,
                burst_rate,
                calm,
                burst,
            } => Self::Bursty {
                calm_rate: share(calm_rate),
                burst_rate: share(burst_rate),
                calm,
                burst,
            },
        }
    }

    pub(super) fn check(&self) -> Result<(), TrafficError> {
        let (rate, may_rest) = match *self {
            Self::Steady { rate } | Self::Poisson { rate } => (rate, rate),
            Self::Bursty {
                calm_rate,
                burst_rate,
                calm,
                burst,
            } => {
                if calm.is_zero() || burst.is_zero() {
                    return Err(TrafficError::BadPhases { calm, burst });
                }
                (burst_rate, calm_rate)
            }
        };
        if !(rate.is_finite() && rate > 0.0) {
            return Err(TrafficError::BadRate { rate });
        }
        if !(may_rest.is_finite() && may_rest >= 0.0) {
            return Err(TrafficError::BadRate { rate: may_rest });
        }
        Ok(())
    }
}

/// Draws the times of a process one after the other.
#[derive(Debug)]
pub(super) struct Clock {
    arrivals: Arrivals,
    rng: ChaCha8Rng,
    /// Draws the lengths of phases: apart, so that they are the same in all parts of a traffic.
    phases: ChaCha8Rng,
    /// Seconds since the start. An `f64` resolves a nanosecond up to about 100 days.
    now: f64,
    /// The burst state, and when it ends. Only bursty traffic has one.
    bursting: bool,
    phase_ends: f64,
}

impl Clock {
    /// The clock of part `part` of `parts`.
    pub(super) fn new(
        whole: Arrivals,
        (part, parts): (u64, u64),
        rng: ChaCha8Rng,
        phases: ChaCha8Rng,
    ) -> Self {
        let arrivals = whole.shared_by(parts);
        let now = match arrivals {
            // So that the parts together are evenly spaced: the first of them sends first.
            Arrivals::Steady { rate } => ((part + 1) as f64 / parts as f64 - 1.0) / rate,
            Arrivals::Poisson { .. } | Arrivals::Bursty { .. } => 0.0,
        };
        // As if a burst had just ended: the first draw starts a calm phase.
        Self {
            arrivals,
            rng,
            phases,
            now,
            bursting: true,
            phase_ends: 0.0,
        }
    }

    /// The next arrival; `None` past the longest [`Duration`].
    pub(super) fn next(&mut self) -> Option<Duration> {
        match self.arrivals {
            Arrivals::Steady { rate } => self.now += 1.0 / rate,
            Arrivals::Poisson { rate } => self.now += exponential(&mut self.rng, 1.0 / rate),
            Arrivals::Bursty {
                calm_rate,
                burst_rate,
                calm,
                burst,
            } => loop {
                let rate = if self.bursting { burst_rate } else { calm_rate };
                // Rate 0 gives an infinite gap, which no phase outlasts.
                let next = self.now + exponential(&mut self.rng, 1.0 / rate);
                if next < self.phase_ends {
                    self.now = next;
                    break;
                }
                // Exponential gaps have no memory, so the next phase draws afresh from its start.
                self.now = self.phase_ends;
                self.bursting = !self.bursting;
                let mean = if self.bursting { burst } else { calm };
                self.phase_ends += exponential(&mut self.phases, mean.as_secs_f64());
            },
        }
        Duration::try_from_secs_f64(self.now).ok()
    }
}

fn exponential(rng: &mut ChaCha8Rng, mean: f64) -> f64 {
    let unit: f64 = rng.sample(Exp1);
    mean * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn times(arrivals: Arrivals, count: usize) -> Vec<f64> {
        let random = ChaCha8Rng::seed_from_u64;
        let mut clock = Clock::new(arrivals, (0, 1), random(3), random(4));
        (0..count)
            .map(|_| clock.next().unwrap().as_secs_f64())
            .collect()
    }

    fn gaps(times: &[f64]) -> Vec<f64> {
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// Variance over squared mean: 1 for exponential gaps, more for bursts.
    fn dispersion(values: &[f64]) -> f64 {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count / mean.powi(2)
    }

    #[test]
    fn steady_arrivals_are_evenly_spaced() {
        for gap in gaps(&times(Arrivals::Steady { rate: 250.0 }, 1_000)) {
            assert!((gap - 0.004).abs() < 1e-8, "{gap}");
        }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let count = 100_000;
        let gaps = gaps(&times(Arrivals::Poisson { rate: 2_000.0 }, count));
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        // The mean of n exponentials has a standard error of mean / sqrt(n); 4 of them.
        let tolerance = 4.0 / (count as f64).sqrt();
        assert!((mean * 2_000.0 - 1.0).abs() < tolerance, "mean gap {mean}");
        assert!(
            (dispersion(&gaps) - 1.0).abs() < 0.05,
            "dispersion {}",
            dispersion(&gaps)
        );
    }

    #[test]
    fn bursts_keep_the_mean_rate_and_spread_more_than_poisson() {
        let bursty = Arrivals::Bursty {
            calm_rate: 100.0,
            burst_rate: 2_000.0,
            calm: Duration::from_millis(400),
            burst: Duration::from_millis(100),
        };
        assert_eq!(bursty.mean_rate(), 480.0);
        let times = times(bursty, 200_000);
        let rate = times.len() as f64 / times.last().unwrap();
        // About 830 burst cycles; the count in each spreads by about its own mean.
        assert!((rate / 480.0 - 1.0).abs() < 0.15, "{rate} a second");
        assert!(dispersion(&gaps(&times)) > 2.0);
    }

    #[test]
    fn a_calm_phase_may_be_silent() {
        let bursty = Arrivals::Bursty {
            calm_rate: 0.0,
            burst_rate: 1_000.0,
            calm: Duration::from_secs(1),
            burst: Duration::from_secs(1),
        };
        assert!(bursty.check().is_ok());
        let times = times(bursty, 10_000);
        assert!(times.is_sorted());
        let longest = gaps(&times).into_iter().fold(0.0, f64::max);
        assert!(longest > 0.5, "no calm phase in {longest}");
    }

    #[test]
    fn times_beyond_a_duration_end_the_stream() {
        let rare = Arrivals::Steady { rate: 1e-300 };
        let random = ChaCha8Rng::seed_from_u64;
        assert_eq!(Clock::new(rare, (0, 1), random(0), random(0)).next(), None);
    }
}
