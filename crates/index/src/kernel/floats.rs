//! Squared Euclidean distances and inner products over `f32`, `f16` and `bf16` rows.

use super::isa::Isa;
use super::level::{Level, level};
use super::portable::Portable;
use super::{LANES, Positions, Rows};

/// How a row stores its components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    F16,
    Bf16,
}

impl Element {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// Squared distances of `query` to the rows at `positions`, into `out`.
///
/// # Panics
/// If a row is not there or too short, or if `out` has another length than `positions`.
pub(crate) fn squared_l2<P: Positions>(
    element: Element,
    query: &[f32],
    rows: Rows<'_>,
    positions: P,
    out: &mut [f32],
) {
    run::<P, L2>(element, query, rows, positions, out);
}

/// Inner products of `query` with the rows at `positions`, as [`squared_l2`] has it.
pub(crate) fn dot<P: Positions>(
    element: Element,
    query: &[f32],
    rows: Rows<'_>,
    positions: P,
    out: &mut [f32],
) {
    run::<P, Dot>(element, query, rows, positions, out);
}

/// What is summed over the components.
trait Term {
    unsafe fn add<I: Isa>(query: I::V, row: I::V, sum: I::V) -> I::V;
}

struct L2;
impl Term for L2 {
    #[inline(always)]
    unsafe fn add<I: Isa>(query: I::V, row: I::V, sum: I::V) -> I::V {
        // SAFETY: "Detected", by the caller.
        unsafe {
            let difference = I::sub(query, row);
            I::fma(difference, difference, sum)
        }
    }
}

struct Dot;
impl Term for Dot {
    #[inline(always)]
    unsafe fn add<I: Isa>(query: I::V, row: I::V, sum: I::V) -> I::V {
        // SAFETY: "Detected", by the caller.
        unsafe { I::fma(query, row, sum) }
    }
}

/// How sixteen components are read.
trait Read {
    const BYTES: usize;
    unsafe fn whole<I: Isa>(from: *const u8) -> I::V;
    unsafe fn part<I: Isa>(from: *const u8, count: usize) -> I::V;
}

macro_rules! read {
    ($name:ident, $bytes:literal, $whole:ident, $part:ident) => {
        struct $name;
        impl Read for $name {
            const BYTES: usize = $bytes;

            #[inline(always)]
            unsafe fn whole<I: Isa>(from: *const u8) -> I::V {
                // SAFETY: as [`Isa`] asks, by the caller.
                unsafe { I::$whole(from.cast()) }
            }

            #[inline(always)]
            unsafe fn part<I: Isa>(from: *const u8, count: usize) -> I::V {
                // SAFETY: as [`Isa`] asks, by the caller.
                unsafe { I::$part(from.cast(), count) }
            }
        }
    };
}
read!(F32, 4, f32s, f32s_part);
read!(F16, 2, f16s, f16s_part);
read!(Bf16, 2, bf16s, bf16s_part);

/// What one call computes; checked, so that no kernel has to.
struct Job<'a, P> {
    query: &'a [f32],
    rows: Rows<'a>,
    positions: P,
}

fn run<P: Positions, T: Term>(
    element: Element,
    query: &[f32],
    rows: Rows<'_>,
    positions: P,
    out: &mut [f32],
) {
    // "Inside".
    assert!(
        query.len() * element.bytes() <= rows.stride,
        "rows are shorter"
    );
    assert_eq!(out.len(), positions.len(), "room for other results");
    let job = Job {
        query,
        rows,
        positions,
    };
    match element {
        Element::F32 => at_level::<P, T, F32>(&job, out),
        Element::F16 => at_level::<P, T, F16>(&job, out),
        Element::Bf16 => at_level::<P, T, Bf16>(&job, out),
    }
}

#[inline(always)]
fn at_level<P: Positions, T: Term, R: Read>(job: &Job<'_, P>, out: &mut [f32]) {
    match level() {
        // SAFETY: every processor has what the target always has; "Inside", by `run`.
        Level::Portable => unsafe { all::<Portable, P, T, R>(job, out) },
        // SAFETY: "Detected"; "Inside", by `run`.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { all_avx2::<P, T, R>(job, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { all_avx512::<P, T, R>(job, out) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn all_avx512<P: Positions, T: Term, R: Read>(job: &Job<'_, P>, out: &mut [f32]) {
    // SAFETY: passed on.
    unsafe { all::<super::avx512::Avx512, P, T, R>(job, out) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn all_avx2<P: Positions, T: Term, R: Read>(job: &Job<'_, P>, out: &mut [f32]) {
    // SAFETY: passed on.
    unsafe { all::<super::avx2::Avx2, P, T, R>(job, out) }
}

/// Rows whose distances are computed side by side: their additions do not wait for each other.
const SIDE_BY_SIDE: usize = 4;

/// Rows that are asked for ahead of those computed.
const AHEAD: usize = 2 * SIDE_BY_SIDE;

/// # Safety
/// "Detected" and "Inside".
#[inline(always)]
unsafe fn all<I: Isa, P: Positions, T: Term, R: Read>(job: &Job<'_, P>, out: &mut [f32]) {
    let Job {
        query,
        rows,
        positions,
    } = *job;
    let dim = query.len();
    let count = positions.len();
    let bytes = dim * R::BYTES;
    if P::SCATTERED {
        for i in 0..count.min(AHEAD) {
            rows.prefetch(positions.at(i), bytes);
        }
    }
    let row = |i: usize| rows.start(positions.at(i));
    let query = query.as_ptr();
    let mut i = 0;
    while i + SIDE_BY_SIDE <= count {
        if P::SCATTERED {
            for next in i + AHEAD..(i + AHEAD + SIDE_BY_SIDE).min(count) {
                rows.prefetch(positions.at(next), bytes);
            }
        }
        let four = [row(i), row(i + 1), row(i + 2), row(i + 3)];
        // SAFETY: passed on.
        let lanes = unsafe { lanes::<I, T, R, SIDE_BY_SIDE>(query, four, dim) };
        // SAFETY: "Detected".
        out[i..i + SIDE_BY_SIDE].copy_from_slice(&unsafe { I::sum4(lanes) });
        i += SIDE_BY_SIDE;
    }
    if i + 2 <= count {
        // SAFETY: passed on.
        let [a, b] = unsafe { lanes::<I, T, R, 2>(query, [row(i), row(i + 1)], dim) };
        // SAFETY: "Detected".
        unsafe {
            out[i] = I::sum(a);
            out[i + 1] = I::sum(b);
        }
        i += 2;
    }
    if i < count {
        // SAFETY: passed on.
        let [lanes] = unsafe { lanes::<I, T, R, 1>(query, [row(i)], dim) };
        // SAFETY: "Detected".
        out[i] = unsafe { I::sum(lanes) };
    }
}

/// # Safety
/// "Detected"; `dim` components at `query` and at each row.
#[inline(always)]
unsafe fn lanes<I: Isa, T: Term, R: Read, const N: usize>(
    query: *const f32,
    rows: [*const u8; N],
    dim: usize,
) -> [I::V; N] {
    // SAFETY: all of it passed on; `at` stays within `dim`.
    unsafe {
        let mut sums = [I::zero(); N];
        let whole = dim - dim % LANES;
        let mut at = 0;
        while at < whole {
            let q = I::f32s(query.add(at));
            for i in 0..N {
                let row = R::whole::<I>(rows[i].add(at * R::BYTES));
                sums[i] = T::add::<I>(q, row, sums[i]);
            }
            at += LANES;
        }
        if whole < dim {
            let q = I::f32s_part(query.add(whole), dim - whole);
            for i in 0..N {
                let row = R::part::<I>(rows[i].add(whole * R::BYTES), dim - whole);
                sums[i] = T::add::<I>(q, row, sums[i]);
            }
        }
        sums
    }
}
