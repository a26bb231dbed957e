//! Sums of products of codes in AVX-512 and AVX2.

use std::arch::x86_64::*;

use super::super::avx2::Avx2;
use super::super::avx512::Avx512;
use super::super::isa::each;
use super::super::portable::Portable;
use super::bytes::{Bytes, WIDTH};
use super::nibbles::Nibbles;
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
        const STEP: usize = 16;
        unsafe {
            let mut sums = _mm256_setzero_si256();
            let whole = self.dim - self.dim % STEP;
            let mut at = 0;
            while at < whole {
                let codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(row.add(at).cast()));
                let signed = _mm256_cvtepi8_epi16(_mm_loadu_si128(weights.add(at).cast()));
                sums = _mm256_add_epi32(sums, _mm256_madd_epi16(codes, signed));
                at += STEP;
            }
            let rest = Self {
                dim: self.dim - whole,
            };
            let rest = Sums::<Portable>::one(rest, weights.add(whole), row.add(whole));
            sum(half(sums)) + rest
        }
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        let [a, b, c, d] = rows;
        unsafe {
            [
                Sums::<Avx2>::one(self, weights, a),
                Sums::<Avx2>::one(self, weights, b),
                Sums::<Avx2>::one(self, weights, c),
                Sums::<Avx2>::one(self, weights, d),
            ]
        }
    }
}

/// SAFETY of the blocks below: "Detected", and pointers are read as far as the trait says: rows are 32 bytes, or whole 64.
impl<const SQUARED: bool> Sums<Avx512> for Nibbles<SQUARED> {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        unsafe {
            let [sums] = nibble_lanes::<1, SQUARED>(weights, [row], self.bytes);
            sum(quarter(sums))
        }
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        unsafe {
            let sums = nibble_lanes::<4, SQUARED>(weights, rows, self.bytes);
            sum4(each!(sums, quarter))
        }
    }
}

#[inline(always)]
unsafe fn nibble_lanes<const N: usize, const SQUARED: bool>(
    weights: *const i8,
    rows: [*const u8; N],
    bytes: usize,
) -> [__m512i; N] {
    unsafe {
        let low = _mm512_set1_epi8(15);
        let mut products = [_mm512_setzero_si512(); N];
        let mut squares = [_mm512_setzero_si512(); N];
        // Only a row of 32 bytes needs the mask.
        let mask = if bytes < 64 { u64::MAX >> 32 } else { u64::MAX };
        let mut at = 0;
        while at < bytes {
            let lower_weights = _mm512_maskz_loadu_epi8(mask, weights.add(at));
            let upper_weights = _mm512_maskz_loadu_epi8(mask, weights.add(bytes + at));
            for i in 0..N {
                let codes = _mm512_maskz_loadu_epi8(mask, rows[i].add(at).cast());
                let lower = _mm512_and_si512(codes, low);
                let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), low);
                products[i] = _mm512_dpbusd_epi32(products[i], lower, lower_weights);
                products[i] = _mm512_dpbusd_epi32(products[i], upper, upper_weights);
                if SQUARED {
                    squares[i] = _mm512_dpbusd_epi32(squares[i], lower, lower);
                    squares[i] = _mm512_dpbusd_epi32(squares[i], upper, upper);
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

/// SAFETY of the blocks below: "Detected", and pointers are read as far as the trait says: rows are whole 32 bytes.
impl<const SQUARED: bool> Sums<Avx2> for Nibbles<SQUARED> {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        unsafe {
            let [sums] = nibble_halves::<1, SQUARED>(weights, [row], self.bytes);
            sum(half(sums))
        }
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        unsafe {
            let sums = nibble_halves::<4, SQUARED>(weights, rows, self.bytes);
            sum4(each!(sums, half))
        }
    }
}

#[inline(always)]
unsafe fn nibble_halves<const N: usize, const SQUARED: bool>(
    weights: *const i8,
    rows: [*const u8; N],
    bytes: usize,
) -> [__m256i; N] {
    const STEP: usize = 32;
    unsafe {
        let low = _mm256_set1_epi8(15);
        let ones = _mm256_set1_epi16(1);
        let mut sums = [_mm256_setzero_si256(); N];
        let mut at = 0;
        while at < bytes {
            let lower_weights = _mm256_loadu_si256(weights.add(at).cast());
            let upper_weights = _mm256_loadu_si256(weights.add(bytes + at).cast());
            for i in 0..N {
                let codes = _mm256_loadu_si256(rows[i].add(at).cast());
                let lower = _mm256_and_si256(codes, low);
                let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), low);
                // Of four codes each: from -7,680 to 7,680 in 16 bits.
                let mut sum = _mm256_add_epi16(
                    _mm256_maddubs_epi16(lower, lower_weights),
                    _mm256_maddubs_epi16(upper, upper_weights),
                );
                if SQUARED {
                    // From 0 to 900, so what is left is from -5,820 to 9,480.
                    let squares = _mm256_add_epi16(
                        _mm256_maddubs_epi16(lower, lower),
                        _mm256_maddubs_epi16(upper, upper),
                    );
                    sum = _mm256_sub_epi16(_mm256_add_epi16(squares, squares), sum);
                }
                sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(sum, ones));
            }
            at += STEP;
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
