//! Integer distances over rows of 8-bit codes, exact on every level.
//!
//! A row is `dim` codes `r` (`u8`), zeros up to a multiple of four bytes, then an `i32` constant. AVX-512 multiplies
//! unsigned by signed bytes only, so a query's code `q` is kept as `q - 128`, and the constant makes up for it:
//!
//! ```text
//! sum (q - r)^2 = sum q^2 + [sum r^2 - 256 sum r] - 2 sum r (q - 128)
//! ```
//!
//! The brackets are the row's constant. An inner product needs none: its weights are signed to begin with.

use super::level::{Level, level};
use super::{Positions, Rows};

/// Codes that one AVX-512 register holds; a query is filled up to whole ones.
const WIDTH: usize = 64;

/// Components whose squared differences fit in an `i32`: 255^2 each.
pub(crate) const MAX_DIM: usize = 32_768;

/// Bytes of a row of `dim` codes with its constant.
pub(crate) fn row_bytes(dim: usize) -> usize {
    dim.next_multiple_of(4) + 4
}

/// Writes `codes` and their constant to `row`, which has [`row_bytes`] or more. `farther` is added to the row's squared
/// distances, in squared steps.
pub(crate) fn write_row(codes: &[u8], farther: i32, row: &mut [u8]) {
    let at = codes.len().next_multiple_of(4);
    row[..codes.len()].copy_from_slice(codes);
    row[codes.len()..at].fill(0);
    let constant: i32 = codes
        .iter()
        .map(|&code| i32::from(code) * (i32::from(code) - 256))
        .sum();
    let constant = constant.saturating_add(farther);
    row[at..at + 4].copy_from_slice(&constant.to_le_bytes());
}

/// A query against rows of codes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodeQuery {
    /// One signed byte a component, filled up with zeros.
    weights: Vec<i8>,
    dim: usize,
    /// Added to the constant of a row; `None` where rows' constants do not count.
    squares: Option<i32>,
}

impl CodeQuery {
    /// Squared distances to the codes `query`.
    pub(crate) fn squared_l2(&mut self, query: impl ExactSizeIterator<Item = u8>) {
        let mut squares = 0;
        self.fill(query.map(|code| {
            squares += i32::from(code) * i32::from(code);
            (code ^ 0x80).cast_signed()
        }));
        self.squares = Some(squares);
    }

    /// Sums of codes by `weights`.
    pub(crate) fn weighted(&mut self, weights: impl ExactSizeIterator<Item = i8>) {
        self.fill(weights);
        self.squares = None;
    }

    fn fill(&mut self, weights: impl ExactSizeIterator<Item = i8>) {
        self.dim = weights.len();
        assert!(self.dim <= MAX_DIM, "sums overflow");
        self.weights.clear();
        self.weights.extend(weights);
        self.weights.resize(self.dim.next_multiple_of(WIDTH), 0);
    }

    /// The squared distances, or the weighted sums, of the rows at `positions`, each as a float.
    ///
    /// # Panics
    /// If a row is not there or too short, or if `out` has another length than `positions`.
    pub(crate) fn run<P: Positions>(&self, rows: Rows<'_>, positions: P, out: &mut [f32]) {
        // "Inside".
        assert!(row_bytes(self.dim) <= rows.stride, "rows are shorter");
        assert!(positions.end() <= rows.count, "no such row");
        assert_eq!(out.len(), positions.len(), "room for other results");
        match level() {
            // SAFETY: every processor has what the target always has; "Inside".
            Level::Portable => unsafe { self.all::<P>(rows, positions, out, products) },
            // SAFETY: "Detected", "Inside".
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { self.all_avx2(rows, positions, out) },
            // SAFETY: "Detected", "Inside".
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { self.all_avx512(rows, positions, out) },
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn all_avx512<P: Positions>(&self, rows: Rows<'_>, positions: P, out: &mut [f32]) {
        // SAFETY: passed on.
        unsafe { self.all(rows, positions, out, |w, r, dim| products_avx512(w, r, dim)) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn all_avx2<P: Positions>(&self, rows: Rows<'_>, positions: P, out: &mut [f32]) {
        // SAFETY: passed on.
        unsafe { self.all(rows, positions, out, |w, r, dim| products_avx2(w, r, dim)) }
    }

    /// # Safety
    /// "Inside"; `products` may be called.
    #[inline(always)]
    unsafe fn all<P: Positions>(
        &self,
        rows: Rows<'_>,
        positions: P,
        out: &mut [f32],
        products: impl Fn(*const i8, *const u8, usize) -> i32,
    ) {
        let constant_at = self.dim.next_multiple_of(4);
        let lines = row_bytes(self.dim).div_ceil(64).min(16);
        let count = positions.len();
        if P::SCATTERED {
            for i in 0..count.min(AHEAD) {
                rows.prefetch(positions.at(i), lines);
            }
        }
        let weights = self.weights.as_ptr();
        for (i, out) in out.iter_mut().enumerate() {
            if P::SCATTERED && i + AHEAD < count {
                rows.prefetch(positions.at(i + AHEAD), lines);
            }
            // SAFETY: "Inside".
            let row = unsafe { rows.bytes.as_ptr().add(positions.at(i) * rows.stride) };
            let sum = products(weights, row, self.dim);
            *out = match self.squares {
                // SAFETY: "Inside": the constant is part of the row. A damaged one may wrap.
                Some(squares) => unsafe {
                    let constant =
                        i32::from_le(row.add(constant_at).cast::<i32>().read_unaligned());
                    squares
                        .wrapping_add(constant)
                        .wrapping_sub(sum.wrapping_mul(2))
                        .cast_unsigned() as f32
                },
                None => sum as f32,
            };
        }
    }
}

/// Rows that are asked for ahead of the one computed.
const AHEAD: usize = 8;

/// The sum of `weights[i] * row[i]` over `dim` components, in plain loops.
#[inline(always)]
fn products(weights: *const i8, row: *const u8, dim: usize) -> i32 {
    // SAFETY: called by `CodeQuery::run` alone: `dim` weights and `dim` codes are there.
    let (weights, row) = unsafe {
        (
            std::slice::from_raw_parts(weights, dim),
            std::slice::from_raw_parts(row, dim),
        )
    };
    let pairs = weights.iter().zip(row);
    pairs.map(|(&w, &r)| i32::from(w) * i32::from(r)).sum()
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn products_avx512(weights: *const i8, row: *const u8, dim: usize) -> i32 {
    use std::arch::x86_64::*;
    // SAFETY: called by `CodeQuery::run` alone: whole registers of weights, `dim` codes; the last are masked.
    unsafe {
        let mut even = _mm512_setzero_si512();
        let mut odd = _mm512_setzero_si512();
        let mut at = 0;
        while at + 2 * WIDTH <= dim {
            let (w, r) = (weights.add(at), row.add(at));
            even = _mm512_dpbusd_epi32(even, _mm512_loadu_epi8(r.cast()), _mm512_loadu_epi8(w));
            let (w, r) = (w.add(WIDTH), r.add(WIDTH));
            odd = _mm512_dpbusd_epi32(odd, _mm512_loadu_epi8(r.cast()), _mm512_loadu_epi8(w));
            at += 2 * WIDTH;
        }
        while at < dim {
            let mask = if dim - at >= WIDTH {
                !0
            } else {
                (1_u64 << (dim - at)) - 1
            };
            let codes = _mm512_maskz_loadu_epi8(mask, row.add(at).cast());
            even = _mm512_dpbusd_epi32(even, codes, _mm512_loadu_epi8(weights.add(at)));
            at += WIDTH;
        }
        _mm512_reduce_add_epi32(_mm512_add_epi32(even, odd))
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn products_avx2(weights: *const i8, row: *const u8, dim: usize) -> i32 {
    use std::arch::x86_64::*;
    const STEP: usize = 16;
    // SAFETY: called by `CodeQuery::run` alone: `dim` weights and `dim` codes are there.
    unsafe {
        let mut sums = _mm256_setzero_si256();
        let whole = dim - dim % STEP;
        let mut at = 0;
        while at < whole {
            let codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(row.add(at).cast()));
            let signed = _mm256_cvtepi8_epi16(_mm_loadu_si128(weights.add(at).cast()));
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(codes, signed));
            at += STEP;
        }
        let two = _mm_add_epi32(
            _mm256_castsi256_si128(sums),
            _mm256_extracti128_si256::<1>(sums),
        );
        let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b1110>(two));
        let sum = _mm_cvtsi128_si32(_mm_add_epi32(one, _mm_shuffle_epi32::<0b01>(one)));
        sum + products(weights.add(whole), row.add(whole), dim - whole)
    }
}
