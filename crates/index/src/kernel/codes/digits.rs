//! Weights that do not fit a byte, in digits of base 256 that do.

use super::super::{Positions, Rows};
use super::sums::{Kind, sums};

/// Digits of base 256 that weights have at most, and what they reach: 127 of each.
const DIGITS: usize = 3;
const REACH: f64 = 8_355_711.0;

/// Weights of any size in digits of base 256, from -128 to 127.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digits {
    /// What a weight of 1 stands for: more than 1 only if three digits do not reach.
    pub(super) grain: f64,
}

impl Digits {
    /// Of weights that fit a byte.
    pub(super) const ONE: Self = Self { grain: 1.0 };

    /// Writes `wanted` to `weights`, one digit of all after the other, the lowest first, each filled up with zeros to
    /// `width`.
    pub(super) fn write(
        wanted: impl Iterator<Item = f64> + Clone,
        width: usize,
        weights: &mut Vec<i8>,
    ) -> Self {
        let largest = wanted.clone().fold(0.0_f64, |most, w| most.max(w.abs()));
        let grain = (largest / REACH).max(1.0);
        let mut rest: Vec<i32> = wanted
            .map(|w| (w / grain).round_ties_even() as i32)
            .collect();
        weights.clear();
        for digit in 0..DIGITS {
            if digit > 0 && rest.iter().all(|&w| w == 0) {
                break;
            }
            let lowest = rest.iter_mut().map(|w| {
                let digit = *w as i8;
                *w = (*w - i32::from(digit)) >> 8;
                digit
            });
            weights.extend(lowest);
            let whole = (digit + 1) * width;
            weights.resize(whole, 0);
        }
        Self { grain }
    }

    /// `wanted` as it was written.
    pub(super) fn rounded(
        self,
        wanted: impl Iterator<Item = f64> + Clone,
    ) -> impl Iterator<Item = f64> + Clone {
        wanted.map(move |w| (w / self.grain).round_ties_even() * self.grain)
    }
}

/// Rows whose distances to a query outside are computed at once.
pub(super) const BLOCK: usize = 64;

/// The positions from `start` on, `len` of them.
#[derive(Clone, Copy)]
pub(super) struct Part<P> {
    all: P,
    start: usize,
    len: usize,
}

impl<P: Positions> Positions for Part<P> {
    const SCATTERED: bool = P::SCATTERED;

    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn at(&self, i: usize) -> usize {
        self.all.at(self.start + i)
    }
}

/// [`sums`] with weights in digits. Calls `finish` with the products of some rows, their positions, and where their
/// results go.
///
/// # Panics
/// As [`sums`].
pub(super) fn digit_sums<K: Kind, P: Positions>(
    kind: K,
    weights: &[i8],
    rows: Rows<'_>,
    positions: P,
    out: &mut [f32],
    mut finish: impl FnMut(&[i64], Part<P>, &mut [f32]),
) {
    assert_eq!(out.len(), positions.len(), "room for other results");
    for (block, out) in out.chunks_mut(BLOCK).enumerate() {
        let part = Part {
            all: positions,
            start: block * BLOCK,
            len: out.len(),
        };
        let mut products = [0_i64; BLOCK];
        let mut found = [0_i32; BLOCK];
        let found = &mut found[..out.len()];
        for (weights, digit) in weights.chunks_exact(kind.weights()).zip(0..) {
            sums(kind, weights, rows, part, found, |sum, _| sum);
            for (product, &sum) in products.iter_mut().zip(&*found) {
                *product += i64::from(sum) << (8 * digit);
            }
        }
        finish(&products[..out.len()], part, out);
    }
}
