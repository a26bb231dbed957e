//! Which samples a model learns from, and which it is tested on.

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde::Serialize;

use crate::draw::{seeded, shuffled};

/// The part that is tested on where samples are split at random, as MAO did.
const TESTED: f64 = 0.15;

/// How the samples are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A random 15 % are tested on, so instances of one service are on both sides.
    Random,
    /// Each family is tested on once, by a model that has seen none of it.
    Families,
}

/// One split: indices of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// What is learned from.
    pub train: Vec<usize>,
    /// What is tested on.
    pub test: Vec<usize>,
}

impl Way {
    /// As it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random 85/15",
            Self::Families => "by family",
        }
    }

    /// `count` splits of samples of these families. At random they are drawn independently; by family each family is on
    /// the test side of exactly one.
    pub fn splits(self, families: &[usize], count: usize, seed: u64) -> Vec<Split> {
        match self {
            Self::Random => (0..count as u64)
                .map(|number| at_random(families.len(), seeded(&[seed, number])))
                .collect(),
            Self::Families => folds(families, count, seed),
        }
    }

    /// Folds inside a training part, for choosing among settings: alike in kind to the split that it comes from.
    /// Indices are of `families`.
    pub fn inner(self, families: &[usize], count: usize, seed: u64) -> Vec<Split> {
        match self {
            // Every sample is a family of its own.
            Self::Random => folds(&(0..families.len()).collect::<Vec<_>>(), count, seed),
            Self::Families => folds(families, count, seed),
        }
    }
}

fn at_random(samples: usize, seed: u64) -> Split {
    let mut order = shuffled(&mut StdRng::seed_from_u64(seed), samples);
    let tested = (samples as f64 * TESTED).round() as usize;
    let train = order.split_off(tested.clamp(1, samples - 1));
    Split { train, test: order }
}

/// Families in a drawn order, dealt out to `count` folds, or as many as there are families.
fn folds(families: &[usize], count: usize, seed: u64) -> Vec<Split> {
    let mut known = families.to_vec();
    known.sort_unstable();
    known.dedup();
    let order = shuffled(&mut StdRng::seed_from_u64(seed), known.len());
    let count = count.min(known.len());
    let fold_of = |family: usize| {
        let place = known.binary_search(&family).expect("it is one of them");
        order[place] % count
    };
    (0..count)
        .map(|fold| {
            let samples = 0..families.len();
            let (test, train) = samples.partition(|&at| fold_of(families[at]) == fold);
            Split { train, test }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn families() -> Vec<usize> {
        (0..200).map(|sample| sample % 20).collect()
    }

    fn of(side: &[usize]) -> BTreeSet<usize> {
        side.iter().map(|&at| families()[at]).collect()
    }

    #[test]
    fn by_family_no_family_is_on_both_sides_and_each_is_tested_once() {
        let splits = Way::Families.splits(&families(), 5, 7);
        let mut tested: Vec<usize> = Vec::new();
        for split in &splits {
            assert!(of(&split.train).is_disjoint(&of(&split.test)));
            assert_eq!(of(&split.test).len(), 4);
            tested.extend(&split.test);
        }
        tested.sort_unstable();
        assert_eq!(tested, (0..200).collect::<Vec<_>>());
        for split in Way::Families.inner(&families()[..100], 3, 7) {
            assert!(of(&split.train).is_disjoint(&of(&split.test)));
        }
    }

    #[test]
    fn at_random_no_sample_is_on_both_sides_but_families_are() {
        for split in Way::Random.splits(&families(), 3, 7) {
            assert_eq!((split.train.len(), split.test.len()), (170, 30));
            let train: BTreeSet<_> = split.train.iter().collect();
            assert!(split.test.iter().all(|at| !train.contains(at)));
            assert!(of(&split.test).is_subset(&of(&split.train)));
        }
    }

    #[test]
    fn a_seed_says_which() {
        for way in [Way::Random, Way::Families] {
            let splits = |seed| way.splits(&families(), 2, seed);
            assert_eq!(splits(1), splits(1));
            assert_ne!(splits(1), splits(2));
        }
    }
}
