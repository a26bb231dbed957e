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
//!
//! A query may have components that no code stands for. Its `q - 128` does not fit a byte then, so it is written in digits of
//! base 256, from -128 to 127, and each digit's products with the row are summed by themselves. The same equation holds.

use std::marker::PhantomData;

use super::level::{Level, level};
use super::portable::Portable;
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
    outside: Option<Outside>,
}

/// What a query needs whose components lie outside the codes; its weights are digits, the lowest of all components first.
#[derive(Clone, Copy, Debug)]
struct Outside {
    squares: f64,
    /// What a weight of 1 stands for, in steps: more than 1 only if three digits do not reach.
    grain: f64,
    /// What a distance of one squared step is reported as.
    unit: f64,
}

/// Digits of base 256 that weights have at most, and what they reach: 127 of each.
const DIGITS: usize = 3;
const REACH: f64 = 8_355_711.0;

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

    /// Squared distances, times `unit`, to `query`: what each component would have as a code if codes were numbers of any
    /// size, in steps above the lowest.
    pub(crate) fn squared_l2_outside(
        &mut self,
        query: impl ExactSizeIterator<Item = f64> + Clone,
        unit: f64,
    ) {
        let largest = query
            .clone()
            .fold(0.0_f64, |most, q| most.max((q - 128.0).abs()));
        let grain = (largest / REACH).max(1.0);
        let mut squares = 0.0;
        let weights: Vec<i32> = query
            .map(|q| {
                let weight = ((q - 128.0) / grain).round_ties_even();
                squares += (weight * grain + 128.0).powi(2);
                weight as i32
            })
            .collect();
        self.fill([].into_iter());
        self.dim = weights.len();
        assert!(self.dim <= MAX_DIM, "sums overflow");
        let mut rest = weights;
        for digit in 0..DIGITS {
            if digit > 0 && rest.iter().all(|&w| w == 0) {
                break;
            }
            let lowest = rest.iter_mut().map(|w| {
                let digit = *w as i8;
                *w = (*w - i32::from(digit)) >> 8;
                digit
            });
            self.weights.extend(lowest);
            let whole = self.weights.len().next_multiple_of(WIDTH);
            self.weights.resize(whole, 0);
        }
        self.squares = None;
        self.outside = Some(Outside {
            squares,
            grain,
            unit,
        });
    }

    /// Sums of codes by `weights`.
    pub(crate) fn weighted(&mut self, weights: impl ExactSizeIterator<Item = i8>) {
        self.fill(weights);
        self.squares = None;
    }

    fn fill(&mut self, weights: impl ExactSizeIterator<Item = i8>) {
        self.outside = None;
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
        if let Some(outside) = self.outside {
            return self.run_outside(outside, rows, positions, out);
        }
        let Some(squares) = self.squares else {
            return self.sums(&self.weights, rows, positions, out, |sum, _| sum as f32);
        };
        self.sums(&self.weights, rows, positions, out, |sum, constant| {
            // Up to 2^31, and as much again for a row that is farther than its codes say. A damaged constant may wrap.
            squares
                .wrapping_add(constant.read())
                .wrapping_sub(sum.wrapping_mul(2))
                .cast_unsigned() as f32
        });
    }

    fn run_outside<P: Positions>(
        &self,
        outside: Outside,
        rows: Rows<'_>,
        positions: P,
        out: &mut [f32],
    ) {
        assert_eq!(out.len(), positions.len(), "room for other results");
        let plane = self.dim.next_multiple_of(WIDTH).max(1);
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            let part = Part {
                all: positions,
                start: block * BLOCK,
                len: out.len(),
            };
            let mut found = [(0_i32, 0_i32); BLOCK];
            let mut products = [0_i64; BLOCK];
            let found = &mut found[..out.len()];
            for (weights, digit) in self.weights.chunks_exact(plane).zip(0..) {
                self.sums(weights, rows, part, found, |sum, constant| {
                    (sum, constant.read())
                });
                for (product, &(sum, _)) in products.iter_mut().zip(&*found) {
                    *product += i64::from(sum) << (8 * digit);
                }
            }
            for ((out, &(_, constant)), product) in out.iter_mut().zip(&*found).zip(products) {
                let inner = outside.grain * product as f64;
                let squared = outside.squares + f64::from(constant) - 2.0 * inner;
                *out = (squared.max(0.0) * outside.unit) as f32;
            }
        }
    }

    /// What `finish` makes of each row's codes weighted and added up, and of a function that reads the row's constant.
    ///
    /// # Panics
    /// As [`CodeQuery::run`], or if `weights` are not whole registers for all components.
    fn sums<P: Positions, O>(
        &self,
        weights: &[i8],
        rows: Rows<'_>,
        positions: P,
        out: &mut [O],
        finish: impl Fn(i32, Constant<'_>) -> O,
    ) {
        // "Inside".
        assert!(row_bytes(self.dim) <= rows.stride, "rows are shorter");
        assert_eq!(out.len(), positions.len(), "room for other results");
        assert_eq!(weights.len(), self.dim.next_multiple_of(WIDTH), "weights");
        match level() {
            // SAFETY: every processor has what the target always has; "Inside".
            Level::Portable => unsafe {
                self.all::<Portable, P, O>(weights, rows, positions, out, finish)
            },
            // SAFETY: "Detected", "Inside".
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { self.all_avx2(weights, rows, positions, out, finish) },
            // SAFETY: "Detected", "Inside".
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { self.all_avx512(weights, rows, positions, out, finish) },
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn all_avx512<P: Positions, O>(
        &self,
        weights: &[i8],
        rows: Rows<'_>,
        positions: P,
        out: &mut [O],
        finish: impl Fn(i32, Constant<'_>) -> O,
    ) {
        // SAFETY: passed on.
        unsafe { self.all::<super::avx512::Avx512, P, O>(weights, rows, positions, out, finish) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn all_avx2<P: Positions, O>(
        &self,
        weights: &[i8],
        rows: Rows<'_>,
        positions: P,
        out: &mut [O],
        finish: impl Fn(i32, Constant<'_>) -> O,
    ) {
        // SAFETY: passed on.
        unsafe { self.all::<super::avx2::Avx2, P, O>(weights, rows, positions, out, finish) }
    }

    /// # Safety
    /// "Detected" and "Inside".
    #[inline(always)]
    unsafe fn all<I: Products, P: Positions, O>(
        &self,
        weights: &[i8],
        rows: Rows<'_>,
        positions: P,
        out: &mut [O],
        finish: impl Fn(i32, Constant<'_>) -> O,
    ) {
        let bytes = row_bytes(self.dim);
        let count = positions.len();
        if P::SCATTERED {
            for i in 0..count.min(AHEAD) {
                rows.prefetch(positions.at(i), bytes);
            }
        }
        let row = |i: usize| rows.start(positions.at(i));
        let weights = weights.as_ptr();
        let finish = |row: *const u8, sum| {
            let at = row.wrapping_add(self.dim.next_multiple_of(4));
            // SAFETY: "Inside": each row is long enough for the constant.
            finish(sum, unsafe { Constant::new(at) })
        };
        let mut i = 0;
        while i + 4 <= count {
            if P::SCATTERED {
                for next in i + AHEAD..(i + AHEAD + 4).min(count) {
                    rows.prefetch(positions.at(next), bytes);
                }
            }
            let four = [row(i), row(i + 1), row(i + 2), row(i + 3)];
            // SAFETY: "Detected"; whole registers of weights, and `dim` codes at each row.
            let sums = unsafe { I::four(weights, four, self.dim) };
            for at in 0..4 {
                out[i + at] = finish(four[at], sums[at]);
            }
            i += 4;
        }
        while i < count {
            // SAFETY: as above.
            let sum = unsafe { I::one(weights, row(i), self.dim) };
            out[i] = finish(row(i), sum);
            i += 1;
        }
    }
}

/// Where a row has its constant: read only by what needs it, as it may be in a cache line of its own.
#[derive(Clone, Copy)]
struct Constant<'a> {
    at: *const u8,
    row: PhantomData<&'a [u8]>,
}

impl Constant<'_> {
    /// # Safety
    /// Four bytes can be read at `at` for as long as this is there.
    #[inline(always)]
    unsafe fn new(at: *const u8) -> Self {
        let row = PhantomData;
        Self { at, row }
    }

    #[inline(always)]
    fn read(self) -> i32 {
        // SAFETY: by the caller of `new`.
        i32::from_le(unsafe { self.at.cast::<i32>().read_unaligned() })
    }
}

/// Rows that are asked for ahead of those computed.
const AHEAD: usize = 16;

/// Sums of `weights[i] * row[i]`.
///
/// # Safety
/// For callers: "Detected"; whole registers of weights, and `dim` codes at each row.
trait Products {
    unsafe fn one(weights: *const i8, row: *const u8, dim: usize) -> i32;
    unsafe fn four(weights: *const i8, rows: [*const u8; 4], dim: usize) -> [i32; 4];
}

impl Products for Portable {
    #[inline(always)]
    unsafe fn one(weights: *const i8, row: *const u8, dim: usize) -> i32 {
        // SAFETY: by the caller.
        let (weights, row) = unsafe {
            (
                std::slice::from_raw_parts(weights, dim),
                std::slice::from_raw_parts(row, dim),
            )
        };
        let pairs = weights.iter().zip(row);
        pairs.map(|(&w, &r)| i32::from(w) * i32::from(r)).sum()
    }

    #[inline(always)]
    unsafe fn four(weights: *const i8, rows: [*const u8; 4], dim: usize) -> [i32; 4] {
        // SAFETY: passed on.
        rows.map(|row| unsafe { Self::one(weights, row, dim) })
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::avx2::Avx2;
    use super::super::avx512::Avx512;
    use super::super::isa::each;
    use super::super::portable::Portable;
    use super::{Products, WIDTH};

    /// SAFETY of the blocks below: "Detected", and pointers are read as far as the trait says; the last codes are masked.
    impl Products for Avx512 {
        #[inline(always)]
        unsafe fn one(weights: *const i8, row: *const u8, dim: usize) -> i32 {
            unsafe {
                let [sums] = lanes(weights, [row], dim);
                sum(quarter(sums))
            }
        }

        #[inline(always)]
        unsafe fn four(weights: *const i8, rows: [*const u8; 4], dim: usize) -> [i32; 4] {
            unsafe {
                let sums = lanes(weights, rows, dim);
                sum4(each!(sums, quarter))
            }
        }
    }

    #[inline(always)]
    unsafe fn lanes<const N: usize>(
        weights: *const i8,
        rows: [*const u8; N],
        dim: usize,
    ) -> [__m512i; N] {
        unsafe {
            let mut sums = [_mm512_setzero_si512(); N];
            let whole = dim - dim % WIDTH;
            let mut at = 0;
            while at < whole {
                let w = _mm512_loadu_epi8(weights.add(at));
                for i in 0..N {
                    let codes = _mm512_loadu_epi8(rows[i].add(at).cast());
                    sums[i] = _mm512_dpbusd_epi32(sums[i], codes, w);
                }
                at += WIDTH;
            }
            if whole < dim {
                let mask = (1_u64 << (dim - whole)) - 1;
                let w = _mm512_loadu_epi8(weights.add(whole));
                for i in 0..N {
                    let codes = _mm512_maskz_loadu_epi8(mask, rows[i].add(whole).cast());
                    sums[i] = _mm512_dpbusd_epi32(sums[i], codes, w);
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn quarter(lanes: __m512i) -> __m128i {
        unsafe {
            let upper = _mm512_extracti64x4_epi64::<1>(lanes);
            half(_mm256_add_epi32(_mm512_castsi512_si256(lanes), upper))
        }
    }

    /// SAFETY of the blocks below: "Detected", and pointers are read as far as the trait says.
    impl Products for Avx2 {
        #[inline(always)]
        unsafe fn one(weights: *const i8, row: *const u8, dim: usize) -> i32 {
            const STEP: usize = 16;
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
                sum(half(sums)) + Portable::one(weights.add(whole), row.add(whole), dim - whole)
            }
        }

        #[inline(always)]
        unsafe fn four(weights: *const i8, rows: [*const u8; 4], dim: usize) -> [i32; 4] {
            let [a, b, c, d] = rows;
            unsafe {
                [
                    Self::one(weights, a, dim),
                    Self::one(weights, b, dim),
                    Self::one(weights, c, dim),
                    Self::one(weights, d, dim),
                ]
            }
        }
    }

    #[inline(always)]
    unsafe fn half(lanes: __m256i) -> __m128i {
        unsafe {
            _mm_add_epi32(
                _mm256_castsi256_si128(lanes),
                _mm256_extracti128_si256::<1>(lanes),
            )
        }
    }

    #[inline(always)]
    unsafe fn sum(lanes: __m128i) -> i32 {
        unsafe {
            let two = _mm_add_epi32(lanes, _mm_shuffle_epi32::<0b1110>(lanes));
            _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b01>(two)))
        }
    }

    #[inline(always)]
    unsafe fn sum4(lanes: [__m128i; 4]) -> [i32; 4] {
        unsafe {
            let [a, b, c, d] = lanes;
            let ab = _mm_add_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
            let cd = _mm_add_epi32(_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
            let sums = _mm_add_epi32(_mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd));
            let mut out = [0; 4];
            _mm_storeu_si128(out.as_mut_ptr().cast(), sums);
            out
        }
    }
}
