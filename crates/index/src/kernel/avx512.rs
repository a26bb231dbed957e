//! Sixteen lanes in one AVX-512 register.

use std::arch::x86_64::*;

use super::isa::{Isa, each};

#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// SAFETY of the blocks below: "Detected", by the trait's contract; pointers are read as far as the trait says.
impl Isa for Avx512 {
    type V = __m512;

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn f32s(from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn f32s_part(from: *const f32, count: usize) -> __m512 {
        unsafe { _mm512_maskz_loadu_ps(first(count), from) }
    }

    #[inline(always)]
    unsafe fn f16s(from: *const u16) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn f16s_part(from: *const u16, count: usize) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(count), from.cast())) }
    }

    #[inline(always)]
    unsafe fn bf16s(from: *const u16) -> __m512 {
        unsafe { widen(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn bf16s_part(from: *const u16, count: usize) -> __m512 {
        unsafe { widen(_mm256_maskz_loadu_epi16(first(count), from.cast())) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn sum(lanes: __m512) -> f32 {
        unsafe { super::avx2::sum128(quarter(lanes)) }
    }

    #[inline(always)]
    unsafe fn sum4(lanes: [__m512; 4]) -> [f32; 4] {
        unsafe { super::avx2::sum128x4(each!(lanes, quarter)) }
    }
}

/// A mask of the first `count < 16` lanes.
#[inline(always)]
fn first(count: usize) -> u16 {
    (1 << count) - 1
}

/// bfloat16 to `f32`: the bits move up by sixteen.
#[inline(always)]
unsafe fn widen(halves: __m256i) -> __m512 {
    unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves))) }
}

/// Lanes `i`, `i + 8`, then `i + 4` added.
#[inline(always)]
unsafe fn quarter(lanes: __m512) -> __m128 {
    unsafe {
        let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(lanes)));
        super::avx2::half(_mm256_add_ps(_mm512_castps512_ps256(lanes), upper))
    }
}
