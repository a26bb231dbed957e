//! Fast scan: which of 64 rows of codes may be near enough, by sums of table entries rounded to bytes; in 16 bits where
//! a row has many codes.

use super::lanewise::Lanewise;
use super::portable::Portable;

/// The most that an entry of [`FastScan::below4_long`] may be: two of them fit a byte.
pub(super) const MOST_LONG: u8 = 127;

/// Rows that are not too far away. As with [`Lanewise`], all functions are inlined into one compiled for the level.
///
/// # Safety
/// For callers: as of [`Lanewise`].
pub(super) trait FastScan: Lanewise {
    /// Of 64 rows with two 4-bit codes in each byte at `codes` (`width` bytes a pair, `pairs` of them): the rows whose
    /// table entries sum up to `limit < 255` at most. A pair has 32 entries in `tables`; 64 bytes are read at each
    /// pair.
    unsafe fn below4(
        codes: *const u8,
        width: usize,
        pairs: usize,
        tables: *const u8,
        limit: u8,
    ) -> u64;
    /// As [`FastScan::below4`], for entries of at most [`MOST_LONG`] and sums of 16 bits, which end at 65,535.
    unsafe fn below4_long(
        codes: *const u8,
        width: usize,
        pairs: usize,
        tables: *const u8,
        limit: u16,
    ) -> u64;
    /// As [`FastScan::below4`], of rows with one 8-bit code in each byte, `m` of them, and 256 entries for each; `None`
    /// where there is no fast way.
    unsafe fn below8(
        codes: *const u8,
        width: usize,
        m: usize,
        tables: *const u8,
        limit: u8,
    ) -> Option<u64>;
}

/// SAFETY of the blocks below: pointers are read as far as the trait says.
impl FastScan for Portable {
    #[inline(always)]
    unsafe fn below4(
        codes: *const u8,
        width: usize,
        pairs: usize,
        tables: *const u8,
        limit: u8,
    ) -> u64 {
        // Sums of 16 bits hold what 8 bits would cut short.
        unsafe { Self::below4_long(codes, width, pairs, tables, u16::from(limit)) }
    }

    #[inline(always)]
    unsafe fn below4_long(
        codes: *const u8,
        width: usize,
        pairs: usize,
        tables: *const u8,
        limit: u16,
    ) -> u64 {
        let mut sums = [0_u16; 64];
        for pair in 0..pairs {
            let (codes, table) = unsafe {
                (
                    &*codes.add(pair * width).cast::<[u8; 64]>(),
                    &*tables.add(pair * 32).cast::<[u8; 32]>(),
                )
            };
            for (sum, code) in sums.iter_mut().zip(codes) {
                let low = table[usize::from(code & 15)];
                let high = table[16 + usize::from(code >> 4)];
                *sum = sum.saturating_add(u16::from(low) + u16::from(high));
            }
        }
        let bits = sums.iter().enumerate();
        bits.fold(0, |all, (row, &sum)| all | u64::from(sum <= limit) << row)
    }

    #[inline(always)]
    unsafe fn below8(_: *const u8, _: usize, _: usize, _: *const u8, _: u8) -> Option<u64> {
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::avx2::Avx2;
    use super::super::avx512::Avx512;
    use super::FastScan;

    impl FastScan for Avx2 {
        #[inline(always)]
        unsafe fn below4(
            codes: *const u8,
            width: usize,
            pairs: usize,
            tables: *const u8,
            limit: u8,
        ) -> u64 {
            unsafe {
                let nibble = _mm256_set1_epi8(15);
                let (mut low, mut high) = (_mm256_setzero_si256(), _mm256_setzero_si256());
                for pair in 0..pairs {
                    let table = tables.add(pair * 32);
                    let even = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast()));
                    let odd = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(16).cast()));
                    let at = codes.add(pair * width);
                    let sum = |sum: __m256i, from: *const u8| {
                        let codes = _mm256_loadu_si256(from.cast());
                        let first = _mm256_and_si256(codes, nibble);
                        let second = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), nibble);
                        let sum = _mm256_adds_epu8(sum, _mm256_shuffle_epi8(even, first));
                        _mm256_adds_epu8(sum, _mm256_shuffle_epi8(odd, second))
                    };
                    low = sum(low, at);
                    high = sum(high, at.add(32));
                }
                let limit = _mm256_set1_epi8(limit.cast_signed());
                let within = |sums: __m256i| {
                    let bits = _mm256_cmpeq_epi8(_mm256_min_epu8(sums, limit), sums);
                    u64::from(_mm256_movemask_epi8(bits).cast_unsigned())
                };
                within(low) | within(high) << 32
            }
        }

        #[inline(always)]
        unsafe fn below4_long(
            codes: *const u8,
            width: usize,
            pairs: usize,
            tables: *const u8,
            limit: u16,
        ) -> u64 {
            unsafe {
                let nibble = _mm256_set1_epi8(15);
                let low_byte = _mm256_set1_epi16(255);
                // Of each half of the rows: those with even numbers, then the others.
                let mut sums = [[_mm256_setzero_si256(); 2]; 2];
                for pair in 0..pairs {
                    let table = tables.add(pair * 32);
                    let even = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast()));
                    let odd = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(16).cast()));
                    let at = codes.add(pair * width);
                    for (half, [evens, odds]) in sums.iter_mut().enumerate() {
                        let codes = _mm256_loadu_si256(at.add(half * 32).cast());
                        let first = _mm256_and_si256(codes, nibble);
                        let second = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), nibble);
                        let both = _mm256_add_epi8(
                            _mm256_shuffle_epi8(even, first),
                            _mm256_shuffle_epi8(odd, second),
                        );
                        *evens = _mm256_adds_epu16(*evens, _mm256_and_si256(both, low_byte));
                        *odds = _mm256_adds_epu16(*odds, _mm256_srli_epi16::<8>(both));
                    }
                }
                let limit = _mm256_set1_epi16(limit.cast_signed());
                let mut all = 0;
                for [evens, odds] in sums.into_iter().rev() {
                    let evens = _mm256_cmpeq_epi16(_mm256_min_epu16(evens, limit), evens);
                    let odds = _mm256_cmpeq_epi16(_mm256_min_epu16(odds, limit), odds);
                    let rows = _mm256_blendv_epi8(odds, evens, low_byte);
                    all = all << 32 | u64::from(_mm256_movemask_epi8(rows).cast_unsigned());
                }
                all
            }
        }

        #[inline(always)]
        unsafe fn below8(_: *const u8, _: usize, _: usize, _: *const u8, _: u8) -> Option<u64> {
            None
        }
    }

    impl FastScan for Avx512 {
        #[inline(always)]
        unsafe fn below4(
            codes: *const u8,
            width: usize,
            pairs: usize,
            tables: *const u8,
            limit: u8,
        ) -> u64 {
            unsafe {
                let nibble = _mm512_set1_epi8(15);
                let (mut even, mut odd) = (_mm512_setzero_si512(), _mm512_setzero_si512());
                for pair in 0..pairs {
                    let codes = _mm512_loadu_si512(codes.add(pair * width).cast());
                    let table = tables.add(pair * 32);
                    let first = _mm512_broadcast_i32x4(_mm_loadu_si128(table.cast()));
                    let second = _mm512_broadcast_i32x4(_mm_loadu_si128(table.add(16).cast()));
                    let low = _mm512_and_si512(codes, nibble);
                    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), nibble);
                    even = _mm512_adds_epu8(even, _mm512_shuffle_epi8(first, low));
                    odd = _mm512_adds_epu8(odd, _mm512_shuffle_epi8(second, high));
                }
                let sums = _mm512_adds_epu8(even, odd);
                _mm512_cmple_epu8_mask(sums, _mm512_set1_epi8(limit.cast_signed()))
            }
        }

        #[inline(always)]
        unsafe fn below4_long(
            codes: *const u8,
            width: usize,
            pairs: usize,
            tables: *const u8,
            limit: u16,
        ) -> u64 {
            unsafe {
                let nibble = _mm512_set1_epi8(15);
                let low_byte = _mm512_set1_epi16(255);
                let (mut evens, mut odds) = (_mm512_setzero_si512(), _mm512_setzero_si512());
                for pair in 0..pairs {
                    let codes = _mm512_loadu_si512(codes.add(pair * width).cast());
                    let table = tables.add(pair * 32);
                    let first = _mm512_broadcast_i32x4(_mm_loadu_si128(table.cast()));
                    let second = _mm512_broadcast_i32x4(_mm_loadu_si128(table.add(16).cast()));
                    let low = _mm512_and_si512(codes, nibble);
                    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), nibble);
                    let both = _mm512_add_epi8(
                        _mm512_shuffle_epi8(first, low),
                        _mm512_shuffle_epi8(second, high),
                    );
                    evens = _mm512_adds_epu16(evens, _mm512_and_si512(both, low_byte));
                    odds = _mm512_adds_epu16(odds, _mm512_srli_epi16::<8>(both));
                }
                let limit = _mm512_set1_epi16(limit.cast_signed());
                let evens = _mm512_movm_epi16(_mm512_cmple_epu16_mask(evens, limit));
                let odds = _mm512_movm_epi16(_mm512_cmple_epu16_mask(odds, limit));
                // Of each two bytes, the lower is the even row's.
                const EVEN: u64 = u64::MAX / 3;
                _mm512_movepi8_mask(_mm512_mask_blend_epi8(EVEN, odds, evens))
            }
        }

        #[inline(always)]
        unsafe fn below8(
            codes: *const u8,
            width: usize,
            m: usize,
            tables: *const u8,
            limit: u8,
        ) -> Option<u64> {
            // One of the newer sets of AVX-512, which the level does not promise. The answer is cached.
            if !is_x86_feature_detected!("avx512vbmi") {
                return None;
            }
            // SAFETY: detected above; the rest is passed on.
            Some(unsafe { below8_vbmi(codes, width, m, tables, limit) })
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    unsafe fn below8_vbmi(
        codes: *const u8,
        width: usize,
        m: usize,
        tables: *const u8,
        limit: u8,
    ) -> u64 {
        unsafe {
            let mut sums = _mm512_setzero_si512();
            for code in 0..m {
                let codes = _mm512_loadu_si512(codes.add(code * width).cast());
                let table = tables.add(code * 256);
                let quarter = |at: usize| _mm512_loadu_si512(table.add(at * 64).cast());
                // Each permutation takes seven bits of an index; the eighth chooses between them.
                let small = _mm512_permutex2var_epi8(quarter(0), codes, quarter(1));
                let large = _mm512_permutex2var_epi8(quarter(2), codes, quarter(3));
                let entries = _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), small, large);
                sums = _mm512_adds_epu8(sums, entries);
            }
            _mm512_cmple_epu8_mask(sums, _mm512_set1_epi8(limit.cast_signed()))
        }
    }
}
