//! Rows of 4-bit codes, in half a cache line or whole ones.
//!
//! A row of `n` bytes, a multiple of 32, holds `dim` codes `r` in its first `half = dim / 2` bytes (rounded up): byte `i` has code `i`
//! in its lower four bits and code `half + i` in its upper four. Where the row has room for four bytes more, they are its own
//! scale and squared length; elsewhere one step stands for all rows.
//!
//! With one step, a query's component `q`, in steps above the lowest, has a weight of a quarter of a step, `w = 4 q`. So it is
//! rounded to a quarter of what a row is rounded to, and may lie a whole range of codes to each side of them
//! before its weights need a second digit:
//!
//! ```text
//! sum (4 q - 4 r)^2 = sum w^2 + 8 sum (2 r^2 - r w)
//! ```
//!
//! Both products of the last sum are made of the same bytes of the row, so it needs no constant.
//!
//! With a scale `f` of its own a row stands for `f (r - 7)`. Its product with `q` and the squared distance to it are
//!
//! ```text
//! f sum q (r - 7)        sum q^2 + l - 2 f sum q (r - 7)
//! ```
//!
//! For products the four bytes are `f`. For squared distances they are `f`, of 6 significant bits, and `l`, of 12. `l` is chosen
//! so that the distance from the row itself is 0 whatever `f` was rounded to. So what rounding does to a distance is little
//! where the query is near.

use super::super::portable::Portable;
use super::super::{Positions, Rows};
use super::digits::{BLOCK, Digits, digit_sums};
use super::sums::{Kind, MAX_DIM, Sums, sums};

/// Weights that a step is divided into.
const FINE: f64 = 4.0;

/// The code of a component that is 0, in rows with a scale of their own.
pub(crate) const MIDDLE: u8 = 7;

/// Bytes of a row's own scale and length.
const OWN: usize = 4;

/// Bytes of a row of `dim` codes: half a cache line, or whole ones.
pub(crate) fn nibble_bytes(dim: usize) -> usize {
    match dim.div_ceil(2) {
        ..=32 => 32,
        bytes => bytes.next_multiple_of(64),
    }
}

/// Whether rows of `dim` codes have room for a scale of their own.
pub(crate) fn nibbles_have_own(dim: usize) -> bool {
    dim.div_ceil(2) + OWN <= nibble_bytes(dim)
}

/// A row's own scale, and what else of it a distance needs, in four bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own(u32);

/// Bits of a float that are cut off: of a scale beside a squared length, and of the length. Neither has a sign.
const SCALE_CUT: u32 = 18;
const LENGTH_CUT: u32 = 12;

impl Own {
    /// For products: the scale that makes of `product`, of the row with its codes less [`MIDDLE`], the row's squared length.
    pub(crate) fn for_products(product: f64, squares: f64) -> Self {
        Self(scale(product, squares).to_bits())
    }

    /// For squared distances, of the same.
    pub(crate) fn for_distances(product: f64, squares: f64) -> Self {
        let rounded = cut(scale(product, squares), SCALE_CUT);
        let scale = f64::from(f32::from_bits(rounded << SCALE_CUT));
        let length = (2.0 * scale * product - squares).max(0.0) as f32;
        Self(rounded << (31 - LENGTH_CUT) | cut(length, LENGTH_CUT))
    }

    fn scale(self) -> f32 {
        f32::from_bits(self.0)
    }

    fn scale_and_length(self) -> (f32, f32) {
        let length = self.0 & ((1 << (31 - LENGTH_CUT)) - 1);
        (
            f32::from_bits(self.0 >> (31 - LENGTH_CUT) << SCALE_CUT),
            f32::from_bits(length << LENGTH_CUT),
        )
    }
}

fn scale(product: f64, squares: f64) -> f32 {
    if product > 0.0 {
        (squares / product) as f32
    } else {
        0.0
    }
}

/// The bits of a float of 0 and more, rounded to those above the lowest `bits`.
fn cut(x: f32, bits: u32) -> u32 {
    (x.to_bits() + (1 << (bits - 1))).min(f32::MAX.to_bits()) >> bits
}

/// Writes `codes`, each below 16, to `row`, which has [`nibble_bytes`], with the row's own scale, if it has one.
///
/// # Panics
/// If there is no room for that.
pub(crate) fn write_nibbles(codes: &[u8], own: Option<Own>, row: &mut [u8]) {
    row.fill(0);
    let half = codes.len().div_ceil(2);
    let (lower, upper) = codes.split_at(half);
    for (out, code) in row.iter_mut().zip(lower) {
        *out = *code;
    }
    for (out, code) in row.iter_mut().zip(upper) {
        *out |= code << 4;
    }
    if let Some(Own(bits)) = own {
        assert!(nibbles_have_own(codes.len()), "no room");
        let at = row.len() - OWN;
        row[at..].copy_from_slice(&bits.to_le_bytes());
    }
}

/// A query against rows of nibbles.
#[derive(Clone, Debug, Default)]
pub(crate) struct NibbleQuery {
    values: Vec<f64>,
    /// One signed byte for each code that a row has room for, or one for each digit.
    weights: Vec<i8>,
    /// Bytes of a row.
    bytes: usize,
    form: Form,
}

/// What is computed of the products.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// Products with codes. `unit` is what a weight of 1 stands for.
    Weighted { unit: f32 },
    /// Squared distances in steps; this is the sum of the weights' squares.
    Squared(i32),
    /// The same for a query that lies far outside the codes, whose weights are digits.
    Outside { digits: Digits, squares: f64 },
    /// Products with rows of their own scale, or squared distances to them. `shift` is the sum of the weights times [`MIDDLE`].
    Own {
        unit: f32,
        shift: f32,
        /// The query's squared length, for squared distances.
        squares: Option<f32>,
    },
}

impl Default for Form {
    fn default() -> Self {
        Self::Weighted { unit: 1.0 }
    }
}

impl NibbleQuery {
    /// Squared distances, in squared steps, to `query`, in steps above the lowest. Where rows have their own scale, a step is 1
    /// and the lowest is the middle of all rows.
    pub(crate) fn squared_l2(&mut self, query: impl Iterator<Item = f64>) {
        self.take(query);
        if nibbles_have_own(self.values.len()) {
            let spread = Spread::of(&self.values);
            return self.own(spread, Some(spread.squares as f32));
        }
        let digits = self.write(FINE);
        self.form = if self.has_one_digit() {
            let squares = self.weights.iter().map(|&w| i32::from(w) * i32::from(w));
            Form::Squared(squares.sum())
        } else {
            let rounded = digits.rounded(self.values.iter().map(|q| q * FINE));
            let squares = rounded.map(|w| w * w).sum();
            Form::Outside { digits, squares }
        };
    }

    /// Products of `query` with codes, or with what they stand for where rows have their own scale.
    pub(crate) fn products(&mut self, query: impl Iterator<Item = f64>) {
        self.take(query);
        let spread = Spread::of(&self.values);
        if nibbles_have_own(self.values.len()) {
            return self.own(spread, None);
        }
        let digits = self.write(1.0 / spread.unit);
        self.form = Form::Weighted {
            unit: (spread.unit * digits.grain) as f32,
        };
    }

    fn own(&mut self, spread: Spread, squares: Option<f32>) {
        let digits = self.write(1.0 / spread.unit);
        let planes = self.weights.chunks_exact(self.kind().weights());
        let sum: f64 = planes
            .zip(0..)
            .map(|(weights, digit)| {
                let sum: i32 = weights.iter().map(|&w| i32::from(w)).sum();
                f64::from(sum) * 256_f64.powi(digit)
            })
            .sum();
        self.form = Form::Own {
            unit: (spread.unit * digits.grain) as f32,
            shift: (f64::from(MIDDLE) * sum) as f32,
            squares,
        };
    }

    fn take(&mut self, query: impl Iterator<Item = f64>) {
        self.values.clear();
        self.values.extend(query);
        assert!(self.values.len() <= MAX_DIM, "sums overflow");
        self.bytes = nibble_bytes(self.values.len());
    }

    /// Writes the weights, `scale` for each 1 of the query, as codes lie in a row.
    fn write(&mut self, scale: f64) -> Digits {
        let half = self.values.len().div_ceil(2);
        let (lower, upper) = self.values.split_at(half);
        self.weights.clear();
        self.weights.resize(2 * self.bytes, 0);
        let (front, back) = self.weights.split_at_mut(self.bytes);
        if write_bytes(lower, scale, front) & write_bytes(upper, scale, back) {
            return Digits::ONE;
        }
        let none = std::iter::repeat_n(&0.0, self.bytes - half);
        let laid = lower.iter().chain(none).chain(upper);
        let wanted = laid.map(|q| q * scale);
        Digits::write(wanted, 2 * self.bytes, &mut self.weights)
    }

    fn has_one_digit(&self) -> bool {
        self.weights.len() == self.kind().weights()
    }

    fn kind(&self) -> Nibbles<false> {
        Nibbles { bytes: self.bytes }
    }

    fn squared_kind(&self) -> Nibbles<true> {
        Nibbles { bytes: self.bytes }
    }

    /// What the query was prepared for, of the rows at `positions`.
    ///
    /// # Panics
    /// If a row is not there or too short, or if `out` has another length than `positions`.
    pub(crate) fn run<P: Positions>(&self, rows: Rows<'_>, positions: P, out: &mut [f32]) {
        match self.form {
            Form::Weighted { unit } => {
                self.each_product(rows, positions, out, |sum, _| unit * sum);
            }
            Form::Squared(squares) => {
                const UNIT: f32 = 1.0 / (FINE * FINE) as f32;
                let kind = self.squared_kind();
                sums(kind, &self.weights, rows, positions, out, |sum, _| {
                    (squares + 8 * sum) as f32 * UNIT
                });
            }
            Form::Outside { digits, squares } => {
                self.run_outside(digits, squares, rows, positions, out);
            }
            Form::Own {
                unit,
                shift,
                squares,
            } => {
                let own = |row: *const u8| {
                    let at = row.wrapping_add(self.bytes - OWN).cast::<u32>();
                    // SAFETY: "Inside": a row has `Nibbles::bytes` bytes, of which these are the last four.
                    Own(u32::from_le(unsafe { at.read_unaligned() }))
                };
                match squares {
                    None => self.each_product(rows, positions, out, |sum, row| {
                        own(row).scale() * (unit * (sum - shift))
                    }),
                    Some(squares) => self.each_product(rows, positions, out, |sum, row| {
                        let (scale, length) = own(row).scale_and_length();
                        let product = scale * (unit * (sum - shift));
                        (squares + length - 2.0 * product).max(0.0)
                    }),
                }
            }
        }
    }

    /// What `finish` makes of each row's codes times the weights, and of where it begins.
    fn each_product<P: Positions>(
        &self,
        rows: Rows<'_>,
        positions: P,
        out: &mut [f32],
        finish: impl Fn(f32, *const u8) -> f32,
    ) {
        let (kind, weights) = (self.kind(), &self.weights[..]);
        if self.has_one_digit() {
            let finish = |sum, row| finish(sum as f32, row);
            return sums(kind, weights, rows, positions, out, finish);
        }
        digit_sums(
            kind,
            weights,
            rows,
            positions,
            out,
            |products, part, out| {
                for ((out, &product), i) in out.iter_mut().zip(products).zip(0..) {
                    *out = finish(product as f32, rows.start(part.at(i)));
                }
            },
        );
    }

    fn run_outside<P: Positions>(
        &self,
        digits: Digits,
        squares: f64,
        rows: Rows<'_>,
        positions: P,
        out: &mut [f32],
    ) {
        let (kind, weights) = (self.kind(), &self.weights[..]);
        digit_sums(
            kind,
            weights,
            rows,
            positions,
            out,
            |products, part, out| {
                // `2 r^2 - r w` and `r w` of the lowest digits: together the squares of the codes.
                let lowest = &weights[..kind.weights()];
                let (mut squared, mut weighted) = ([0; BLOCK], [0; BLOCK]);
                let (squared, weighted) = (&mut squared[..out.len()], &mut weighted[..out.len()]);
                sums(
                    self.squared_kind(),
                    lowest,
                    rows,
                    part,
                    squared,
                    |sum, _| sum,
                );
                sums(kind, lowest, rows, part, weighted, |sum, _| sum);
                let codes = squared
                    .iter()
                    .zip(weighted)
                    .map(|(a, b)| f64::from(*a + *b));
                for ((out, &product), codes) in out.iter_mut().zip(products).zip(codes) {
                    let sum = codes - digits.grain * product as f64;
                    let squared = (squares + 8.0 * sum).max(0.0) / (FINE * FINE);
                    // Infinity would be no number where the step's square is 0.
                    *out = squared.min(f64::from(f32::MAX)) as f32;
                }
            },
        );
    }
}

/// Writes `values`, times `scale`, to `weights`. Whether all of them fit a byte.
fn write_bytes(values: &[f64], scale: f64, weights: &mut [i8]) -> bool {
    // Added to a number, it leaves the nearest whole one in the lowest bits: as `round_ties_even`, but many a step.
    const WHOLE: f64 = (3_u64 << 51) as f64;
    let mut fit = true;
    for (out, q) in weights.iter_mut().zip(values) {
        let w = q * scale;
        fit &= w.abs() <= 127.0;
        *out = (w + WHOLE).to_bits() as i8;
    }
    fit
}

/// How large the components of a query are.
#[derive(Clone, Copy)]
struct Spread {
    /// What a weight of 1 stands for so that one byte holds all components but those that stand out.
    unit: f64,
    /// The sum of their squares.
    squares: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        // In lanes, as one sum would wait for each addition.
        let (mut most, mut squares) = ([0.0_f64; 8], [0.0; 8]);
        for chunk in values.chunks(8) {
            for ((most, squares), q) in most.iter_mut().zip(&mut squares).zip(chunk) {
                *most = most.max(q.abs());
                *squares += q * q;
            }
        }
        let largest = most.into_iter().fold(0.0, f64::max);
        let squares: f64 = squares.iter().sum();
        let usual = (squares / values.len().max(1) as f64).sqrt();
        let widest = largest.min(STANDS_OUT * usual);
        let unit = if widest > 0.0 { widest / 127.0 } else { 1.0 };
        Self { unit, squares }
    }
}

/// How many times as large as usual a component of a query is that stands out: of normal ones less than one in a million is.
const STANDS_OUT: f64 = 5.0;

/// Rows of nibbles. What is summed is, of all codes `r` with their weights `w`, `r w`, or if `SQUARED` `2 r^2 - r w`.
#[derive(Clone, Copy)]
pub(super) struct Nibbles<const SQUARED: bool> {
    /// Bytes of a row: 32, or whole 64.
    pub(super) bytes: usize,
}

impl<const SQUARED: bool> Kind for Nibbles<SQUARED> {
    fn weights(self) -> usize {
        2 * self.bytes
    }

    fn bytes(self) -> usize {
        self.bytes
    }
}

/// SAFETY of the blocks below: by the caller.
impl<const SQUARED: bool> Sums<Portable> for Nibbles<SQUARED> {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        let (lower, upper, row) = unsafe {
            (
                std::slice::from_raw_parts(weights, self.bytes),
                std::slice::from_raw_parts(weights.add(self.bytes), self.bytes),
                std::slice::from_raw_parts(row, self.bytes),
            )
        };
        // 16 bits hold a register's products (x86), and let the compiler take more of them at once.
        let product = |code: u8, weight: i8| {
            let (code, weight) = (i16::from(code), i16::from(weight));
            if SQUARED {
                code * (2 * code - weight)
            } else {
                code * weight
            }
        };
        let weights = lower.iter().zip(upper);
        let products = row.iter().zip(weights).map(|(&byte, (&lower, &upper))| {
            i32::from(product(byte & 15, lower) + product(byte >> 4, upper))
        });
        products.sum()
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        rows.map(|row| unsafe { Sums::<Portable>::one(self, weights, row) })
    }
}
