//! How much of what tables read their homes' caches do not have.
//!
//! A cache that evicts what was not read for longest keeps about what was read in its last `t` seconds, the same `t`
//! for all that it is asked for (H. Che, Y. Tung and Z. Wang, Hierarchical Web Caching Systems, IEEE Journal on
//! Selected Areas in Communications 20, 2002). Of a table of `s` bytes of which `r` bytes a second are read, each byte
//! alike, it has `s (1 - exp(-r t / s))` bytes then, and `t` is that time for which these sum up to the cache. So a
//! small table beside one that streams through the cache finds less of itself there than beside other small ones.
//!
//! Queries prefer some rows, so caches have more than this says. It is for comparing boards, not for what they miss.

use super::draft::{Draft, for_each_share};
use super::item::Item;
use super::machine::Machine;

/// How often the time is doubled at most until the cache is full, and then halved to find it.
const DOUBLINGS: u32 = 60;
const HALVINGS: u32 = 30;

/// Bytes a second that one table reads in a domain, and its size.
#[derive(Clone, Copy)]
struct Reads {
    rate: f64,
    size: f64,
}

impl Reads {
    /// Bytes that a cache has of it which keeps what was read for so long.
    fn held(&self, time: f64) -> f64 {
        self.size * -(-self.rate * time / self.size).exp_m1()
    }

    /// Bytes a second that such a cache does not have.
    fn missed(&self, time: f64) -> f64 {
        self.rate * (-self.rate * time / self.size).exp()
    }
}

/// Bytes a second that all caches together miss; 0 where the size of caches is not known.
pub(super) fn missed(draft: &Draft, items: &[Item], machine: &Machine) -> f64 {
    let mut on = vec![Vec::new(); machine.len()];
    for (item, spot) in items.iter().zip(&draft.spots) {
        if item.load > 0.0 && item.traffic > 0.0 && item.size > 0 {
            for_each_share(item, spot, |domain, load| {
                on[domain].push(Reads {
                    rate: item.traffic * load / item.load,
                    size: item.size as f64,
                });
            });
        }
    }
    let caches = machine.specs().iter().map(|spec| spec.cache_bytes as f64);
    on.iter()
        .zip(caches)
        .map(|(on, cache)| missed_by(cache, on))
        .sum()
}

fn missed_by(cache: f64, on: &[Reads]) -> f64 {
    let asked: f64 = on.iter().map(|reads| reads.size).sum();
    if cache == 0.0 || asked <= cache {
        return 0.0;
    }
    let held = |time: f64| on.iter().map(|reads| reads.held(time)).sum::<f64>();
    // In less time nobody can have read as much.
    let mut least = cache / on.iter().map(|reads| reads.rate).sum::<f64>();
    let mut most = 2.0 * least;
    for _ in 0..DOUBLINGS {
        if held(most) >= cache {
            break;
        }
        (least, most) = (most, 2.0 * most);
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(least, most);
        match held(middle) < cache {
            true => least = middle,
            false => most = middle,
        }
    }
    on.iter().map(|reads| reads.missed(least)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: f64 = 32e6;

    fn reads(rate: f64, size: f64) -> Reads {
        Reads { rate, size }
    }

    #[test]
    fn what_fits_misses_nothing_and_one_large_table_misses_its_part() {
        assert_eq!(missed_by(CACHE, &[reads(1e9, 16e6), reads(1e3, 16e6)]), 0.0);
        assert_eq!(missed_by(0.0, &[reads(1e9, 16e6)]), 0.0);
        assert_eq!(missed_by(CACHE, &[]), 0.0);
        // Each byte alike: of a table of four caches three quarters.
        let one = missed_by(CACHE, &[reads(1e9, 4.0 * CACHE)]);
        assert!((one / 1e9 - 0.75).abs() < 1e-6, "{one}");
    }

    #[test]
    fn a_small_table_misses_more_beside_a_stream_than_beside_another_small_one() {
        let (small, stream) = (reads(1e9, 0.75 * CACHE), reads(20e9, 100.0 * CACHE));
        let apart = missed_by(CACHE, &[small, small]) + 2.0 * missed_by(CACHE, &[stream]);
        let mixed = 2.0 * missed_by(CACHE, &[small, stream]);
        assert!(apart < mixed - 0.5e9, "{apart} {mixed}");
    }

    #[test]
    fn rates_and_sizes_far_apart_stay_finite() {
        let far = [reads(1e-9, 1.0), reads(1e18, 1e19), reads(1.0, 1e19)];
        let missed = missed_by(CACHE, &far);
        assert!(missed.is_finite() && missed > 0.0);
    }
}
