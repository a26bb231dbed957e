//! The weights of the lanes in which tasks wait.

use super::lane::Lane;

/// Sums over the lanes in which tasks wait.
#[derive(Default)]
pub(super) struct Tally {
    weights: Weights,
    /// Lanes over their share, and their weights together.
    pub(super) over: u32,
    pub(super) over_weight: f64,
    /// Lanes in which tasks wait.
    pub(super) lanes: u32,
}

impl Tally {
    /// A lane is about to get a task.
    #[inline]
    pub(super) fn join<T>(&mut self, lane: &mut Lane<T>, weight: f32) {
        let waits = lane.len > 0;
        if waits && lane.weight == weight {
            return;
        }
        match waits {
            true => self.weights.remove(lane.weight),
            false => self.lanes += 1,
        }
        if lane.over {
            self.over_weight += f64::from(weight) - f64::from(lane.weight);
        }
        self.weights.add(weight);
        lane.weight = weight;
    }

    /// A lane has got empty.
    #[inline]
    pub(super) fn leave<T>(&mut self, lane: &mut Lane<T>) {
        self.weights.remove(lane.weight);
        self.lanes -= 1;
        self.forgive(lane);
    }

    /// A lane is not over its share any more.
    #[inline]
    pub(super) fn forgive<T>(&mut self, lane: &mut Lane<T>) {
        if std::mem::take(&mut lane.over) {
            lane.uncharged = 0;
            self.over -= 1;
            self.over_weight -= f64::from(lane.weight);
            if self.over == 0 {
                self.over_weight = 0.0;
            }
        }
    }

    /// Whether all of them have the weight that nearly all have.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.weights.used == 0
    }

    /// Whether all lanes with waiting tasks have the same weight.
    pub(super) fn is_even(&self) -> bool {
        let extremes = self.weights.extremes();
        extremes.is_none_or(|(smallest, largest)| smallest == largest)
    }

    /// How many times less time than those of the largest weight lanes of this one may ask for.
    pub(super) fn less(&self, weight: f64) -> f64 {
        let largest = self.weights.extremes();
        match largest.map_or(weight, |(_, largest)| f64::from(largest)) {
            // As it mostly is.
            largest if largest <= weight => 1.0,
            largest => largest / weight,
        }
    }
}

/// Powers of two that weights lie between: from 2^-7 to 2^7.
const RANGES: usize = 14;

/// Knows the largest and the smallest weight of the lanes in which tasks wait. Weights are counted by powers of two,
/// so that neither a lane that comes nor one that goes has the others looked at. If the largest of a range goes and
/// others of that range stay, it still counts: then the largest is less than twice too large. So it is with the
/// smallest.
#[derive(Clone, Debug, Default)]
struct Weights {
    /// Lanes of weight 1, which nearly all have.
    plain: u32,
    ranges: [Range; RANGES],
    /// One bit for each range in which there are other lanes.
    used: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Range {
    lanes: u32,
    smallest: f32,
    largest: f32,
}

impl Weights {
    fn range(weight: f32) -> usize {
        let power = (weight.to_bits() >> 23) as usize;
        // 2^-7 has the exponent 120.
        power.saturating_sub(120).min(RANGES - 1)
    }

    #[inline]
    fn add(&mut self, weight: f32) {
        match weight {
            1.0 => self.plain += 1,
            _ => self.add_other(weight),
        }
    }

    #[inline]
    fn remove(&mut self, weight: f32) {
        match weight {
            1.0 => self.plain -= 1,
            _ => self.remove_other(weight),
        }
    }

    fn add_other(&mut self, weight: f32) {
        let at = Self::range(weight);
        let range = &mut self.ranges[at];
        if range.lanes == 0 {
            (range.smallest, range.largest) = (weight, weight);
            self.used |= 1 << at;
        }
        range.lanes += 1;
        range.smallest = range.smallest.min(weight);
        range.largest = range.largest.max(weight);
    }

    fn remove_other(&mut self, weight: f32) {
        let at = Self::range(weight);
        self.ranges[at].lanes -= 1;
        if self.ranges[at].lanes == 0 {
            self.used &= !(1 << at);
        }
    }

    /// The smallest and the largest, if any lane is there.
    #[inline]
    fn extremes(&self) -> Option<(f32, f32)> {
        let plain = (self.plain > 0).then_some((1.0, 1.0));
        let Some(highest) = self.used.checked_ilog2() else {
            return plain;
        };
        let lowest = self.used.trailing_zeros();
        let range = |at: u32| self.ranges[at as usize];
        let (low, high) = plain.unwrap_or((f32::INFINITY, 0.0));
        Some((
            range(lowest).smallest.min(low),
            range(highest).largest.max(high),
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_weights_are_known_exactly() {
        for weight in [0.01, 1.0, 2.0, 3.0, 100.0] {
            let mut weights = Weights::default();
            assert_eq!(weights.extremes(), None);
            weights.add(weight);
            weights.add(weight);
            weights.remove(weight);
            assert_eq!(weights.extremes(), Some((weight, weight)));
            weights.remove(weight);
            assert_eq!(weights.extremes(), None);
        }
    }

    proptest! {
        /// However lanes come and go, the extremes are known to a factor of two.
        #[test]
        fn the_extremes_are_known_to_a_factor_of_two(
            steps in prop::collection::vec((1_u16..=10_000, 0_usize..4), 1..60),
        ) {
            let mut weights = Weights::default();
            let mut there: Vec<f32> = Vec::new();
            for (hundredths, gone) in steps {
                let weight = f32::from(hundredths) / 100.0;
                weights.add(weight);
                there.push(weight);
                for _ in 0..gone.min(there.len()) {
                    weights.remove(there.swap_remove(there.len() / 2));
                }
                let largest = there.iter().copied().fold(0.0, f32::max);
                let smallest = there.iter().copied().fold(f32::INFINITY, f32::min);
                match weights.extremes() {
                    Some((low, high)) => {
                        prop_assert!(largest <= high && high < 2.0 * largest);
                        prop_assert!(low <= smallest && smallest < 2.0 * low);
                    }
                    None => prop_assert!(there.is_empty()),
                }
            }
        }
    }
}
