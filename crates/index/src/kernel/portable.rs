//! Sixteen lanes as an array: the compiler uses what vector registers the target always has.

use super::LANES;
use super::isa::{Isa, each};

#[derive(Clone, Copy)]
pub(super) struct Portable;

/// SAFETY of the blocks below: pointers are read as far as the trait says.
impl Isa for Portable {
    type V = [f32; LANES];

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        [0.0; LANES]
    }

    #[inline(always)]
    unsafe fn f32s(from: *const f32) -> Self::V {
        unsafe { from.cast::<Self::V>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn f32s_part(from: *const f32, count: usize) -> Self::V {
        let mut lanes = [0.0; LANES];
        // SAFETY: fewer values than the array holds.
        unsafe { std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count) };
        lanes
    }

    #[inline(always)]
    unsafe fn f16s(from: *const u16) -> Self::V {
        let halves = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        halves.map(|half| half::f16::from_bits(half).to_f32_const())
    }

    #[inline(always)]
    unsafe fn f16s_part(from: *const u16, count: usize) -> Self::V {
        unsafe { Self::f16s(copied(from, count).as_ptr()) }
    }

    #[inline(always)]
    unsafe fn bf16s(from: *const u16) -> Self::V {
        let halves = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        halves.map(|half| f32::from_bits(u32::from(half) << 16))
    }

    #[inline(always)]
    unsafe fn bf16s_part(from: *const u16, count: usize) -> Self::V {
        unsafe { Self::bf16s(copied(from, count).as_ptr()) }
    }

    #[inline(always)]
    unsafe fn sub(mut a: Self::V, b: Self::V) -> Self::V {
        a.iter_mut().zip(b).for_each(|(a, b)| *a -= b);
        a
    }

    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, mut c: Self::V) -> Self::V {
        for lane in 0..LANES {
            // Fused where the target always can, as on aarch64; a call of a library function elsewhere.
            c[lane] = if cfg!(target_arch = "aarch64") {
                a[lane].mul_add(b[lane], c[lane])
            } else {
                a[lane] * b[lane] + c[lane]
            };
        }
        c
    }

    #[inline(always)]
    unsafe fn sum(mut lanes: Self::V) -> f32 {
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
            width /= 2;
        }
        lanes[0]
    }

    #[inline(always)]
    unsafe fn sum4(lanes: [Self::V; 4]) -> [f32; 4] {
        unsafe { each!(lanes, Self::sum) }
    }
}

#[inline(always)]
unsafe fn copied(from: *const u16, count: usize) -> [u16; LANES] {
    let mut whole = [0; LANES];
    // SAFETY: `count` values are readable by the trait's contract, and fewer than the array holds.
    unsafe { std::ptr::copy_nonoverlapping(from, whole.as_mut_ptr(), count) };
    whole
}
