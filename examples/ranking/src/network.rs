//! A network of three layers, as a ranking model has one.

use ndarray::{Array1, Array2};
use rand::SeedableRng as _;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution as _, Normal};

/// Outputs of the layers.
pub const WIDTHS: [usize; 3] = [128, 64, 1];

/// Three layers; the first two cut at zero (ReLU), the last gives a score.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    layers: [Layer; 3],
}

/// `inputs x weights + bias`.
#[derive(Clone, Debug, PartialEq)]
struct Layer {
    /// `[inputs][outputs]`.
    weights: Array2<f32>,
    bias: Array1<f32>,
}

impl Network {
    /// A network that nobody trained: weights drawn as He et al. start one (normal, variance 2 / inputs; arXiv
    /// 1502.01852), no bias. It costs what a trained one costs, and ranks at random. The same seed, the same network.
    ///
    /// # Panics
    /// If there are no inputs.
    #[must_use]
    pub fn random(inputs: usize, seed: u64) -> Self {
        assert!(inputs > 0, "a network needs inputs");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut width = inputs;
        let layers = WIDTHS.map(|outputs| {
            let spread = (2.0 / width as f32).sqrt();
            let normal = Normal::new(0.0, spread).expect("a spread above 0");
            let weights =
                Array2::from_shape_simple_fn((width, outputs), || normal.sample(&mut random));
            width = outputs;
            Layer {
                weights,
                bias: Array1::zeros(outputs),
            }
        });
        Self { layers }
    }

    /// Values that a row of inputs has.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.layers[0].weights.nrows()
    }

    /// The score of each row of `inputs`.
    ///
    /// # Panics
    /// If a row has another number of values than [`Network::inputs`].
    #[must_use]
    pub fn scores(&self, inputs: Array2<f32>) -> Vec<f32> {
        let [hidden @ .., last] = &self.layers;
        let mut values = inputs;
        for layer in hidden {
            values = values.dot(&layer.weights) + &layer.bias;
            values.mapv_inplace(|value| value.max(0.0));
        }
        let scores = values.dot(&last.weights) + &last.bias;
        scores.into_raw_vec_and_offset().0
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn layers_follow_one_another_and_negative_values_are_cut() {
        let layer = |weights, bias| Layer { weights, bias };
        let network = Network {
            layers: [
                layer(array![[1.0, -1.0], [2.0, 0.0]], array![0.5, 0.0]),
                layer(array![[1.0, 0.0], [4.0, 1.0]], array![0.0, -1.0]),
                layer(array![[3.0], [5.0]], array![0.25]),
            ],
        };
        // [1, 1] -> [3.5, -1] -> cut [3.5, 0] -> [3.5, -1] -> cut [3.5, 0] -> 10.75.
        // [-2, 0] -> [-1.5, 2] -> cut [0, 2] -> [8, 1] -> 29.25.
        assert_eq!(
            network.scores(array![[1.0, 1.0], [-2.0, 0.0]]),
            [10.75, 29.25]
        );
        assert_eq!(network.inputs(), 2);
    }

    #[test]
    fn the_same_seed_draws_the_same_network() {
        assert_eq!(Network::random(9, 1), Network::random(9, 1));
        assert_ne!(Network::random(9, 1), Network::random(9, 2));
    }
}
