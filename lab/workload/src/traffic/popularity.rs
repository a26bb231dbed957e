//! How popular what is: a law over ranks, and who holds which rank.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand_distr::Distribution;

/// A change of the hot set at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    /// From this time on.
    pub at: Duration,
    /// What changes.
    pub change: Change,
}

/// How ranks pass between the tables of each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Hottest and coldest trade places, and so on inwards. With an odd number of tables the middle one
    /// stays.
    Reverse,
    /// Every table goes this many ranks down, and those at the end come to the front.
    Rotate(usize),
    /// A random order, drawn from the seed. A table may keep its rank.
    Shuffle,
}

/// Which of `n` items holds which rank, both from 0. Always a permutation.
#[derive(Clone, Debug)]
pub(super) struct Ranking(Vec<usize>);

impl Ranking {
    pub(super) fn new(items: usize) -> Self {
        Self((0..items).collect())
    }

    pub(super) fn holder(&self, rank: usize) -> usize {
        self.0[rank]
    }

    pub(super) fn apply(&mut self, change: Change, rng: &mut ChaCha8Rng) {
        match change {
            Change::Reverse => self.0.reverse(),
            Change::Rotate(ranks) => {
                let ranks = ranks % self.0.len();
                self.0.rotate_right(ranks);
            }
            Change::Shuffle => self.0.shuffle(rng),
        }
    }
}

/// Rank `r` of `n`, from 0, in proportion to `(r + 1)^-exponent`.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    ranks: usize,
    exponent: f64,
    law: rand_distr::Zipf<f64>,
}

impl Zipf {
    /// `ranks` is at least 1; `exponent` is finite and not negative.
    pub(super) fn new(ranks: usize, exponent: f64) -> Self {
        let law = rand_distr::Zipf::new(ranks as f64, exponent);
        Self {
            ranks,
            exponent,
            law: law.expect("callers check ranks and exponent"),
        }
    }

    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> usize {
        // The law counts from 1 and returns whole numbers as floats.
        (self.law.sample(rng) as usize).clamp(1, self.ranks) - 1
    }

    /// The probability of each rank.
    pub(super) fn shares(&self) -> impl Iterator<Item = f64> {
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-self.exponent);
        let total: f64 = (0..self.ranks).map(weight).sum();
        (0..self.ranks).map(move |rank| weight(rank) / total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    proptest! {
        #[test]
        fn every_change_leaves_a_permutation(
            items in 1_usize..40,
            changes in prop::collection::vec(0_usize..60, 0..8),
            seed: u64,
        ) {
            let mut ranking = Ranking::new(items);
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for change in changes {
                ranking.apply(match change {
                    0..5 => Change::Reverse,
                    5..10 => Change::Shuffle,
                    ranks => Change::Rotate(ranks),
                }, &mut rng);
            }
            let mut holders: Vec<_> = (0..items).map(|rank| ranking.holder(rank)).collect();
            holders.sort_unstable();
            prop_assert_eq!(holders, (0..items).collect::<Vec<_>>());
        }

        #[test]
        fn draws_stay_within_the_ranks(ranks in 1_usize..2_000, exponent in 0.0..4.0, seed: u64) {
            let zipf = Zipf::new(ranks, exponent);
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for _ in 0..50 {
                prop_assert!(zipf.draw(&mut rng) < ranks);
            }
        }
    }

    #[test]
    fn frequencies_follow_the_exponent() {
        const DRAWS: usize = 200_000;
        for exponent in [0.0, 0.7, 1.0, 1.5] {
            let zipf = Zipf::new(20, exponent);
            let mut rng = ChaCha8Rng::seed_from_u64(11);
            let mut counts = [0_usize; 20];
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut rng)] += 1;
            }
            // Chi-square with 19 degrees of freedom: above 43.8 once in a thousand.
            let chi_square: f64 = zipf
                .shares()
                .zip(counts)
                .map(|(share, count)| {
                    let expected = share * DRAWS as f64;
                    (count as f64 - expected).powi(2) / expected
                })
                .sum();
            assert!(
                chi_square < 43.8,
                "exponent {exponent}: chi-square {chi_square}"
            );
        }
    }

    #[test]
    fn changes_move_ranks_as_documented() {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let after = |change, rng: &mut _| {
            let mut ranking = Ranking::new(5);
            ranking.apply(change, rng);
            ranking.0
        };
        assert_eq!(after(Change::Reverse, &mut rng), [4, 3, 2, 1, 0]);
        assert_eq!(after(Change::Rotate(2), &mut rng), [3, 4, 0, 1, 2]);
        assert_ne!(after(Change::Shuffle, &mut rng), [0, 1, 2, 3, 4]);
    }
}
