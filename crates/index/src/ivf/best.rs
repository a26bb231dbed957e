//! The k nearest of the rows that scans offer, in one total order: by distance, then id.
//!
//! A row is one number, its distance's bits above its id, so that one comparison settles both. Up to [`SMALL`] rows are
//! kept in order; more are gathered and cut back to `k` now and then, which costs a few steps a row however large `k`
//! is.

use chiplet_table::{Filter, Neighbor};

use crate::ids::Ids;
use crate::kernel::Sink;
use crate::metric::Metric;

/// Rows that are kept in order: moving as many numbers costs less than cutting back.
const SMALL: usize = 24;

/// The nearest rows so far.
#[derive(Debug, Default)]
pub(super) struct Best {
    k: usize,
    kept: Vec<u128>,
    /// What a row must be below.
    limit: u128,
    /// Rows at which the next cut is due.
    full: usize,
}

impl Best {
    /// Starts anew, for the `k` nearest within `radius`, if there is one.
    pub(super) fn begin(&mut self, k: usize, radius: Option<f32>) {
        self.k = k;
        self.kept.clear();
        self.full = k;
        self.limit = match radius {
            // Zeros of both signs are one distance.
            Some(radius) => key(radius + 0.0, u64::MAX) + 1,
            None => u128::MAX,
        };
        if k == 0 {
            self.limit = 0;
        }
    }

    /// No row farther away is wanted.
    #[inline]
    pub(super) fn bound(&self) -> f32 {
        match self.limit {
            u128::MAX => f32::INFINITY,
            0 => f32::NEG_INFINITY,
            limit => distance_of(limit - 1),
        }
    }

    /// Keeps the row if it is near enough and `filter` lets it.
    #[inline]
    pub(super) fn offer(&mut self, distance: f32, id: u64, filter: Option<&Filter>) {
        let key = key(distance, id);
        if key < self.limit && filter.is_none_or(|filter| filter.allows(id)) {
            self.keep(key);
        }
    }

    fn keep(&mut self, key: u128) {
        if self.k <= SMALL {
            if self.kept.len() == self.k {
                self.kept.pop();
            }
            let at = self.kept.partition_point(|&other| other < key);
            self.kept.insert(at, key);
            if self.kept.len() == self.k {
                self.limit = self.kept[self.k - 1];
            }
        } else {
            self.kept.push(key);
            if self.kept.len() >= self.full {
                self.cut();
            }
        }
    }

    /// Keeps the `k` nearest only.
    fn cut(&mut self) {
        if self.kept.len() >= self.k {
            let (_, &mut last, _) = self.kept.select_nth_unstable(self.k - 1);
            self.kept.truncate(self.k);
            self.limit = last;
            self.full = self.k.saturating_mul(2);
        }
    }

    /// What was kept, nearest first: distances and ids.
    pub(super) fn sorted(&mut self) -> impl ExactSizeIterator<Item = (f32, u64)> {
        if self.k > SMALL {
            self.cut();
            self.kept.sort_unstable();
        }
        let rows = self.kept.iter();
        rows.map(|&key| (distance_of(key), key as u64))
    }

    /// What was kept, as an answer.
    pub(super) fn answer(&mut self) -> Vec<Neighbor> {
        let rows = self.sorted();
        rows.map(|(distance, id)| Neighbor { id, distance })
            .collect()
    }

    /// Gives back memory beyond room for `rows` rows.
    pub(super) fn shrink(&mut self, rows: usize) {
        self.kept.clear();
        self.kept.shrink_to(rows);
    }
}

/// A number that orders as `distance`, then `id`.
#[inline]
fn key(distance: f32, id: u64) -> u128 {
    let bits = distance.to_bits();
    // Negative numbers grow with smaller bits.
    let ordered = bits ^ ((bits.cast_signed() >> 31).cast_unsigned() | 1 << 31);
    u128::from(ordered) << 64 | u128::from(id)
}

#[inline]
fn distance_of(key: u128) -> f32 {
    let ordered = (key >> 64) as u32;
    // The sign bit was turned round in any case, the others for negative numbers.
    let bits = if ordered >> 31 == 1 {
        ordered ^ 1 << 31
    } else {
        !ordered
    };
    f32::from_bits(bits)
}

/// Rows of one list on their way to the best.
pub(super) struct Offers<'a> {
    pub(super) best: &'a mut Best,
    pub(super) ids: Ids<'a>,
    /// Which of the list's rows is the first that is scanned.
    pub(super) first: usize,
    pub(super) filter: Option<&'a Filter>,
    pub(super) metric: Metric,
}

impl Offers<'_> {
    /// No row at a larger distance, by its code, is wanted.
    pub(super) fn bound(&self) -> f32 {
        let bound = self.best.bound();
        // Further ones are reported as that.
        match self.metric {
            Metric::Cosine if bound >= 2.0 => f32::INFINITY,
            _ => bound,
        }
    }
}

impl Sink for Offers<'_> {
    fn offer(&mut self, first: usize, which: u16, distances: &[f32; 16]) -> f32 {
        let mut which = which;
        while which != 0 {
            let lane = which.trailing_zeros() as usize;
            which &= which - 1;
            let distance = self.metric.reported(distances[lane]);
            self.best.offer(
                distance,
                self.ids.at(self.first + first + lane),
                self.filter,
            );
        }
        self.bound()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keeps_the_nearest_in_order(
            rows in proptest::collection::vec((-4i8..4, 0u64..1000), 0..300),
            k in 1usize..80,
            radius in proptest::option::of(-3i8..3),
        ) {
            let mut best = Best::default();
            best.begin(k, radius.map(f32::from));
            for &(distance, id) in &rows {
                let distance = f32::from(distance) / 2.0;
                if distance <= best.bound() {
                    best.offer(distance, id, None);
                }
            }
            let mut expected: Vec<Neighbor> = rows.iter()
                .map(|&(distance, id)| Neighbor { id, distance: f32::from(distance) / 2.0 })
                .filter(|hit| radius.is_none_or(|radius| hit.distance <= f32::from(radius)))
                .collect();
            expected.sort();
            expected.truncate(k);
            prop_assert_eq!(best.answer(), expected);
        }
    }

    #[test]
    fn numbers_order_as_distances_do() {
        let distances = [
            f32::NEG_INFINITY,
            -2.5,
            -0.0,
            0.0,
            1e-40,
            1.0,
            f32::MAX,
            f32::INFINITY,
        ];
        for pair in distances.windows(2) {
            assert!(key(pair[0], 9) < key(pair[1], 0), "{pair:?}");
        }
        for distance in distances {
            assert_eq!(distance_of(key(distance, 7)).to_bits(), distance.to_bits());
        }
        assert!(key(1.0, 1) < key(1.0, 2));
    }
}
