//! Distances of one query to rows stored in blocks, component by component: what an inverted list is made of.
//!
//! # Layout
//!
//! Rows stand in blocks of [`BLOCK`], the last block of a list being as wide as there are rows left. A block of `width`
//! rows holds `width` values of the first component, then `width` of the second, and so on: a vector register holds
//! one component of sixteen rows. Nothing is summed across lanes, nothing is filled up, and a block can be left early:
//! squares only add up, so rows whose first components are farther away than the bound need no others.
//!
//! **"Slack"**: a load takes whole registers, so [`SLACK`] bytes must be readable after a list. What is read beyond a
//! row's block is never reported.

use super::lanewise::Lanewise;
use super::level::{Level, level};
use super::portable::Portable;

/// Rows of a block.
pub(crate) const BLOCK: usize = 64;

/// Bytes that must be readable after the last row.
pub(crate) const SLACK: usize = 64;

/// Rows whose distances are computed in one register.
const GROUP: usize = 16;

/// Components after which rows that are too far away are given up.
const STEP: usize = 8;

/// What a component is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    F32,
    F16,
    Bf16,
    U8,
}

impl Cell {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::U8 => 1,
        }
    }
}

/// What the distance of a row `x` is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    /// `sum (query - x)^2`.
    SquaredL2,
    /// `sum (query - scale * x)^2`, with a scale for each component.
    ScaledL2(&'a [f32]),
    /// `start - sum query * x`.
    Product { start: f32 },
}

/// Takes the rows that are near enough.
pub(crate) trait Sink {
    /// Offers those of the sixteen rows from `first` on whose bit is set in `which`, and returns the bound from now on:
    /// rows farther away are not offered.
    fn offer(&mut self, first: usize, which: u16, distances: &[f32; 16]) -> f32;
}

/// Rows of a list: `codes` begins with them and goes on for [`SLACK`] bytes at least.
#[derive(Clone, Copy)]
pub(crate) struct List<'a> {
    pub(crate) codes: &'a [u8],
    pub(crate) rows: usize,
}

impl List<'_> {
    /// The `dim` components of row `row`, of `N` bytes each.
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) fn row<const N: usize>(
        &self,
        row: usize,
        dim: usize,
    ) -> impl Iterator<Item = [u8; N]> {
        let (first, at) = (row / BLOCK * BLOCK, row % BLOCK);
        let width = BLOCK.min(self.rows - first);
        let (cells, _) = self.codes.as_chunks::<N>();
        (0..dim).map(move |component| cells[first * dim + component * width + at])
    }
}

/// Offers all rows of `list` whose distance is at most `bound`, or what `sink` makes of it.
///
/// # Panics
/// If `list` is shorter than it says, or a scale is missing.
pub(crate) fn scan(
    cell: Cell,
    form: Form<'_>,
    query: &[f32],
    list: List<'_>,
    bound: f32,
    sink: &mut dyn Sink,
) {
    // "Inside" and "Slack".
    let bytes = list.rows.checked_mul(query.len() * cell.bytes());
    let needed = bytes.and_then(|bytes| bytes.checked_add(SLACK));
    assert!(
        needed.is_some_and(|needed| needed <= list.codes.len()),
        "a list without slack"
    );
    if let Form::ScaledL2(scales) = form {
        assert_eq!(scales.len(), query.len(), "a scale for each component");
    }
    let job = Job { query, list, form };
    match cell {
        Cell::F32 => by_form::<F32>(&job, bound, sink),
        Cell::F16 => by_form::<F16>(&job, bound, sink),
        Cell::Bf16 => by_form::<Bf16>(&job, bound, sink),
        Cell::U8 => by_form::<U8>(&job, bound, sink),
    }
}

struct Job<'a> {
    query: &'a [f32],
    list: List<'a>,
    form: Form<'a>,
}

impl Job<'_> {
    fn scales(&self) -> *const f32 {
        match self.form {
            Form::ScaledL2(scales) => scales.as_ptr(),
            _ => std::ptr::null(),
        }
    }

    fn start(&self) -> f32 {
        match self.form {
            Form::Product { start } => start,
            _ => 0.0,
        }
    }
}

fn by_form<R: Read>(job: &Job<'_>, bound: f32, sink: &mut dyn Sink) {
    match job.form {
        Form::SquaredL2 => at_level::<R, SquaredL2>(job, bound, sink),
        Form::ScaledL2(_) => at_level::<R, ScaledL2>(job, bound, sink),
        Form::Product { .. } => at_level::<R, Product>(job, bound, sink),
    }
}

/// How sixteen values of a component are read.
trait Read {
    const BYTES: usize;
    unsafe fn read<I: Lanewise>(from: *const u8) -> I::V;
}

macro_rules! read {
    ($name:ident, $bytes:literal, $read:ident) => {
        struct $name;
        impl Read for $name {
            const BYTES: usize = $bytes;

            #[inline(always)]
            unsafe fn read<I: Lanewise>(from: *const u8) -> I::V {
                // SAFETY: as the level asks, by the caller.
                unsafe { I::$read(from.cast()) }
            }
        }
    };
}
read!(F32, 4, f32s);
read!(F16, 2, f16s);
read!(Bf16, 2, bf16s);
read!(U8, 1, u8s);

/// What is summed over the components, and what becomes of the sum.
trait Term {
    /// Whether sums never shrink.
    const GROWS: bool;
    unsafe fn add<I: Lanewise>(query: I::V, scale: *const f32, row: I::V, sum: I::V) -> I::V;
    unsafe fn end<I: Lanewise>(start: f32, sum: I::V) -> I::V;
}

/// SAFETY of the blocks below: "Detected", by the callers; a scaled form has a scale.
struct SquaredL2;
impl Term for SquaredL2 {
    const GROWS: bool = true;

    #[inline(always)]
    unsafe fn add<I: Lanewise>(query: I::V, _: *const f32, row: I::V, sum: I::V) -> I::V {
        unsafe {
            let difference = I::sub(query, row);
            I::fma(difference, difference, sum)
        }
    }

    #[inline(always)]
    unsafe fn end<I: Lanewise>(_: f32, sum: I::V) -> I::V {
        sum
    }
}

struct ScaledL2;
impl Term for ScaledL2 {
    const GROWS: bool = true;

    #[inline(always)]
    unsafe fn add<I: Lanewise>(query: I::V, scale: *const f32, row: I::V, sum: I::V) -> I::V {
        unsafe {
            let difference = I::fnma(I::splat(*scale), row, query);
            I::fma(difference, difference, sum)
        }
    }

    #[inline(always)]
    unsafe fn end<I: Lanewise>(_: f32, sum: I::V) -> I::V {
        sum
    }
}

struct Product;
impl Term for Product {
    const GROWS: bool = false;

    #[inline(always)]
    unsafe fn add<I: Lanewise>(query: I::V, _: *const f32, row: I::V, sum: I::V) -> I::V {
        unsafe { I::fma(query, row, sum) }
    }

    #[inline(always)]
    unsafe fn end<I: Lanewise>(start: f32, sum: I::V) -> I::V {
        unsafe { I::sub(I::splat(start), sum) }
    }
}

fn at_level<R: Read, T: Term>(job: &Job<'_>, bound: f32, sink: &mut dyn Sink) {
    match level() {
        // SAFETY: every processor has what the target always has; "Inside" and "Slack", by `scan`.
        Level::Portable => unsafe { all::<Portable, R, T>(job, bound, sink) },
        // SAFETY: "Detected"; "Inside" and "Slack", by `scan`.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { all_avx2::<R, T>(job, bound, sink) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { all_avx512::<R, T>(job, bound, sink) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn all_avx512<R: Read, T: Term>(job: &Job<'_>, bound: f32, sink: &mut dyn Sink) {
    // SAFETY: passed on.
    unsafe { all::<super::avx512::Avx512, R, T>(job, bound, sink) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn all_avx2<R: Read, T: Term>(job: &Job<'_>, bound: f32, sink: &mut dyn Sink) {
    // SAFETY: passed on.
    unsafe { all::<super::avx2::Avx2, R, T>(job, bound, sink) }
}

/// # Safety
/// "Detected", "Inside" and "Slack".
#[inline(always)]
unsafe fn all<I: Lanewise, R: Read, T: Term>(job: &Job<'_>, mut bound: f32, sink: &mut dyn Sink) {
    let dim = job.query.len();
    for first in (0..job.list.rows).step_by(BLOCK) {
        let width = BLOCK.min(job.list.rows - first);
        // SAFETY: "Inside".
        let block = unsafe { job.list.codes.as_ptr().add(first * dim * R::BYTES) };
        // SAFETY: passed on: a block of `width` rows, and slack behind it.
        bound = unsafe { one::<I, R, T>(job, block, first, width, bound, sink) };
    }
}

/// Groups of a block, with what is known of their rows' distances.
struct Groups<I: Lanewise> {
    sums: [I::V; BLOCK / GROUP],
    /// Where each begins, in rows of the block.
    at: [usize; BLOCK / GROUP],
    count: usize,
}

/// # Safety
/// "Detected"; a block of `width` rows at `block`, and "Slack".
#[inline(always)]
unsafe fn one<I: Lanewise, R: Read, T: Term>(
    job: &Job<'_>,
    block: *const u8,
    first: usize,
    width: usize,
    mut bound: f32,
    sink: &mut dyn Sink,
) -> f32 {
    let dim = job.query.len();
    let mut groups = Groups::<I> {
        // SAFETY: "Detected".
        sums: [unsafe { I::zero() }; BLOCK / GROUP],
        at: std::array::from_fn(|group| group * GROUP),
        count: width.div_ceil(GROUP),
    };
    let rows = |at: usize| u16::MAX >> GROUP.saturating_sub(width - at).min(15);
    let mut from = 0;
    if T::GROWS && bound < f32::INFINITY {
        while from + STEP < dim {
            // SAFETY: passed on.
            unsafe { advance::<I, R, T>(job, block, width, from, from + STEP, &mut groups) };
            from += STEP;
            let mut kept = 0;
            for group in 0..groups.count {
                // SAFETY: "Detected".
                let near = unsafe { I::at_most(groups.sums[group], I::splat(bound)) };
                if near & rows(groups.at[group]) != 0 {
                    groups.sums[kept] = groups.sums[group];
                    groups.at[kept] = groups.at[group];
                    kept += 1;
                }
            }
            if kept == 0 {
                return bound;
            }
            groups.count = kept;
        }
    }
    // SAFETY: passed on.
    unsafe { advance::<I, R, T>(job, block, width, from, dim, &mut groups) };
    for group in 0..groups.count {
        let at = groups.at[group];
        // SAFETY: "Detected".
        unsafe {
            let distances = T::end::<I>(job.start(), groups.sums[group]);
            let near = I::at_most(distances, I::splat(bound)) & rows(at);
            if near != 0 {
                let mut lanes = [0.0; GROUP];
                I::store(distances, &mut lanes);
                bound = sink.offer(first + at, near, &lanes);
            }
        }
    }
    bound
}

/// Adds components `from..to` of all groups.
///
/// # Safety
/// As [`one`]; `to <= dim`.
#[inline(always)]
unsafe fn advance<I: Lanewise, R: Read, T: Term>(
    job: &Job<'_>,
    block: *const u8,
    width: usize,
    from: usize,
    to: usize,
    groups: &mut Groups<I>,
) {
    // SAFETY: passed on.
    unsafe {
        match groups.count {
            1 => some::<I, R, T, 1>(job, block, width, from, to, groups),
            2 => some::<I, R, T, 2>(job, block, width, from, to, groups),
            3 => some::<I, R, T, 3>(job, block, width, from, to, groups),
            _ => some::<I, R, T, 4>(job, block, width, from, to, groups),
        }
    }
}

/// # Safety
/// As [`advance`].
#[inline(always)]
unsafe fn some<I: Lanewise, R: Read, T: Term, const N: usize>(
    job: &Job<'_>,
    block: *const u8,
    width: usize,
    from: usize,
    to: usize,
    groups: &mut Groups<I>,
) {
    let mut sums: [I::V; N] = std::array::from_fn(|group| groups.sums[group]);
    let at: [usize; N] = std::array::from_fn(|group| groups.at[group] * R::BYTES);
    let (query, scales) = (job.query.as_ptr(), job.scales());
    for component in from..to {
        // SAFETY: "Inside" and "Slack": `to` is at most `dim`, and a register begins within the component's values.
        unsafe {
            let values = block.add(component * width * R::BYTES);
            let wanted = I::splat(*query.add(component));
            let scale = scales.wrapping_add(component);
            for group in 0..N {
                let row = R::read::<I>(values.add(at[group]));
                sums[group] = T::add::<I>(wanted, scale, row, sums[group]);
            }
        }
    }
    groups.sums[..N].copy_from_slice(&sums);
}
