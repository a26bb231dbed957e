//! How long a query waits for a core, predicted from how busy its domain is.
//!
//! A domain with `c` workers and one queue is taken for an M/M/c system. Its mean wait, in mean service times, is about
//!
//! ```text
//! u^(sqrt(2 (c + 1)) - 1) / (c (1 - u))        u: utilisation, 0 <= u < 1
//! ```
//!
//! H. Sakasegawa, An approximation formula L_q = a r^b / (1 - r), Annals of the Institute of Statistical Mathematics 29
//! (1977), pages 67 to 75. It is exact for one worker. For 8 workers it gives 0.13 at 70 %, 0.89 at 90 % and 2.1 at 95
//! %. Service times that vary more or less than exponential ones scale it by a factor that is the same for all
//! domains, so it does not change which placement is better.
//!
//! From [`LINEAR_FROM`] on the wait goes on along the tangent. Loads are measured with errors of some percent, and the
//! formula goes from two service times to infinity within them. A domain that is asked for more than it can do has no
//! mean wait at all; the tangent still tells which of two overloads is worse.

use crate::DomainSpec;

/// Utilisation from which the wait grows linearly.
const LINEAR_FROM: f64 = 0.95;

/// Mean time that a query waits for one of `workers`, in mean service times, when they are busy for this part of their
/// time. `utilisation` is what is asked of them, so it may exceed 1. The result is finite, 0 for an idle domain, and
/// grows faster the busier the domain is. Without workers it is that of one.
///
/// ```
/// use chiplet_policy::predicted_wait;
///
/// assert!(predicted_wait(8, 0.4) < 0.02);
/// assert!(predicted_wait(8, 0.95) > 2.0);
/// // Two half-busy domains wait less than a full one and an idle one.
/// assert!(predicted_wait(8, 0.5) < predicted_wait(8, 1.0) / 2.0);
/// ```
pub fn predicted_wait(workers: u32, utilisation: f64) -> f64 {
    if utilisation.is_nan() || utilisation <= 0.0 {
        return 0.0;
    }
    let workers = f64::from(workers.max(1));
    let power = (2.0 * (workers + 1.0)).sqrt() - 1.0;
    let below = |u: f64| u.powf(power) / (workers * (1.0 - u));
    if utilisation <= LINEAR_FROM {
        return below(utilisation);
    }
    let at = below(LINEAR_FROM);
    let slope = at * (power / LINEAR_FROM + 1.0 / (1.0 - LINEAR_FROM));
    at + slope * (utilisation.min(f64::MAX.sqrt()) - LINEAR_FROM)
}

/// The utilisation from 0 to 1 at which `workers` have this [`predicted_wait`], to a thousandth.
pub(crate) fn utilisation_at(workers: u32, wait: f64) -> f64 {
    let (mut below, mut above) = (0.0, 1.0);
    while above - below > 0.001 {
        let middle = (below + above) / 2.0;
        match predicted_wait(workers, middle) < wait {
            true => below = middle,
            false => above = middle,
        }
    }
    below
}

/// The predicted wait of all queries of a domain together: its load, in core-seconds per second, times the wait. On
/// slow cores the same queries are more load, and wait for services that take longer.
pub(crate) fn load_times_wait(domain: &DomainSpec, load: f64) -> f64 {
    let load = load / domain.sane_speed();
    load * predicted_wait(domain.cores, load / f64::from(domain.cores.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Erlang's C formula over `c (1 - u)`: the exact mean wait of an M/M/c system.
    fn exact(workers: u32, u: f64) -> f64 {
        let c = f64::from(workers);
        let blocked = (1..=workers).fold(1.0, |blocked, k| {
            let part = u * c * blocked;
            part / (f64::from(k) + part)
        });
        blocked / (1.0 - u * (1.0 - blocked)) / (c * (1.0 - u))
    }

    #[test]
    fn it_is_near_the_exact_wait_where_that_matters() {
        for workers in [1, 2, 4, 8, 16] {
            for percent in [60, 70, 80, 90, 95] {
                let u = f64::from(percent) / 100.0;
                let (got, exact) = (predicted_wait(workers, u), exact(workers, u));
                let off = (got - exact).abs();
                assert!(
                    off <= 0.15 * exact + 0.01,
                    "{workers} {u}: {got} for {exact}"
                );
            }
        }
    }

    #[test]
    fn the_utilisation_is_found_from_the_wait() {
        for workers in [1, 8, 64] {
            for u in [0.1, 0.3, 0.7, 0.94] {
                let found = utilisation_at(workers, predicted_wait(workers, u));
                assert!((found - u).abs() <= 0.001, "{workers} {u}: {found}");
            }
        }
        assert!(utilisation_at(8, f64::INFINITY) > 0.99);
        assert_eq!(utilisation_at(8, 0.0), 0.0);
    }

    #[test]
    fn it_grows_ever_faster_and_stays_finite() {
        for workers in [0, 1, 8, 64] {
            let waits: Vec<f64> = (0..400)
                .map(|u| predicted_wait(workers, f64::from(u) / 100.0))
                .collect();
            assert_eq!(waits[0], 0.0);
            assert!(waits.is_sorted());
            for three in waits.windows(3) {
                assert!(three[2] - three[1] >= (three[1] - three[0]) * (1.0 - 1e-9));
            }
        }
        assert!(predicted_wait(8, f64::INFINITY).is_finite());
        assert_eq!(predicted_wait(8, f64::NAN), 0.0);
    }
}
