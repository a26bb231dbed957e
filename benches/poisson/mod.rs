//! Arrivals at random times, the same ones for the same seed.

#[allow(dead_code, reason = "the tests throw it in other ways, too")]
#[path = "../../tests/common/dice.rs"]
mod dice;

use std::time::Duration;

/// The times of a Poisson process of `rate` a second, without an end.
pub fn arrivals(seed: u64, rate: f64) -> impl Iterator<Item = Duration> {
    const SIDES: u64 = 1 << 31;
    let mut dice = dice::Dice(seed);
    let gap = move || -((1 + dice.throw(SIDES)) as f64 / SIDES as f64).ln() / rate;
    std::iter::repeat_with(gap).scan(0.0, |time, gap| {
        *time += gap;
        Some(Duration::from_secs_f64(*time))
    })
}
