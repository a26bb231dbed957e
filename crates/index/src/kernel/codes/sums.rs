//! The loop over rows of codes, compiled for each level of instructions.

#[cfg(target_arch = "x86_64")]
use super::super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::super::avx512::Avx512;
use super::super::level::{Level, level};
use super::super::portable::Portable;
use super::super::{Positions, Rows};

/// Components whose squared differences fit in an `u32`, 255^2 each, and whose products in an `i32`, 255 times 128
/// each.
pub(crate) const MAX_DIM: usize = 65_536;

/// Rows that are asked for ahead of those computed.
const AHEAD: usize = 16;

/// What is summed over a row of codes, by the instructions of `I`.
///
/// # Safety
/// For callers: "Detected"; as many weights as the kind says, and as many bytes at each row as it reads.
pub(super) trait Sums<I>: Copy {
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32;
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4];
}

/// Sums at every level.
#[cfg(target_arch = "x86_64")]
pub(super) trait Levels: Sums<Portable> + Sums<Avx2> + Sums<Avx512> {}
#[cfg(target_arch = "x86_64")]
impl<K: Sums<Portable> + Sums<Avx2> + Sums<Avx512>> Levels for K {}

/// Sums at every level.
#[cfg(not(target_arch = "x86_64"))]
pub(super) trait Levels: Sums<Portable> {}
#[cfg(not(target_arch = "x86_64"))]
impl<K: Sums<Portable>> Levels for K {}

/// A kind of rows.
pub(super) trait Kind: Levels {
    /// Weights that a sum reads.
    fn weights(self) -> usize;
    /// Bytes that are read of a row, at least one.
    fn bytes(self) -> usize;
}

/// Calls `finish` with the sum of each row at `positions` and with the row's first byte, and writes what it returns to
/// `out`. From that byte on [`Kind::bytes`] can be read.
///
/// # Panics
/// If a row is not there or too short, or if `out` has another length than `positions`, or `weights` than the kind
/// says.
pub(super) fn sums<K: Kind, P: Positions, O>(
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
        Level::Avx2 => unsafe { avx2(kind, weights, rows, positions, out, finish) },
        // SAFETY: "Detected", "Inside".
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512(kind, weights, rows, positions, out, finish) },
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

/// # Safety
/// As [`each`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn avx512<K: Kind, P: Positions, O>(
    kind: K,
    weights: &[i8],
    rows: Rows<'_>,
    positions: P,
    out: &mut [O],
    finish: impl Fn(i32, *const u8) -> O,
) {
    // SAFETY: passed on.
    unsafe { each::<Avx512, K, P, O>(kind, weights, rows, positions, out, finish) }
}

/// # Safety
/// As [`each`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<K: Kind, P: Positions, O>(
    kind: K,
    weights: &[i8],
    rows: Rows<'_>,
    positions: P,
    out: &mut [O],
    finish: impl Fn(i32, *const u8) -> O,
) {
    // SAFETY: passed on.
    unsafe { each::<Avx2, K, P, O>(kind, weights, rows, positions, out, finish) }
}
