//! The weights of the flows in which tasks wait.

use super::flow::Flow;

/// Sums over the flows in which tasks wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weights {
    pub(super) flows: u32,
    /// Of these, of tables of which nothing is known.
    pub(super) unknown: u32,
    pub(super) sum: f64,
    squares: f64,
}

impl Weights {
    /// A task of `weight` is about to wait in a flow.
    #[inline(always)]
    pub(super) fn join(&mut self, flow: &mut Flow, weight: f32) {
        if flow.list.len > 0 {
            if flow.weight == weight {
                return;
            }
            self.leave(flow);
        }
        flow.weight = weight;
        self.flows += 1;
        self.unknown += u32::from(flow.cost == 0);
        self.add(weight, 1.0);
    }

    /// A flow does not count any more.
    #[inline(always)]
    pub(super) fn leave(&mut self, flow: &Flow) {
        self.flows -= 1;
        self.unknown -= u32::from(flow.cost == 0);
        self.add(flow.weight, -1.0);
        if self.flows == 0 {
            // Nothing is left of what rounding has added up.
            (self.sum, self.squares) = (0.0, 0.0);
        }
    }

    #[inline(always)]
    fn add(&mut self, weight: f32, times: f64) {
        let weight = f64::from(weight);
        self.sum += times * weight;
        self.squares += times * weight * weight;
    }

    /// Whether all are alike, to a millionth.
    pub(super) fn are_even(&self) -> bool {
        (f64::from(self.flows) * self.squares / (self.sum * self.sum) - 1.0).abs() < 1e-6
    }

    /// The mean.
    pub(super) fn mean(&self) -> f64 {
        self.sum / f64::from(self.flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_even_while_all_that_wait_are_alike() {
        let mut weights = Weights::default();
        let mut flows = [0.1, 0.1, 100.0, 0.1].map(|weight| {
            let mut flow = Flow::default();
            weights.join(&mut flow, weight);
            flow.list.len = 1;
            flow
        });
        assert!(!weights.are_even() && weights.flows == 4);
        weights.join(&mut flows[2], 0.1);
        assert!(weights.are_even() && (weights.mean() - 0.1).abs() < 1e-6);
        flows.iter().for_each(|flow| weights.leave(flow));
        assert_eq!((weights.flows, weights.unknown, weights.sum), (0, 0, 0.0));
    }
}
