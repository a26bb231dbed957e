//! Sums of products of codes in AVX-512 and AVX2.

use std::arch::x86_64::*;

use super::super::avx2::Avx2;
use super::super::avx512::Avx512;
use super::super::isa::each;
use super::super::portable::Portable;
use super::bytes::{Bytes, Squares, WIDTH};
use super::planes::Planes;
use super::sums::Sums;

/// SAFETY of the blocks below: "Detected", and pointers are read as far as the trait says; the last codes are masked.
impl Sums<Avx512> for Bytes {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        unsafe {
            let [sums] = code_lanes(weights, [row], self.dim);
            sum(quarter(sums))
        }
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        unsafe {
            let sums = code_lanes(weights, rows, self.dim);
            sum4(each!(sums, quarter))
        }
    }
}

#[inline(always)]
unsafe fn code_lanes<const N: usize>(
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

/// SAFETY of the blocks below: "Detected", and pointers are read as far as the trait says.
impl Sums<Avx2> for Bytes {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        unsafe {
            let [sums] = pairs::<1, false>(weights, [row], self.dim);
            sum(half(sums)) + self.rest(weights, row)
        }
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        unsafe {
            let sums = pairs::<4, false>(weights, rows, self.dim);
            let mut out = sum4(each!(sums, half));
            for i in 0..4 {
                out[i] += self.rest(weights, rows[i]);
            }
            out
        }
    }
}

impl Bytes {
    #[inline(always)]
    unsafe fn rest(self, weights: *const i8, row: *const u8) -> i32 {
        let rest = |dim| Self { dim, ..self };
        // SAFETY: as of [`Sums`].
        unsafe { rest_of(rest, self.dim, weights, row) }
    }
}

/// SAFETY of the blocks below: "Detected", and pointers are read as far as the trait says. What has AVX-512 has AVX2 as
/// well.
impl<I: X86> Sums<I> for Squares {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        unsafe {
            let [sums] = pairs::<1, true>(weights, [row], self.dim);
            sum(half(sums)).wrapping_add(self.rest(weights, row))
        }
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        unsafe {
            let sums = pairs::<4, true>(weights, rows, self.dim);
            let mut out = sum4(each!(sums, half));
            for i in 0..4 {
                out[i] = out[i].wrapping_add(self.rest(weights, rows[i]));
            }
            out
        }
    }
}

impl Squares {
    #[inline(always)]
    unsafe fn rest(self, weights: *const i8, row: *const u8) -> i32 {
        // SAFETY: as of [`Sums`].
        unsafe { rest_of(|dim| Self { dim }, self.dim, weights, row) }
    }
}

/// The sum over those of `dim` components that [`pairs`] leaves, as rows of as many are summed.
///
/// # Safety
/// `dim` weights, and as many codes at `row`.
#[inline(always)]
unsafe fn rest_of<K: Sums<Portable>>(
    rows: impl Fn(usize) -> K,
    dim: usize,
    weights: *const i8,
    row: *const u8,
) -> i32 {
    let whole = dim - dim % PAIRS;
    // SAFETY: passed on: what is left of both begins at `whole`.
    unsafe { rows(dim - whole).one(weights.add(whole), row.add(whole)) }
}

trait X86 {}
impl X86 for Avx2 {}
impl X86 for Avx512 {}

/// Components that [`pairs`] takes at once.
const PAIRS: usize = 16;

/// Sums of products of the first whole [`PAIRS`] of `dim` components, or of squared differences from the query's codes.
///
/// # Safety
/// "Detected"; `dim` weights, and as many codes at each row.
#[inline(always)]
unsafe fn pairs<const N: usize, const SQUARES: bool>(
    weights: *const i8,
    rows: [*const u8; N],
    dim: usize,
) -> [__m256i; N] {
    unsafe {
        let mut sums = [_mm256_setzero_si256(); N];
        for at in (0..dim - dim % PAIRS).step_by(PAIRS) {
            let mut w = _mm256_cvtepi8_epi16(_mm_loadu_si128(weights.add(at).cast()));
            if SQUARES {
                w = _mm256_add_epi16(w, _mm256_set1_epi16(128));
            }
            for i in 0..N {
                let codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(rows[i].add(at).cast()));
                let products = if SQUARES {
                    let apart = _mm256_sub_epi16(w, codes);
                    _mm256_madd_epi16(apart, apart)
                } else {
                    _mm256_madd_epi16(codes, w)
                };
                sums[i] = _mm256_add_epi32(sums[i], products);
            }
        }
        sums
    }
}

/// SAFETY of the blocks below: "Detected", and pointers are read as far as the trait says: rows are 32 bytes, or
/// whole 64.
impl<const BITS: usize, const SQUARED: bool> Sums<Avx512> for Planes<BITS, SQUARED> {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        unsafe {
            let [sums] = self.lanes(weights, [row]);
            sum(quarter(sums))
        }
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        unsafe {
            let sums = self.lanes(weights, rows);
            sum4(each!(sums, quarter))
        }
    }
}

/// SAFETY of the blocks below: "Detected", and pointers are read as far as the trait says: rows are whole 32 bytes.
impl<const BITS: usize, const SQUARED: bool> Sums<Avx2> for Planes<BITS, SQUARED> {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        unsafe {
            let [sums] = self.halves(weights, [row]);
            sum(half(sums))
        }
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        unsafe {
            let sums = self.halves(weights, rows);
            sum4(each!(sums, half))
        }
    }
}

/// # Safety
/// For callers: as of [`Sums`].
impl<const BITS: usize, const SQUARED: bool> Planes<BITS, SQUARED> {
    /// Blocks of 32 bytes whose sums fit 16 bits: each of its planes adds two products to a lane.
    const BLOCKS: usize = {
        let code = Self::MOST as usize;
        let largest = code * (128 + if SQUARED { 2 * code } else { 0 });
        i16::MAX as usize / (Self::COUNT * 2 * largest)
    };

    #[inline(always)]
    unsafe fn lanes<const N: usize>(
        self,
        weights: *const i8,
        rows: [*const u8; N],
    ) -> [__m512i; N] {
        unsafe {
            let lowest = _mm512_set1_epi8(Self::MOST as i8);
            let next = _mm_cvtsi32_si128(BITS as i32);
            let mut products = [_mm512_setzero_si512(); N];
            let mut squares = [_mm512_setzero_si512(); N];
            // Only a row of 32 bytes needs the mask.
            let mask = if self.bytes < 64 {
                u64::MAX >> 32
            } else {
                u64::MAX
            };
            let mut at = 0;
            while at < self.bytes {
                let mut codes = [_mm512_setzero_si512(); N];
                for i in 0..N {
                    codes[i] = _mm512_maskz_loadu_epi8(mask, rows[i].add(at).cast());
                }
                for plane in 0..Self::COUNT {
                    let of_plane = weights.add(plane * self.bytes + at);
                    let of_plane = _mm512_maskz_loadu_epi8(mask, of_plane);
                    for i in 0..N {
                        let code = _mm512_and_si512(codes[i], lowest);
                        products[i] = _mm512_dpbusd_epi32(products[i], code, of_plane);
                        if SQUARED {
                            squares[i] = _mm512_dpbusd_epi32(squares[i], code, code);
                        }
                        codes[i] = _mm512_srl_epi16(codes[i], next);
                    }
                }
                at += 64;
            }
            if SQUARED {
                for i in 0..N {
                    let twice = _mm512_add_epi32(squares[i], squares[i]);
                    products[i] = _mm512_sub_epi32(twice, products[i]);
                }
            }
            products
        }
    }

    #[inline(always)]
    unsafe fn halves<const N: usize>(
        self,
        weights: *const i8,
        rows: [*const u8; N],
    ) -> [__m256i; N] {
        const STEP: usize = 32;
        unsafe {
            let lowest = _mm256_set1_epi8(Self::MOST as i8);
            let next = _mm_cvtsi32_si128(BITS as i32);
            let ones = _mm256_set1_epi16(1);
            let mut sums = [_mm256_setzero_si256(); N];
            let mut at = 0;
            while at < self.bytes {
                let end = self.bytes.min(at + Self::BLOCKS * STEP);
                let mut short = [_mm256_setzero_si256(); N];
                while at < end {
                    let mut codes = [_mm256_setzero_si256(); N];
                    for i in 0..N {
                        codes[i] = _mm256_loadu_si256(rows[i].add(at).cast());
                    }
                    for plane in 0..Self::COUNT {
                        let of_plane = weights.add(plane * self.bytes + at).cast();
                        let of_plane = _mm256_loadu_si256(of_plane);
                        for i in 0..N {
                            let code = _mm256_and_si256(codes[i], lowest);
                            let mut products = _mm256_maddubs_epi16(code, of_plane);
                            if SQUARED {
                                let squares = _mm256_maddubs_epi16(code, code);
                                let twice = _mm256_add_epi16(squares, squares);
                                products = _mm256_sub_epi16(twice, products);
                            }
                            short[i] = _mm256_add_epi16(short[i], products);
                            codes[i] = _mm256_srl_epi16(codes[i], next);
                        }
                    }
                    at += STEP;
                }
                for i in 0..N {
                    sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(short[i], ones));
                }
            }
            sums
        }
    }
}

#[inline(always)]
unsafe fn quarter(lanes: __m512i) -> __m128i {
    unsafe {
        let upper = _mm512_extracti64x4_epi64::<1>(lanes);
        half(_mm256_add_epi32(_mm512_castsi512_si256(lanes), upper))
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
