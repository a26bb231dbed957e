//! The weights of the lanes in which tasks wait.

use super::lane::Lane;

/// Sums over the lanes in which tasks wait.
#[derive(Default)]
pub(super) struct Tally {
    /// Lanes by the power of two below their weight, from 2^-7 on.
    by_power: [u32; POWERS],
    /// One bit for each power of which there are lanes.
    used: u32,
    /// Lanes over their share, and their weights together.
    pub(super) over: u32,
    pub(super) over_weight: f32,
    /// Lanes in which tasks wait.
    pub(super) lanes: u32,
}

/// Weights are from 0.01 to 100; sums of them count as at most 2^7.
const POWERS: usize = 15;

impl Tally {
    /// A lane is about to get a task.
    #[inline]
    pub(super) fn join<T>(&mut self, lane: &mut Lane<T>, weight: f32) {
        let waits = lane.len > 0;
        if waits && lane.weight == weight {
            return;
        }
        match waits {
            true => self.remove(lane.weight),
            false => self.lanes += 1,
        }
        if lane.over {
            self.over_weight += weight - lane.weight;
        }
        let at = power(weight);
        self.by_power[at] += 1;
        self.used |= 1 << at;
        lane.weight = weight;
    }

    fn remove(&mut self, weight: f32) {
        let at = power(weight);
        self.by_power[at] -= 1;
        if self.by_power[at] == 0 {
            self.used &= !(1 << at);
        }
    }

    /// A lane has got empty.
    #[inline]
    pub(super) fn leave<T>(&mut self, lane: &mut Lane<T>) {
        self.remove(lane.weight);
        self.lanes -= 1;
        self.forgive(lane);
    }

    /// A lane is not over its share any more.
    #[inline]
    pub(super) fn forgive<T>(&mut self, lane: &mut Lane<T>) {
        if std::mem::take(&mut lane.over) {
            lane.uncharged = 0;
            self.over -= 1;
            self.over_weight -= lane.weight;
            if self.over == 0 {
                self.over_weight = 0.0;
            }
        }
    }

    /// `nanos` as many times as the largest weight is larger than this one, to a power of two: lanes of little weight may
    /// ask for that much less time.
    #[inline]
    pub(super) fn by_weight(&self, nanos: u64, weight: f32) -> u64 {
        let largest = self.used.checked_ilog2().unwrap_or(0);
        nanos.saturating_mul(1 << largest.saturating_sub(power(weight) as u32))
    }
}

#[inline]
fn power(weight: f32) -> usize {
    // The exponent; that of 2^-7 is 120.
    let exponent = (weight.to_bits() >> 23) as usize;
    exponent.saturating_sub(120).min(POWERS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_weight_may_ask_for_less_than_the_largest_that_waits() {
        let mut tally = Tally::default();
        let mut lanes = [0.01, 1.0, 3.0, 100.0].map(|weight| {
            let mut lane: Lane<()> = Lane::new();
            tally.join(&mut lane, weight);
            lane.len = 1;
            lane
        });
        let times =
            |tally: &Tally| [0.01, 1.0, 3.0, 100.0].map(|weight| tally.by_weight(1, weight));
        assert_eq!(times(&tally), [1 << 13, 64, 32, 1]);
        tally.leave(&mut lanes[3]);
        assert_eq!(times(&tally), [1 << 8, 2, 1, 1]);
        tally.leave(&mut lanes[2]);
        assert_eq!(times(&tally), [1 << 7, 1, 1, 1]);
        tally.join(&mut lanes[1], 0.5);
        assert_eq!(times(&tally), [1 << 6, 1, 1, 1]);
    }
}
