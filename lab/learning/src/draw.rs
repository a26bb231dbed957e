//! Drawing by a seed: the same seed gives the same cases on any number of threads.

use rand::RngExt;
use rand::seq::SliceRandom as _;

/// A seed of some numbers, each of which changes it (splitmix64 of each in turn).
pub fn seeded(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |state, &number| {
        let mut z = (state ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Evenly between two numbers.
pub fn between(dice: &mut impl RngExt, least: f64, most: f64) -> f64 {
    least + (most - least) * dice.random::<f64>()
}

/// Evenly in the logarithm.
pub fn log_between(dice: &mut impl RngExt, least: f64, most: f64) -> f64 {
    between(dice, least.ln(), most.ln()).exp()
}

/// One of some values, all alike.
pub fn one_of<T: Copy>(dice: &mut impl RngExt, values: &[T]) -> T {
    values[dice.random_range(0..values.len())]
}

/// The numbers below `count` in a drawn order.
pub fn shuffled(dice: &mut impl RngExt, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(dice);
    order
}
