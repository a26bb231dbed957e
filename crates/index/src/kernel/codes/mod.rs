//! Integer distances over rows of codes, exact on every level.
//!
//! | file | holds |
//! |---|---|
//! | `bytes` | rows of 8-bit codes, and queries for them |
//! | `nibbles` | rows of 4-bit codes, and queries for them |
//! | `x86` | sums of products in AVX-512 and AVX2 |
//!
//! Every distance is made of sums of a row's codes times a query's weights, which are signed bytes. A query may have
//! components whose weights do not fit a byte. They are written in digits of base 256 then, and each digit's products with a row are
//! summed by themselves.

mod bytes;
mod nibbles;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use bytes::{CodeQuery, row_bytes, write_row};
pub(crate) use nibbles::{MIDDLE, NibbleQuery, Own, nibble_bytes, nibbles_have_own, write_nibbles};

use super::level::{Level, level};
use super::portable::Portable;
use super::{Positions, Rows};

/// Components whose squared differences fit in an `i32`: 255^2 each.
pub(crate) const MAX_DIM: usize = 32_768;

/// Rows that are asked for ahead of those computed.
const AHEAD: usize = 16;

/// What is summed over a row of codes, by the instructions of `I`.
///
/// # Safety
/// For callers: "Detected"; as many weights as the kind says, and as many bytes at each row as it reads.
trait Sums<I>: Copy {
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32;
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4];
}

/// A kind of rows, at every level.
#[cfg(target_arch = "x86_64")]
trait Kind: Sums<Portable> + Sums<super::avx2::Avx2> + Sums<super::avx512::Avx512> {
    /// Weights that a sum reads.
    fn weights(self) -> usize;
    /// Bytes that are read of a row, at least one.
    fn bytes(self) -> usize;
}

/// A kind of rows, at every level.
#[cfg(not(target_arch = "x86_64"))]
trait Kind: Sums<Portable> {
    /// Weights that a sum reads.
    fn weights(self) -> usize;
    /// Bytes that are read of a row, at least one.
    fn bytes(self) -> usize;
}

/// Calls `finish` with the sum of each row at `positions` and with the row's first byte, and writes what it returns to `out`.
/// From that byte on [`Kind::bytes`] can be read.
///
/// # Panics
/// If a row is not there or too short, or if `out` has another length than `positions`, or `weights` than the kind says.
fn sums<K: Kind, P: Positions, O>(
    kind: K,
    weights: &[i8],
    rows: Rows<'_>,
    positions: P,
    out: &mut [O],
    finish: impl Fn(i32, *const u8) -> O,
) {
    // "Inside".
    assert!(kind.bytes() <= rows.stride, "rows are shorter");
    assert_eq!(out.len(), positions.len(), "room for other results");
    assert_eq!(weights.len(), kind.weights(), "weights");
    match level() {
        // SAFETY: every processor has what the target always has; "Inside".
        Level::Portable => unsafe {
            each::<Portable, K, P, O>(kind, weights, rows, positions, out, finish)
        },
        // SAFETY: "Detected", "Inside".
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::avx2(kind, weights, rows, positions, out, finish) },
        // SAFETY: "Detected", "Inside".
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::avx512(kind, weights, rows, positions, out, finish) },
    }
}

/// # Safety
/// "Detected" and "Inside": the kind's bytes are no more than a row's stride, and its weights are there.
#[inline(always)]
unsafe fn each<I, K: Sums<I> + Kind, P: Positions, O>(
    kind: K,
    weights: &[i8],
    rows: Rows<'_>,
    positions: P,
    out: &mut [O],
    finish: impl Fn(i32, *const u8) -> O,
) {
    let bytes = kind.bytes();
    let count = positions.len();
    if P::SCATTERED {
        for i in 0..count.min(AHEAD) {
            rows.prefetch(positions.at(i), bytes);
        }
    }
    let row = |i: usize| rows.start(positions.at(i));
    let weights = weights.as_ptr();
    let mut i = 0;
    while i + 4 <= count {
        if P::SCATTERED {
            for next in i + AHEAD..(i + AHEAD + 4).min(count) {
                rows.prefetch(positions.at(next), bytes);
            }
        }
        let four = [row(i), row(i + 1), row(i + 2), row(i + 3)];
        // SAFETY: passed on.
        let sums = unsafe { Sums::<I>::four(kind, weights, four) };
        for at in 0..4 {
            out[i + at] = finish(sums[at], four[at]);
        }
        i += 4;
    }
    while i < count {
        // SAFETY: passed on.
        let sum = unsafe { Sums::<I>::one(kind, weights, row(i)) };
        out[i] = finish(sum, row(i));
        i += 1;
    }
}

/// Digits of base 256 that weights have at most, and what they reach: 127 of each.
const DIGITS: usize = 3;
const REACH: f64 = 8_355_711.0;

/// Weights of any size in digits of base 256, from -128 to 127.
#[derive(Clone, Copy, Debug)]
struct Digits {
    /// What a weight of 1 stands for: more than 1 only if three digits do not reach.
    grain: f64,
}

impl Digits {
    /// Writes `wanted` to `weights`, one digit of all after the other, the lowest first, each filled up with zeros to `width`.
    fn write(
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
    fn rounded(
        self,
        wanted: impl Iterator<Item = f64> + Clone,
    ) -> impl Iterator<Item = f64> + Clone {
        wanted.map(move |w| (w / self.grain).round_ties_even() * self.grain)
    }
}

/// Rows whose distances to a query outside are computed at once.
const BLOCK: usize = 64;

/// The positions from `start` on, `len` of them.
#[derive(Clone, Copy)]
struct Part<P> {
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

/// What `finish` makes of each row's products with weights in digits, and of the row's number: [`sums`], one digit after the
/// other.
///
/// # Panics
/// As [`sums`].
fn digit_sums<K: Kind, P: Positions>(
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

#[cfg(test)]
mod tests;
