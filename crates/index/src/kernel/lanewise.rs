//! Operations that keep lanes apart, one lane for each row: what kernels over blocks need beside [`Isa`].

use super::isa::Isa;
use super::portable::Portable;

/// More of a level's sixteen lanes. As with [`Isa`], all functions are inlined into one compiled for the level.
///
/// # Safety
/// For callers: the processor must have the level's instructions ("Detected"); pointers are read and written as far as
/// each function says.
pub(super) trait Lanewise: Isa {
    /// `value` in every lane.
    unsafe fn splat(value: f32) -> Self::V;
    /// Sixteen bytes, as floats.
    unsafe fn u8s(from: *const u8) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `c - a * b`.
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// A bit for each lane where `a <= b`.
    unsafe fn at_most(a: Self::V, b: Self::V) -> u16;
    unsafe fn store(lanes: Self::V, to: &mut [f32; 16]);
    /// Writes sixteen bytes at `to`: each lane without its fraction, 255 where it is more. No lane is negative or NaN.
    unsafe fn store_u8s(lanes: Self::V, to: *mut u8);

    unsafe fn least(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn most(a: Self::V, b: Self::V) -> Self::V;
    /// The least of all lanes.
    unsafe fn least_lane(lanes: Self::V) -> f32;

    /// Sixteen entries of the sixteen floats at `table`, by the low four bits of the bytes at `codes`, and sixteen of
    /// the next sixteen floats, by the high ones.
    unsafe fn pick4(codes: *const u8, table: *const f32) -> (Self::V, Self::V);
    /// Sixteen entries of the 256 floats at `table`, by the bytes at `codes`.
    unsafe fn pick8(codes: *const u8, table: *const f32) -> Self::V;
}

/// SAFETY of the blocks below: pointers are read and written as far as the trait says.
impl Lanewise for Portable {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::V {
        [value; 16]
    }

    #[inline(always)]
    unsafe fn u8s(from: *const u8) -> Self::V {
        unsafe { from.cast::<[u8; 16]>().read() }.map(f32::from)
    }

    #[inline(always)]
    unsafe fn add(mut a: Self::V, b: Self::V) -> Self::V {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    }

    #[inline(always)]
    unsafe fn mul(mut a: Self::V, b: Self::V) -> Self::V {
        a.iter_mut().zip(b).for_each(|(a, b)| *a *= b);
        a
    }

    #[inline(always)]
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { Self::fma(a.map(|a| -a), b, c) }
    }

    #[inline(always)]
    unsafe fn least(mut a: Self::V, b: Self::V) -> Self::V {
        a.iter_mut()
            .zip(b)
            .for_each(|(a, b)| *a = if b < *a { b } else { *a });
        a
    }

    #[inline(always)]
    unsafe fn most(mut a: Self::V, b: Self::V) -> Self::V {
        a.iter_mut()
            .zip(b)
            .for_each(|(a, b)| *a = if b > *a { b } else { *a });
        a
    }

    #[inline(always)]
    unsafe fn least_lane(lanes: Self::V) -> f32 {
        lanes.into_iter().fold(f32::INFINITY, f32::min)
    }

    #[inline(always)]
    unsafe fn at_most(a: Self::V, b: Self::V) -> u16 {
        let bits = (0..16).map(|lane| u16::from(a[lane] <= b[lane]) << lane);
        bits.fold(0, |all, bit| all | bit)
    }

    #[inline(always)]
    unsafe fn store(lanes: Self::V, to: &mut [f32; 16]) {
        *to = lanes;
    }

    #[inline(always)]
    unsafe fn store_u8s(lanes: Self::V, to: *mut u8) {
        unsafe { to.cast::<[u8; 16]>().write(lanes.map(|lane| lane as u8)) };
    }

    #[inline(always)]
    unsafe fn pick4(codes: *const u8, table: *const f32) -> (Self::V, Self::V) {
        let (codes, table) =
            unsafe { (codes.cast::<[u8; 16]>().read(), &*table.cast::<[f32; 32]>()) };
        (
            codes.map(|code| table[usize::from(code & 15)]),
            codes.map(|code| table[16 + usize::from(code >> 4)]),
        )
    }

    #[inline(always)]
    unsafe fn pick8(codes: *const u8, table: *const f32) -> Self::V {
        let (codes, table) = unsafe {
            (
                codes.cast::<[u8; 16]>().read(),
                &*table.cast::<[f32; 256]>(),
            )
        };
        codes.map(|code| table[usize::from(code)])
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::avx2::Avx2;
    use super::super::avx512::Avx512;
    use super::*;

    /// SAFETY of the blocks below: "Detected", by the trait's contract; pointers are used as far as the trait says.
    impl Lanewise for Avx2 {
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self::V {
            unsafe { (_mm256_set1_ps(value), _mm256_set1_ps(value)) }
        }

        #[inline(always)]
        unsafe fn u8s(from: *const u8) -> Self::V {
            unsafe {
                let (low, high) = words(from);
                (_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high))
            }
        }

        #[inline(always)]
        unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
            unsafe { (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
        }

        #[inline(always)]
        unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
            unsafe { (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
        }

        #[inline(always)]
        unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            unsafe {
                (
                    _mm256_fnmadd_ps(a.0, b.0, c.0),
                    _mm256_fnmadd_ps(a.1, b.1, c.1),
                )
            }
        }

        #[inline(always)]
        unsafe fn least(a: Self::V, b: Self::V) -> Self::V {
            unsafe { (_mm256_min_ps(a.0, b.0), _mm256_min_ps(a.1, b.1)) }
        }

        #[inline(always)]
        unsafe fn most(a: Self::V, b: Self::V) -> Self::V {
            unsafe { (_mm256_max_ps(a.0, b.0), _mm256_max_ps(a.1, b.1)) }
        }

        #[inline(always)]
        unsafe fn least_lane(lanes: Self::V) -> f32 {
            unsafe { least_of8(_mm256_min_ps(lanes.0, lanes.1)) }
        }

        #[inline(always)]
        unsafe fn at_most(a: Self::V, b: Self::V) -> u16 {
            unsafe {
                let low = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(a.0, b.0));
                let high = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(a.1, b.1));
                (low | high << 8) as u16
            }
        }

        #[inline(always)]
        unsafe fn store(lanes: Self::V, to: &mut [f32; 16]) {
            unsafe {
                _mm256_storeu_ps(to.as_mut_ptr(), lanes.0);
                _mm256_storeu_ps(to.as_mut_ptr().add(8), lanes.1);
            }
        }

        #[inline(always)]
        unsafe fn store_u8s(lanes: Self::V, to: *mut u8) {
            unsafe {
                let most = _mm256_set1_ps(255.0);
                let low = _mm256_cvttps_epi32(_mm256_min_ps(lanes.0, most));
                let high = _mm256_cvttps_epi32(_mm256_min_ps(lanes.1, most));
                // Packing works on halves, so the quarters come out as 0, 2, 1, 3.
                let packed =
                    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
                let (low, high) = (
                    _mm256_castsi256_si128(packed),
                    _mm256_extracti128_si256::<1>(packed),
                );
                _mm_storeu_si128(to.cast(), _mm_packus_epi16(low, high));
            }
        }

        #[inline(always)]
        unsafe fn pick4(codes: *const u8, table: *const f32) -> (Self::V, Self::V) {
            unsafe {
                let pick = |at: __m256i, table: *const f32| {
                    let small = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), at);
                    let large = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.add(8)), at);
                    // Bit 3 says which half; a blend looks at the sign.
                    let half = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at));
                    _mm256_blendv_ps(small, large, half)
                };
                let nibble = _mm256_set1_epi32(15);
                let (a, b) = words(codes);
                let even = (
                    pick(_mm256_and_si256(a, nibble), table),
                    pick(_mm256_and_si256(b, nibble), table),
                );
                let odd = (
                    pick(_mm256_srli_epi32::<4>(a), table.add(16)),
                    pick(_mm256_srli_epi32::<4>(b), table.add(16)),
                );
                (even, odd)
            }
        }

        #[inline(always)]
        unsafe fn pick8(codes: *const u8, table: *const f32) -> Self::V {
            unsafe {
                let (a, b) = words(codes);
                (
                    _mm256_i32gather_ps::<4>(table, a),
                    _mm256_i32gather_ps::<4>(table, b),
                )
            }
        }
    }

    #[inline(always)]
    unsafe fn least_of8(lanes: __m256) -> f32 {
        unsafe {
            let high = _mm256_extractf128_ps::<1>(lanes);
            let four = _mm_min_ps(_mm256_castps256_ps128(lanes), high);
            let two = _mm_min_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_min_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    /// Sixteen bytes as 32-bit words.
    #[inline(always)]
    unsafe fn words(from: *const u8) -> (__m256i, __m256i) {
        unsafe {
            let bytes = _mm_loadu_si128(from.cast());
            (
                _mm256_cvtepu8_epi32(bytes),
                _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)),
            )
        }
    }

    /// SAFETY of the blocks below: "Detected", by the trait's contract; pointers are used as far as the trait says.
    impl Lanewise for Avx512 {
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self::V {
            unsafe { _mm512_set1_ps(value) }
        }

        #[inline(always)]
        unsafe fn u8s(from: *const u8) -> Self::V {
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
        }

        #[inline(always)]
        unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
            unsafe { _mm512_add_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
            unsafe { _mm512_mul_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            unsafe { _mm512_fnmadd_ps(a, b, c) }
        }

        #[inline(always)]
        unsafe fn least(a: Self::V, b: Self::V) -> Self::V {
            unsafe { _mm512_min_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn most(a: Self::V, b: Self::V) -> Self::V {
            unsafe { _mm512_max_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn least_lane(lanes: Self::V) -> f32 {
            unsafe {
                let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(lanes));
                let low = _mm512_castps512_ps256(lanes);
                least_of8(_mm256_min_ps(low, _mm256_castpd_ps(high)))
            }
        }

        #[inline(always)]
        unsafe fn at_most(a: Self::V, b: Self::V) -> u16 {
            unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b) }
        }

        #[inline(always)]
        unsafe fn store(lanes: Self::V, to: &mut [f32; 16]) {
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), lanes) };
        }

        #[inline(always)]
        unsafe fn store_u8s(lanes: Self::V, to: *mut u8) {
            unsafe {
                let words = _mm512_cvttps_epu32(lanes);
                _mm_storeu_si128(to.cast(), _mm512_cvtusepi32_epi8(words));
            }
        }

        #[inline(always)]
        unsafe fn pick4(codes: *const u8, table: *const f32) -> (Self::V, Self::V) {
            unsafe {
                let words = _mm512_cvtepu8_epi32(_mm_loadu_si128(codes.cast()));
                // A permutation looks at four bits of an index.
                let high = _mm512_srli_epi32::<4>(words);
                (
                    _mm512_permutexvar_ps(words, _mm512_loadu_ps(table)),
                    _mm512_permutexvar_ps(high, _mm512_loadu_ps(table.add(16))),
                )
            }
        }

        #[inline(always)]
        unsafe fn pick8(codes: *const u8, table: *const f32) -> Self::V {
            unsafe {
                let words = _mm512_cvtepu8_epi32(_mm_loadu_si128(codes.cast()));
                _mm512_i32gather_ps::<4>(words, table)
            }
        }
    }
}
