//! Rows of 8-bit codes.
//!
//! A row is `dim` codes `r` (`u8`), and in most tables zeros up to a multiple of four bytes and an `i32` constant.
//! AVX-512 multiplies unsigned by signed bytes only, so a query's code `q` is kept as `q - 128`, and the constant makes
//! up for it:
//!
//! ```text
//! sum (q - r)^2 = sum q^2 + [sum r^2 - 256 sum r] - 2 sum r (q - 128)
//! ```
//!
//! The brackets are the row's constant, and what its codes do not say of its distance. An inner product needs none: its
//! weights are signed to begin with. The equation holds for a query outside the codes as well, whose `q - 128` are
//! written in digits.
//!
//! Rows without a constant are for tables where it would cost a cache line: the squares are summed themselves.

use super::super::portable::Portable;
use super::super::{Positions, Rows};
use super::digits::{Digits, digit_sums};
use super::sums::{Kind, MAX_DIM, Sums, sums};

/// Codes that one AVX-512 register holds; a query is filled up to whole ones.
pub(super) const WIDTH: usize = 64;

/// Bytes of a row of `dim` codes, with a constant or without.
pub(crate) fn row_bytes(dim: usize, constant: bool) -> usize {
    if constant {
        dim.next_multiple_of(4) + 4
    } else {
        dim
    }
}

/// Writes `codes` to `row`, which has [`row_bytes`] or more, and their constant if there is a `farther`, which is added
/// to the row's squared distances, in squared steps.
pub(crate) fn write_row(codes: &[u8], farther: Option<i32>, row: &mut [u8]) {
    row[..codes.len()].copy_from_slice(codes);
    row[codes.len()..].fill(0);
    if let Some(farther) = farther {
        let at = codes.len().next_multiple_of(4);
        let constant = constant_of(codes).saturating_add(farther);
        row[at..at + 4].copy_from_slice(&constant.to_le_bytes());
    }
}

/// What is in the brackets above.
fn constant_of(codes: &[u8]) -> i32 {
    let codes = codes.iter().map(|&code| i32::from(code));
    codes.map(|code| code * (code - 256)).sum()
}

/// A query against rows of codes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodeQuery {
    /// One signed byte a component, or one for each digit, filled up with zeros.
    weights: Vec<i8>,
    dim: usize,
    /// Whether rows have a constant.
    constants: bool,
    form: Form,
}

/// What is computed of the products.
#[derive(Clone, Copy, Debug, Default)]
enum Form {
    /// The sums themselves.
    #[default]
    Weighted,
    /// Squared distances; this is added to the constant of a row.
    Squared(i64),
    /// Squared distances of a query with components outside the codes, whose weights are digits.
    Outside {
        digits: Digits,
        squares: f64,
        /// What a distance of one squared step is reported as.
        unit: f64,
    },
}

impl CodeQuery {
    /// Says whether the rows have constants, before a query is set.
    pub(crate) fn rows_with(&mut self, constants: bool) -> &mut Self {
        self.constants = constants;
        self
    }

    /// Squared distances to the codes `query`.
    pub(crate) fn squared_l2(&mut self, query: impl ExactSizeIterator<Item = u8>) {
        let mut squares = 0;
        self.fill(query.map(|code| {
            squares += i64::from(code) * i64::from(code);
            (code ^ 0x80).cast_signed()
        }));
        self.form = Form::Squared(squares);
    }

    /// Squared distances, times `unit`, to `query`: what each component would have as a code if codes were numbers of
    /// any size, in steps above the lowest.
    pub(crate) fn squared_l2_outside(
        &mut self,
        query: impl ExactSizeIterator<Item = f64> + Clone,
        unit: f64,
    ) {
        self.dim = query.len();
        assert!(self.dim <= MAX_DIM, "sums overflow");
        let wanted = query.map(|q| q - 128.0);
        let digits = Digits::write(wanted.clone(), self.kind().weights(), &mut self.weights);
        let rounded = digits.rounded(wanted);
        let squares = rounded.map(|w| (w + 128.0).powi(2)).sum();
        self.form = Form::Outside {
            digits,
            squares,
            unit,
        };
    }

    /// Sums of codes by `weights`.
    pub(crate) fn weighted(&mut self, weights: impl ExactSizeIterator<Item = i8>) {
        self.fill(weights);
        self.form = Form::Weighted;
    }

    fn fill(&mut self, weights: impl ExactSizeIterator<Item = i8>) {
        self.dim = weights.len();
        assert!(self.dim <= MAX_DIM, "sums overflow");
        self.weights.clear();
        self.weights.extend(weights);
        self.weights.resize(self.kind().weights(), 0);
    }

    fn kind(&self) -> Bytes {
        Bytes {
            dim: self.dim,
            constants: self.constants,
        }
    }

    /// The squared distances, or the weighted sums, of the rows at `positions`, each as a float.
    ///
    /// # Panics
    /// If a row is not there or too short, or if `out` has another length than `positions`.
    pub(crate) fn run<P: Positions>(&self, rows: Rows<'_>, positions: P, out: &mut [f32]) {
        let (kind, weights) = (self.kind(), &self.weights);
        // The constant may be in a cache line of its own, so only what needs it reads it.
        let constant = |row: *const u8| {
            if !kind.constants {
                // SAFETY: "Inside": `sums` has compared the rows' stride with `Bytes::bytes`.
                return constant_of(unsafe { std::slice::from_raw_parts(row, kind.dim) });
            }
            let at = row.wrapping_add(kind.dim.next_multiple_of(4)).cast::<i32>();
            // SAFETY: as above, and these are the last four of those bytes.
            i32::from_le(unsafe { at.read_unaligned() })
        };
        match self.form {
            Form::Weighted => sums(kind, weights, rows, positions, out, |sum, _| sum as f32),
            Form::Squared(_) if !self.constants => {
                let kind = Squares { dim: self.dim };
                sums(kind, weights, rows, positions, out, |sum, _| {
                    sum.cast_unsigned() as f32
                });
            }
            Form::Squared(squares) => sums(kind, weights, rows, positions, out, |sum, row| {
                // Up to 2^32, and half as much again for a row that is farther than its codes say. Less than 0 if the
                // constant is damaged.
                (squares + i64::from(constant(row)) - 2 * i64::from(sum)) as f32
            }),
            Form::Outside {
                digits,
                squares,
                unit,
            } => digit_sums(
                kind,
                weights,
                rows,
                positions,
                out,
                |products, part, out| {
                    for ((out, &product), i) in out.iter_mut().zip(products).zip(0..) {
                        let constant = f64::from(constant(rows.start(part.at(i))));
                        let squared = squares + constant - 2.0 * digits.grain * product as f64;
                        *out = (squared.max(0.0) * unit) as f32;
                    }
                },
            ),
        }
    }
}

/// Rows of `dim` codes; what is summed are the codes times the weights, one a code in whole registers.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    pub(super) dim: usize,
    /// Whether a constant follows the codes.
    pub(super) constants: bool,
}

impl Kind for Bytes {
    fn weights(self) -> usize {
        self.dim.next_multiple_of(WIDTH).max(WIDTH)
    }

    fn bytes(self) -> usize {
        row_bytes(self.dim, self.constants)
    }
}

/// Rows of `dim` codes without a constant; what is summed are squares of differences from a query's codes.
#[derive(Clone, Copy)]
pub(super) struct Squares {
    pub(super) dim: usize,
}

impl Kind for Squares {
    fn weights(self) -> usize {
        self.dim.next_multiple_of(WIDTH).max(WIDTH)
    }

    fn bytes(self) -> usize {
        self.dim
    }
}

/// SAFETY of the blocks below: by the caller.
impl Sums<Portable> for Squares {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        let (weights, row) = unsafe {
            (
                std::slice::from_raw_parts(weights, self.dim),
                std::slice::from_raw_parts(row, self.dim),
            )
        };
        let pairs = weights.iter().zip(row);
        let differences = pairs.map(|(&w, &r)| i16::from(w) + 128 - i16::from(r));
        let squares = differences.map(|d| i32::from(d) * i32::from(d));
        // Up to 2^32, which a caller takes as an unsigned number.
        squares.fold(0, i32::wrapping_add)
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        rows.map(|row| unsafe { Sums::<Portable>::one(self, weights, row) })
    }
}

/// SAFETY of the blocks below: by the caller.
impl Sums<Portable> for Bytes {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        let (weights, row) = unsafe {
            (
                std::slice::from_raw_parts(weights, self.dim),
                std::slice::from_raw_parts(row, self.dim),
            )
        };
        let pairs = weights.iter().zip(row);
        pairs.map(|(&w, &r)| i32::from(w) * i32::from(r)).sum()
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        rows.map(|row| unsafe { Sums::<Portable>::one(self, weights, row) })
    }
}
