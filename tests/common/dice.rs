//! Chance that repeats itself.

/// A fixed sequence of throws, another one for each seed.
pub struct Dice(pub u64);

impl Dice {
    /// One of `0..sides`: an outcome of Knuth's MMIX generator, whose upper bits are the good ones.
    pub fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    pub fn one_in(&mut self, sides: u64) -> bool {
        self.throw(sides) == 0
    }
}
