//! Sixteen lanes in two AVX registers.

use std::arch::x86_64::*;

use super::isa::{Isa, each};

#[derive(Clone, Copy)]
pub(super) struct Avx2;

/// SAFETY of the blocks below: "Detected", by the trait's contract; pointers are read as far as the trait says.
impl Isa for Avx2 {
    type V = (__m256, __m256);

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        unsafe { (_mm256_setzero_ps(), _mm256_setzero_ps()) }
    }

    #[inline(always)]
    unsafe fn f32s(from: *const f32) -> Self::V {
        unsafe { (_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn f32s_part(from: *const f32, count: usize) -> Self::V {
        unsafe {
            let mask = |at: usize| _mm256_loadu_si256(FIRST.as_ptr().add(16 - count + at).cast());
            (
                _mm256_maskload_ps(from, mask(0)),
                _mm256_maskload_ps(from.wrapping_add(8), mask(8)),
            )
        }
    }

    #[inline(always)]
    unsafe fn f16s(from: *const u16) -> Self::V {
        unsafe {
            (
                _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn f16s_part(from: *const u16, count: usize) -> Self::V {
        unsafe { Self::f16s(copied(from, count).as_ptr()) }
    }

    #[inline(always)]
    unsafe fn bf16s(from: *const u16) -> Self::V {
        unsafe {
            (
                widen(_mm_loadu_si128(from.cast())),
                widen(_mm_loadu_si128(from.add(8).cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn bf16s_part(from: *const u16, count: usize) -> Self::V {
        unsafe { Self::bf16s(copied(from, count).as_ptr()) }
    }

    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        unsafe { (_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe {
            (
                _mm256_fmadd_ps(a.0, b.0, c.0),
                _mm256_fmadd_ps(a.1, b.1, c.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn sum(lanes: Self::V) -> f32 {
        unsafe { sum128(quarter(lanes)) }
    }

    #[inline(always)]
    unsafe fn sum4(lanes: [Self::V; 4]) -> [f32; 4] {
        unsafe { sum128x4(each!(lanes, quarter)) }
    }
}

/// Sixteen set words, then sixteen clear ones: read from `16 - count` on, a mask of the first `count`.
static FIRST: [i32; 32] = {
    let mut words = [0; 32];
    let mut at = 0;
    while at < 16 {
        words[at] = -1;
        at += 1;
    }
    words
};

/// The first `count < 16` values at `from`, then zeros: AVX2 has no masked load of 16-bit values.
#[inline(always)]
unsafe fn copied(from: *const u16, count: usize) -> [u16; 16] {
    let mut whole = [0; 16];
    // SAFETY: `count` values are readable by the trait's contract, and fewer than the array holds.
    unsafe { std::ptr::copy_nonoverlapping(from, whole.as_mut_ptr(), count) };
    whole
}

/// bfloat16 to `f32`: the bits move up by sixteen.
#[inline(always)]
unsafe fn widen(halves: __m128i) -> __m256 {
    unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves))) }
}

/// Lanes `i`, `i + 8`, then `i + 4` added.
#[inline(always)]
unsafe fn quarter(lanes: (__m256, __m256)) -> __m128 {
    unsafe { half(_mm256_add_ps(lanes.0, lanes.1)) }
}

/// Lanes `i` and `i + 4` added.
#[inline(always)]
pub(super) unsafe fn half(lanes: __m256) -> __m128 {
    unsafe {
        _mm_add_ps(
            _mm256_castps256_ps128(lanes),
            _mm256_extractf128_ps::<1>(lanes),
        )
    }
}

/// Lanes `i` and `i + 2`, then `i + 1`.
#[inline(always)]
pub(super) unsafe fn sum128(lanes: __m128) -> f32 {
    unsafe {
        let two = _mm_add_ps(lanes, _mm_movehl_ps(lanes, lanes));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// [`sum128`] of four, by the same pairs.
#[inline(always)]
pub(super) unsafe fn sum128x4(lanes: [__m128; 4]) -> [f32; 4] {
    unsafe {
        let [a, b, c, d] = lanes;
        // Of two rows: lanes 0 + 2 of both, then lanes 1 + 3 of both.
        let ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        let sums = _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
        let mut out = [0.0; 4];
        _mm_storeu_ps(out.as_mut_ptr(), sums);
        out
    }
}
