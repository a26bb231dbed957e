//! The rate at which processor use is what was asked for.

/// Rounds of a search, at most.
pub const STEPS: usize = 10;

/// How far from the wanted use a rate may be: a point.
pub const WITHIN: f64 = 0.01;

/// A search between a rate with too little use and one with too much. Use grows with the rate, though not evenly: the
/// next rate is where a line between the two has the wanted use.
#[derive(Clone, Debug)]
pub struct Search {
    wanted: f64,
    below: (f64, f64),
    /// A rate with too much use, and that use; `None` where requests piled up, which has no use.
    above: Option<(f64, Option<f64>)>,
    /// A rate at which requests have piled up once. It is tried again: a machine may have been busy with something
    /// else.
    doubtful: Option<f64>,
    /// The rate and the use nearest to what is wanted.
    best: Option<(f64, f64)>,
}

impl Search {
    /// For a use from 0 to 1.
    pub fn new(wanted: f64) -> Self {
        Self {
            wanted,
            below: (0.0, 0.0),
            above: None,
            doubtful: None,
            best: None,
        }
    }

    /// At this rate the use was that.
    pub fn note(&mut self, rate: f64, used: f64) {
        self.doubtful = None;
        let off = |(_, used): (f64, f64)| (used - self.wanted).abs();
        if self.best.is_none_or(|best| off((rate, used)) < off(best)) {
            self.best = Some((rate, used));
        }
        if used < self.wanted {
            if rate > self.below.0 {
                self.below = (rate, used);
            }
            // Noise: what was too much at a lower rate was not.
            self.above = self.above.filter(|above| above.0 > rate);
        } else {
            self.limit(rate, Some(used));
        }
    }

    /// At this rate requests piled up: what use is missing was taken by those who send.
    pub fn too_much(&mut self, rate: f64) {
        if self.doubtful.replace(rate) != Some(rate) {
            return;
        }
        self.doubtful = None;
        self.best = self.best.filter(|best| best.0 < rate);
        self.limit(rate, None);
    }

    fn limit(&mut self, rate: f64, used: Option<f64>) {
        if self.above.is_none_or(|above| rate < above.0) {
            self.above = Some((rate, used));
        }
        if self.below.0 >= rate {
            self.below = (0.0, 0.0);
        }
    }

    /// Whether the best rate is near enough.
    pub fn found(&self) -> bool {
        self.best
            .is_some_and(|(_, used)| (used - self.wanted).abs() <= WITHIN)
    }

    /// The rate to try next; `None` before anything was noted.
    pub fn next(&self) -> Option<f64> {
        if self.doubtful.is_some() {
            return self.doubtful;
        }
        let (rate, used) = self.below;
        let Some((more, above)) = self.above else {
            // Twice as much at most: queues of an overloaded mode tell nothing.
            return (used > 0.0).then(|| rate * (self.wanted / used).min(2.0));
        };
        let part = match above {
            Some(above) => (self.wanted - used) / (above - used),
            None => 0.5,
        };
        // Not next to an end: a use that bends would be approached from one side in ever smaller steps.
        Some(rate + (more - rate) * part.clamp(0.05, 0.95))
    }

    /// The rate whose use was nearest, and that use.
    pub fn best(&self) -> Option<(f64, f64)> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with uses that `used` gives; returns the rate and the rounds it took.
    fn search(wanted: f64, first: f64, mut used: impl FnMut(f64) -> f64) -> (f64, usize) {
        let mut search = Search::new(wanted);
        let mut rate = first;
        for step in 1..=STEPS {
            search.note(rate, used(rate));
            if search.found() {
                return (search.best().unwrap().0, step);
            }
            rate = search.next().unwrap();
        }
        (search.best().unwrap().0, STEPS + 1)
    }

    #[test]
    fn where_all_rates_have_piled_up_there_is_a_lower_one_to_try() {
        let mut search = Search::new(0.2);
        search.note(1_000.0, 0.9);
        let mut last = 1_000.0;
        for _ in 0..STEPS {
            let rate = search.next().unwrap();
            assert!(rate <= last, "{rate}");
            search.too_much(rate);
            last = rate;
        }
        assert_eq!(search.best(), None);
        assert!(search.next().is_some_and(|rate| rate < last && rate > 0.0));
    }

    #[test]
    fn a_straight_use_is_found_at_once_and_a_bent_one_soon() {
        let (rate, steps) = search(0.6, 1_000.0, |rate| rate / 10_000.0);
        assert!(
            (rate - 6_000.0).abs() < 101.0 && steps <= 4,
            "{rate} {steps}"
        );
        // Cheap queries while there are few, dear ones near the end.
        let bent = |rate: f64| (rate / 1_000.0).powi(3).min(1.0);
        let (rate, steps) = search(0.6, 990.0, bent);
        assert!(
            (bent(rate) - 0.6).abs() <= WITHIN && steps <= STEPS,
            "{rate} {steps}"
        );
        let saving = |rate: f64| (rate / 1_000.0).sqrt().min(1.0);
        let (rate, steps) = search(0.3, 900.0, saving);
        assert!(
            (saving(rate) - 0.3).abs() <= WITHIN && steps <= STEPS,
            "{rate} {steps}"
        );
    }

    #[test]
    fn noise_of_two_points_is_lived_with() {
        for seed in 0..20 {
            let mut state = seed;
            let noisy = |rate: f64| {
                state = (state * 7 + 3) % 11;
                rate / 10_000.0 + (f64::from(state) - 5.0) / 250.0
            };
            let (rate, _) = search(0.6, 9_000.0, noisy);
            assert!((rate - 6_000.0).abs() < 400.0, "{rate} with {seed}");
        }
    }

    #[test]
    fn a_rate_that_overloads_is_none_whatever_its_use() {
        // From 5,000 on the senders take the rest.
        let mut search = Search::new(0.8);
        search.note(1_000.0, 0.14);
        for _ in 0..30 {
            let rate = search.next().unwrap();
            match rate < 5_000.0 {
                true => search.note(rate, rate / 7_000.0),
                false => search.too_much(rate),
            }
        }
        let (rate, _) = search.best().unwrap();
        assert!((4_500.0..5_000.0).contains(&rate), "{rate}");
    }

    #[test]
    fn one_round_that_went_wrong_is_run_again() {
        let mut search = Search::new(0.6);
        search.note(1_000.0, 0.1);
        let rate = search.next().unwrap();
        search.too_much(rate);
        assert_eq!(search.next(), Some(rate));
        search.note(rate, rate / 10_000.0);
        for _ in 0..STEPS {
            let rate = search.next().unwrap();
            search.note(rate, rate / 10_000.0);
        }
        assert!(search.found(), "{search:?}");
    }

    #[test]
    fn a_use_that_cannot_be_reached_leaves_the_nearest() {
        let mut search = Search::new(0.8);
        assert_eq!(search.next(), None);
        let mut rate = 1_000.0;
        for _ in 0..STEPS {
            search.note(rate, (rate / 10_000.0).min(0.5));
            rate = search.next().unwrap();
        }
        assert!(!search.found());
        assert_eq!(search.best().unwrap().1, 0.5);
    }
}
