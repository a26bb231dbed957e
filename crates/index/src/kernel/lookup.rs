//! Distances of one query to rows of product-quantizer codes: sums of table entries, exact where they matter.
//!
//! A row is `m` codes. The query has a table of distances for each, and a row's distance is the sum of the entries that
//! its codes name. Most rows are too far away, which eight bits tell (the shuffles of "Quick ADC", André, Kermarrec and
//! Le Scouarnec 2017):
//!
//! 1. The bound leaves a budget `B = bound - start - sum of each table's least entry`. Entries are stored as
//!    `floor((entry - least) * 254 / B)`, at most 255.
//! 2. The bytes of 64 rows are looked up and added at once. Additions stop at 255, which is past any limit. The bytes
//!    of rows of many codes are summed up in 16 bits ([`Tables::fill`]).
//! 3. Entries are rounded down, so a row whose bytes exceed the budget is farther away than the bound. All others are
//!    summed up in `f32`, in the order of their codes.
//!
//! **So answers are exact**: rounding decides how many rows are summed up twice, never which are found. When the bound
//! shrinks, the limit shrinks with it. The bytes are made anew once they are too coarse.
//!
//! Layout: as in `blocks`, a component being one byte with the code of a sub-quantizer, or two codes of four bits, the
//! first in the low half.

use super::blocks::{BLOCK, List, SLACK, Sink};
use super::fast_scan::{FastScan, MOST_LONG};
use super::lanewise::Lanewise;
use super::level::{Level, level};
use super::portable::Portable;

/// How codes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bits {
    /// Two codes a byte.
    Four,
    /// One code a byte.
    Eight,
}

impl Bits {
    /// Entries of a table.
    pub(crate) fn entries(self) -> usize {
        match self {
            Self::Four => 16,
            Self::Eight => 256,
        }
    }

    /// Bytes of a row of `m` codes.
    pub(crate) fn row_bytes(self, m: usize) -> usize {
        match self {
            Self::Four => m.div_ceil(2),
            Self::Eight => m,
        }
    }
}

/// What an entry is, for a part `q` of the query and a centroid `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// `sum (q - y)^2`.
    SquaredL2,
    /// `-(sum q y)`.
    Product,
}

/// The centroids of a product quantizer: `[m][dim / m][entries]`, so that a register holds one component of sixteen.
#[derive(Clone, Copy)]
pub(crate) struct Codebook<'a> {
    pub(crate) bits: Bits,
    pub(crate) m: usize,
    pub(crate) values: &'a [f32],
}

/// The tables of one query, or of one query and list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    /// `[m][entries]`; for codes of four bits, `m` is filled up to an even number with zeros.
    floats: Vec<f32>,
    bytes: Vec<u8>,
    /// The least entry of each table.
    least: Vec<f32>,
    /// Their sum.
    least_sum: f32,
    /// No entry is farther from 0.
    largest: f32,
    m: usize,
    /// Whether bytes are summed up in 16 bits.
    long: bool,
    /// What the bytes were made for: a budget, NaN if they were not made, and how many of its units are 1.
    budget: f32,
    units: f32,
}

/// Units that a budget is cut into where bytes are summed up in 8 bits.
const UNITS: f32 = 254.0;

/// Codes of a row from which on sums take 16 bits: with more, rounding down hides more than a quarter of the budget.
const LONG: usize = 64;

/// Units of the budget for each code where sums take 16 bits. Rounding hides one of them at most. An entry may be eight
/// times as large as the average of the budget before it is cut short.
const UNITS_A_CODE: f32 = 16.0;

/// Units that 16 bits hold, and some to spare.
const MOST_UNITS: f32 = 65_000.0;

/// Share of the budget that bytes were made for below which they are made anew.
const COARSE: f32 = 0.6;

impl Tables {
    /// Computes the entries for `query`, `[dim]`.
    ///
    /// # Panics
    /// If `query` and `codebook` do not fit each other.
    pub(crate) fn fill(&mut self, entry: Entry, query: &[f32], codebook: Codebook<'_>) {
        let Codebook { bits, m, values } = codebook;
        let entries = bits.entries();
        // "Inside".
        assert!(m > 0 && query.len().is_multiple_of(m), "a ragged query");
        assert_eq!(values.len(), query.len() * entries, "another codebook");
        self.m = match bits {
            Bits::Four => m.next_multiple_of(2),
            Bits::Eight => m,
        };
        self.floats.resize(self.m * entries, 0.0);
        self.floats[m * entries..].fill(0.0);
        self.least.resize(self.m, 0.0);
        self.least[m..].fill(0.0);
        self.bytes.resize(self.m * entries, 0);
        self.long = bits == Bits::Four && self.m >= LONG;
        self.budget = f32::NAN;
        match level() {
            // SAFETY: every processor has what the target always has; "Inside".
            Level::Portable => unsafe { self.fill_all::<Portable>(entry, query, codebook) },
            // SAFETY: "Detected", "Inside".
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { self.fill_avx2(entry, query, codebook) },
            // SAFETY: "Detected", "Inside".
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { self.fill_avx512(entry, query, codebook) },
        }
        self.least_sum = self.least.iter().sum();
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn fill_avx512(&mut self, entry: Entry, query: &[f32], codebook: Codebook<'_>) {
        // SAFETY: passed on.
        unsafe { self.fill_all::<super::avx512::Avx512>(entry, query, codebook) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn fill_avx2(&mut self, entry: Entry, query: &[f32], codebook: Codebook<'_>) {
        // SAFETY: passed on.
        unsafe { self.fill_all::<super::avx2::Avx2>(entry, query, codebook) }
    }

    /// # Safety
    /// "Detected", "Inside".
    #[inline(always)]
    unsafe fn fill_all<I: Lanewise>(
        &mut self,
        entry: Entry,
        query: &[f32],
        codebook: Codebook<'_>,
    ) {
        let Codebook { bits, m, values } = codebook;
        let (entries, part) = (bits.entries(), query.len() / m);
        // SAFETY: "Detected"; "Inside": `m` tables and least entries, `m * part * entries` values.
        unsafe {
            let mut largest = I::zero();
            for table in 0..m {
                let to = self.floats.as_mut_ptr().add(table * entries);
                let centroids = values.as_ptr().add(table * part * entries);
                let mut least = I::splat(f32::INFINITY);
                for lane in (0..entries).step_by(16) {
                    let mut sum = I::zero();
                    for component in 0..part {
                        let wanted = I::splat(*query.as_ptr().add(table * part + component));
                        let values = I::f32s(centroids.add(component * entries + lane));
                        sum = match entry {
                            Entry::SquaredL2 => {
                                let difference = I::sub(wanted, values);
                                I::fma(difference, difference, sum)
                            }
                            Entry::Product => I::fnma(wanted, values, sum),
                        };
                    }
                    I::store(sum, &mut *to.add(lane).cast());
                    least = I::least(least, sum);
                    largest = I::most(largest, I::most(sum, I::sub(I::zero(), sum)));
                }
                *self.least.as_mut_ptr().add(table) = I::least_lane(least);
            }
            self.largest = -I::least_lane(I::sub(I::zero(), largest));
        }
    }

    /// What entries may exceed their tables' least ones by, so that a row is at most at `bound`.
    #[inline(always)]
    fn budget(&self, start: f32, bound: f32) -> f32 {
        // Each of `m` additions rounds by 2^-24 of what has been added up; four times as much is on the safe side.
        let m = self.m as f32;
        let rounded =
            (m + 8.0) * 2.0_f32.powi(-22) * (m * self.largest + start.abs() + bound.abs());
        (bound - start - self.least_sum).max(0.0) + rounded
    }

    /// Whether the bytes will do for `budget`: made for one that is not smaller, and not much larger.
    #[inline(always)]
    fn rounded_for(&self, budget: f32) -> bool {
        (COARSE * self.budget..=self.budget).contains(&budget)
    }

    /// Units that a budget is cut into.
    #[inline(always)]
    fn most_units(&self) -> f32 {
        if self.long {
            (UNITS_A_CODE * self.m as f32).min(MOST_UNITS)
        } else {
            UNITS
        }
    }

    /// Makes the bytes for `budget`.
    ///
    /// # Safety
    /// "Detected".
    #[inline(always)]
    unsafe fn round<I: Lanewise>(&mut self, budget: f32) {
        self.budget = budget;
        // Neither 0 nor so small that its reciprocal is infinite.
        self.units = self.most_units() / budget.max(1e-35);
        let entries = self.floats.len() / self.m;
        // SAFETY: "Detected"; as many bytes as floats, a multiple of sixteen for each table.
        unsafe {
            let units = I::splat(self.units);
            // What is cut short is taken for less than it is, which leaves more rows to be summed up exactly.
            let most = I::splat(f32::from(if self.long { MOST_LONG } else { u8::MAX }));
            for (table, &least) in self.least.iter().enumerate() {
                let least = I::splat(least);
                for at in (table * entries..(table + 1) * entries).step_by(16) {
                    let floats = I::f32s(self.floats.as_ptr().add(at));
                    let over = I::mul(I::sub(floats, least), units);
                    I::store_u8s(I::least(over, most), self.bytes.as_mut_ptr().add(at));
                }
            }
        }
    }

    /// The most that a row's bytes may sum up to within `budget`, which is not above the one that they were made for.
    #[inline(always)]
    fn limit(&self, budget: f32) -> u16 {
        // Entries are rounded down, but computed with an error of 2^-22 of themselves.
        (budget * self.units * (1.0 + 1e-6)).min(self.most_units()) as u16
    }
}

/// Offers all rows of `list` whose distance, `start` and the sum of their entries, is at most `bound`, or what `sink`
/// makes of it.
///
/// # Panics
/// If `list` is shorter than it says, or `tables` are not filled for such codes.
pub(crate) fn scan_codes(
    bits: Bits,
    tables: &mut Tables,
    start: f32,
    list: List<'_>,
    bound: f32,
    sink: &mut dyn Sink,
) {
    // "Inside" and "Slack".
    assert!(tables.m > 0, "tables that were never filled");
    assert_eq!(
        tables.floats.len(),
        tables.m * bits.entries(),
        "tables of another kind"
    );
    let bytes = list.rows.checked_mul(bits.row_bytes(tables.m));
    let needed = bytes.and_then(|bytes| bytes.checked_add(SLACK));
    assert!(
        needed.is_some_and(|needed| needed <= list.codes.len()),
        "a list without slack"
    );
    let mut job = Job {
        tables,
        start,
        list,
        bound,
        sink,
    };
    match (bits, level()) {
        // SAFETY: every processor has what the target always has; "Inside" and "Slack".
        (Bits::Four, Level::Portable) => unsafe { job.all::<Portable, Nibbles>() },
        // SAFETY: as above.
        (Bits::Eight, Level::Portable) => unsafe { job.all::<Portable, Bytes>() },
        // SAFETY: "Detected"; "Inside" and "Slack".
        #[cfg(target_arch = "x86_64")]
        (Bits::Four, Level::Avx2) => unsafe { job.all_avx2::<Nibbles>() },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Bits::Eight, Level::Avx2) => unsafe { job.all_avx2::<Bytes>() },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Bits::Four, Level::Avx512) => unsafe { job.all_avx512::<Nibbles>() },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Bits::Eight, Level::Avx512) => unsafe { job.all_avx512::<Bytes>() },
    }
}

/// Pairs of codes that are summed up side by side, as an addition waits for the one before it.
const CHAINS: usize = 2;

/// How a row's codes are read.
trait Codes {
    const BITS: Bits;

    /// Of 64 rows, those whose bytes sum up to `limit` at most.
    ///
    /// # Safety
    /// As [`FastScan::below4`].
    unsafe fn below<I: FastScan>(
        codes: *const u8,
        width: usize,
        tables: &Tables,
        limit: u16,
    ) -> u64;

    /// The sums of sixteen rows.
    ///
    /// # Safety
    /// As [`Lanewise::pick4`], at `width` bytes from each other.
    unsafe fn sums<I: Lanewise>(codes: *const u8, width: usize, tables: &Tables) -> I::V;

    /// The sum of one row, to the bit as [`Codes::sums`] has it.
    ///
    /// # Safety
    /// A byte is read at `codes`, and at every `width` bytes from it on, for each code or pair of codes.
    unsafe fn sum(codes: *const u8, width: usize, tables: &Tables) -> f32;
}

/// SAFETY of the blocks below: "Inside" and "Slack", by `scan_codes`; "Detected".
struct Nibbles;
impl Codes for Nibbles {
    const BITS: Bits = Bits::Four;

    #[inline(always)]
    unsafe fn below<I: FastScan>(
        codes: *const u8,
        width: usize,
        tables: &Tables,
        limit: u16,
    ) -> u64 {
        let (pairs, bytes) = (tables.m / 2, tables.bytes.as_ptr());
        unsafe {
            if tables.long {
                I::below4_long(codes, width, pairs, bytes, limit)
            } else {
                // At most [`UNITS`].
                I::below4(codes, width, pairs, bytes, limit as u8)
            }
        }
    }

    #[inline(always)]
    unsafe fn sums<I: Lanewise>(codes: *const u8, width: usize, tables: &Tables) -> I::V {
        unsafe {
            let mut sums = [[I::zero(); 2]; CHAINS];
            for pair in 0..tables.m / 2 {
                let table = tables.floats.as_ptr().add(pair * 32);
                let (low, high) = I::pick4(codes.add(pair * width), table);
                let [even, odd] = &mut sums[pair % CHAINS];
                *even = I::add(*even, low);
                *odd = I::add(*odd, high);
            }
            let [first, second] = sums;
            I::add(I::add(first[0], first[1]), I::add(second[0], second[1]))
        }
    }

    #[inline(always)]
    unsafe fn sum(codes: *const u8, width: usize, tables: &Tables) -> f32 {
        let mut sums = [[0.0; 2]; CHAINS];
        for (pair, entries) in tables.floats.as_chunks::<32>().0.iter().enumerate() {
            let code = usize::from(unsafe { *codes.add(pair * width) });
            let [even, odd] = &mut sums[pair % CHAINS];
            *even += entries[code & 15];
            *odd += entries[16 + (code >> 4)];
        }
        let [first, second] = sums;
        (first[0] + first[1]) + (second[0] + second[1])
    }
}

struct Bytes;
impl Codes for Bytes {
    const BITS: Bits = Bits::Eight;

    #[inline(always)]
    unsafe fn below<I: FastScan>(
        codes: *const u8,
        width: usize,
        tables: &Tables,
        limit: u16,
    ) -> u64 {
        let bytes = tables.bytes.as_ptr();
        let below = unsafe { I::below8(codes, width, tables.m, bytes, limit as u8) };
        below.unwrap_or(u64::MAX)
    }

    #[inline(always)]
    unsafe fn sums<I: Lanewise>(codes: *const u8, width: usize, tables: &Tables) -> I::V {
        unsafe {
            let (mut even, mut odd) = (I::zero(), I::zero());
            let table = |code: usize| tables.floats.as_ptr().add(code * 256);
            let mut code = 0;
            while code + 2 <= tables.m {
                even = I::add(even, I::pick8(codes.add(code * width), table(code)));
                let next = code + 1;
                odd = I::add(odd, I::pick8(codes.add(next * width), table(next)));
                code += 2;
            }
            if code < tables.m {
                even = I::add(even, I::pick8(codes.add(code * width), table(code)));
            }
            I::add(even, odd)
        }
    }

    #[inline(always)]
    unsafe fn sum(codes: *const u8, width: usize, tables: &Tables) -> f32 {
        let mut sums = [0.0; 2];
        for (code, entries) in tables.floats.as_chunks::<256>().0.iter().enumerate() {
            sums[code % 2] += entries[usize::from(unsafe { *codes.add(code * width) })];
        }
        let [even, odd] = sums;
        even + odd
    }
}

struct Job<'a> {
    tables: &'a mut Tables,
    start: f32,
    list: List<'a>,
    bound: f32,
    sink: &'a mut dyn Sink,
}

/// Rows whose entries are summed up in one register.
const GROUP: usize = 16;

/// Rows of a group that are summed up one by one in less time than all of them at once.
const FEW: u32 = 4;

impl Job<'_> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn all_avx512<C: Codes>(&mut self) {
        // SAFETY: passed on.
        unsafe { self.all::<super::avx512::Avx512, C>() }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn all_avx2<C: Codes>(&mut self) {
        // SAFETY: passed on.
        unsafe { self.all::<super::avx2::Avx2, C>() }
    }

    /// # Safety
    /// "Detected", "Inside" and "Slack".
    #[inline(always)]
    unsafe fn all<I: FastScan, C: Codes>(&mut self) {
        let row_bytes = C::BITS.row_bytes(self.tables.m);
        for first in (0..self.list.rows).step_by(BLOCK) {
            let width = BLOCK.min(self.list.rows - first);
            // SAFETY: "Inside".
            let block = unsafe { self.list.codes.as_ptr().add(first * row_bytes) };
            // SAFETY: passed on: a block of `width` rows, and slack behind it.
            unsafe { self.one::<I, C>(block, first, width) };
        }
    }

    /// # Safety
    /// "Detected"; a block of `width` rows at `block`, and "Slack".
    #[inline(always)]
    unsafe fn one<I: FastScan, C: Codes>(&mut self, block: *const u8, first: usize, width: usize) {
        let mut left = u64::MAX >> (BLOCK - width);
        let mut rounded = false;
        let mut at = 0;
        while left >> at != 0 {
            if !rounded && self.bound < f32::INFINITY {
                let budget = self.tables.budget(self.start, self.bound);
                // SAFETY: "Detected"; passed on.
                unsafe {
                    if !self.tables.rounded_for(budget) {
                        self.tables.round::<I>(budget);
                    }
                    let limit = self.tables.limit(budget);
                    left &= C::below::<I>(block, width, self.tables, limit);
                }
                rounded = true;
                continue;
            }
            let which = (left >> at) as u16;
            if which != 0 {
                let mut distances = [0.0; GROUP];
                // SAFETY: "Detected"; "Inside" and "Slack": sixteen rows from `at` on, or fewer and what follows.
                let near = unsafe {
                    if which.count_ones() <= FEW {
                        self.near_of_few::<C>(block.add(at), width, which, &mut distances)
                    } else {
                        let sums = C::sums::<I>(block.add(at), width, self.tables);
                        let sums = I::add(I::splat(self.start), sums);
                        I::store(sums, &mut distances);
                        I::at_most(sums, I::splat(self.bound)) & which
                    }
                };
                if near != 0 {
                    self.bound = self.sink.offer(first + at, near, &distances);
                }
            }
            at += GROUP;
            if at == BLOCK {
                break;
            }
        }
    }

    /// Of the rows `which` of the sixteen at `codes`, those within the bound, and their distances.
    ///
    /// # Safety
    /// "Inside": these rows are in the block.
    #[inline(always)]
    unsafe fn near_of_few<C: Codes>(
        &self,
        codes: *const u8,
        width: usize,
        mut which: u16,
        distances: &mut [f32; GROUP],
    ) -> u16 {
        let mut near = 0;
        while which != 0 {
            let row = which.trailing_zeros() as usize;
            which &= which - 1;
            // SAFETY: passed on.
            let sum = unsafe { C::sum(codes.add(row), width, self.tables) };
            distances[row] = self.start + sum;
            if distances[row] <= self.bound {
                near |= 1 << row;
            }
        }
        near
    }
}
