//! The weights of the flows in which tasks wait.

use super::flow::Flow;

/// Sums over the flows in which tasks wait.
#[derive(Default)]
pub(super) struct Tally {
    /// Flows by the power of two below their weight, from 2^-7 on, and the largest weight since there were none.
    by_power: [(u32, f32); POWERS],
    /// One bit for each power of which there are flows.
    used: u32,
    /// Flows over their share, and their weights together.
    pub(super) over: u32,
    pub(super) over_weight: f64,
    /// Flows in which tasks wait.
    pub(super) flows: u32,
}

/// Weights are from 0.01 to 100.
const POWERS: usize = 14;

impl Tally {
    /// A flow is about to get a task.
    #[inline]
    pub(super) fn join<T>(&mut self, flow: &mut Flow<T>, weight: f32) {
        let waits = flow.len > 0;
        if waits && flow.weight == weight {
            return;
        }
        match waits {
            true => self.remove(flow.weight),
            false => self.flows += 1,
        }
        if flow.over {
            self.over_weight += f64::from(weight) - f64::from(flow.weight);
        }
        let at = power(weight);
        let (flows, largest) = &mut self.by_power[at];
        *largest = match *flows {
            0 => weight,
            _ => largest.max(weight),
        };
        *flows += 1;
        self.used |= 1 << at;
        flow.weight = weight;
    }

    fn remove(&mut self, weight: f32) {
        let at = power(weight);
        self.by_power[at].0 -= 1;
        if self.by_power[at].0 == 0 {
            self.used &= !(1 << at);
        }
    }

    /// A flow has got empty.
    #[inline]
    pub(super) fn leave<T>(&mut self, flow: &mut Flow<T>) {
        self.remove(flow.weight);
        self.flows -= 1;
        self.forgive(flow);
    }

    /// A flow is not over its share any more.
    #[inline]
    pub(super) fn forgive<T>(&mut self, flow: &mut Flow<T>) {
        if std::mem::take(&mut flow.over) {
            flow.uncharged = 0;
            self.over -= 1;
            self.over_weight -= f64::from(flow.weight);
            if self.over == 0 {
                self.over_weight = 0.0;
            }
        }
    }

    /// Whether no flow has twice the weight of another.
    pub(super) fn is_even(&self) -> bool {
        self.used.count_ones() <= 1
    }

    /// `nanos`, as many times as the largest weight is larger than this one: flows of little weight may ask for that
    /// much less time. A largest weight that is gone counts while another one of its power of two is there. So it may
    /// be too large, but less than twice.
    #[inline]
    pub(super) fn by_weight(&self, nanos: u64, weight: f64) -> u64 {
        let highest = self.used.checked_ilog2().unwrap_or(0);
        match f64::from(self.by_power[highest as usize].1) {
            // As it mostly is.
            largest if largest <= weight => nanos,
            largest => (nanos as f64 * (largest / weight)) as u64,
        }
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn little_weight_may_ask_for_less_than_the_largest_that_waits() {
        let mut tally = Tally::default();
        let mut flows = [0.01, 1.0, 3.0, 100.0].map(|weight| {
            let mut flow: Flow<()> = Flow::new();
            tally.join(&mut flow, weight);
            flow.len = 1;
            flow
        });
        let times = |tally: &Tally| [0.01, 1.0, 3.0].map(|weight| tally.by_weight(3, weight));
        assert_eq!(times(&tally), [30_000, 300, 100]);
        tally.leave(&mut flows[3]);
        assert_eq!(times(&tally), [900, 9, 3]);
        assert!(!tally.is_even());
        tally.leave(&mut flows[2]);
        tally.leave(&mut flows[0]);
        assert_eq!(times(&tally), [300, 3, 3]);
        assert!(tally.is_even());
    }

    proptest! {
        /// However flows come and go.
        #[test]
        fn the_largest_weight_is_known_to_a_factor_of_two(
            steps in prop::collection::vec((1_u16..=10_000, 0_usize..4), 1..60),
        ) {
            let (mut tally, mut there) = (Tally::default(), Vec::<Flow<()>>::new());
            for (hundredths, gone) in steps {
                let mut flow = Flow::new();
                tally.join(&mut flow, f32::from(hundredths) / 100.0);
                flow.len = 1;
                there.push(flow);
                for _ in 0..gone.min(there.len() - 1) {
                    let mut flow = there.swap_remove(there.len() / 2);
                    tally.leave(&mut flow);
                }
                let largest = there.iter().map(|flow| flow.weight).fold(0.0, f32::max);
                let smallest = there.iter().map(|flow| flow.weight).fold(f32::INFINITY, f32::min);
                let times = tally.by_weight(1 << 20, 0.01) as f64 / f64::from(1 << 20) * 0.01;
                let known = times / f64::from(largest);
                prop_assert!((0.999..2.0).contains(&known), "{} times {}", known, largest);
                prop_assert!(!tally.is_even() || largest < 2.0 * smallest);
            }
        }
    }
}
