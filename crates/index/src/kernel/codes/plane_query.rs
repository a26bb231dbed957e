//! Queries for rows of 4, 2 or 1 bits a component.
//!
//! Where one step stands for all rows, as in some of 4 bits, a query's component `q`, in steps above the lowest, has a
//! weight of a quarter of a step, `w = 4 q`. So it is rounded to a quarter of what a row is rounded to, and may lie a
//! whole range of codes to each side of them before its weights need a second digit:
//!
//! ```text
//! sum (4 q - 4 r)^2 = sum w^2 + 8 sum (2 r^2 - r w)
//! ```
//!
//! Both products of the last sum are made of the same bytes of the row, so it needs no constant.
//!
//! Rows with a scale of their own: see `own`. What their middle takes from each product is the same for all rows, so
//! codes are multiplied as they are.

use super::super::{Positions, Rows};
use super::digits::{BLOCK, Digits, digit_sums};
use super::own::{OWN, Own};
use super::planes::{Planes, Width};
use super::sums::{Kind, MAX_DIM, sums};

/// Weights that a step is divided into.
const FINE: f64 = 4.0;

/// A query against rows of few bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlaneQuery {
    values: Vec<f64>,
    /// One signed byte for each code that a row has room for, or one for each digit.
    weights: Vec<i8>,
    width: Width,
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
    /// Products with rows of their own scale, or squared distances to them. `shift` is the sum of the weights times
    /// [`Width::middle`].
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

/// Rows of 4 bits, which alone may have one step for all: products with codes, and what squared distances are made of.
type Nibbles = Planes<4, false>;
type SquaredNibbles = Planes<4, true>;

impl PlaneQuery {
    /// Squared distances, in squared steps, to `query`, in steps above the lowest. Where rows have their own scale, a
    /// step is 1 and the lowest is the middle of all rows.
    pub(crate) fn squared_l2(&mut self, width: Width, query: impl Iterator<Item = f64>) {
        self.take(width, query);
        if width.has_own(self.values.len()) {
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
    pub(crate) fn products(&mut self, width: Width, query: impl Iterator<Item = f64>) {
        self.take(width, query);
        let spread = Spread::of(&self.values);
        if width.has_own(self.values.len()) {
            return self.own(spread, None);
        }
        let digits = self.write(1.0 / spread.unit);
        self.form = Form::Weighted {
            unit: (spread.unit * digits.grain) as f32,
        };
    }

    fn own(&mut self, spread: Spread, squares: Option<f32>) {
        let digits = self.write(1.0 / spread.unit);
        let planes = self.weights.chunks_exact(self.weights_of_a_digit());
        let sum: f64 = planes
            .zip(0..)
            .map(|(weights, digit)| {
                let sum: i32 = weights.iter().map(|&w| i32::from(w)).sum();
                f64::from(sum) * 256_f64.powi(digit)
            })
            .sum();
        self.form = Form::Own {
            unit: (spread.unit * digits.grain) as f32,
            shift: (f64::from(self.width.middle()) * sum) as f32,
            squares,
        };
    }

    fn take(&mut self, width: Width, query: impl Iterator<Item = f64>) {
        self.values.clear();
        self.values.extend(query);
        assert!(self.values.len() <= MAX_DIM, "sums overflow");
        self.width = width;
        self.bytes = width.row_bytes(self.values.len());
    }

    /// Writes the weights, `scale` for each 1 of the query, as codes lie in a row.
    fn write(&mut self, scale: f64) -> Digits {
        let (bytes, width) = (self.bytes, self.weights_of_a_digit());
        let kept = self.width.kept(self.values.len());
        let planes = self.values[..kept].chunks(self.width.part(kept).max(1));
        self.weights.clear();
        self.weights.resize(width, 0);
        let mut fit = true;
        for (values, weights) in planes.clone().zip(self.weights.chunks_exact_mut(bytes)) {
            fit &= write_bytes(values, scale, weights);
        }
        if fit {
            return Digits::ONE;
        }
        let laid = planes.flat_map(|values| {
            let none = std::iter::repeat_n(&0.0, bytes - values.len());
            values.iter().chain(none)
        });
        Digits::write(laid.map(|q| q * scale), width, &mut self.weights)
    }

    fn weights_of_a_digit(&self) -> usize {
        self.width.planes() * self.bytes
    }

    fn has_one_digit(&self) -> bool {
        self.weights.len() == self.weights_of_a_digit()
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
                let kind = SquaredNibbles { bytes: self.bytes };
                sums(kind, &self.weights, rows, positions, out, |sum, _| {
                    // Up to 2^32.
                    squares.wrapping_add(8 * sum).cast_unsigned() as f32 * UNIT
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
                    let at = row.wrapping_add(self.bytes - OWN).cast::<[u8; OWN]>();
                    // SAFETY: "Inside": a row has `Planes::bytes` bytes, of which these are the last four.
                    Own::from_bytes(unsafe { at.read() })
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
        let bytes = self.bytes;
        match self.width {
            Width::One => {
                self.each_product_of(Planes::<1, false> { bytes }, rows, positions, out, finish);
            }
            Width::Two => {
                self.each_product_of(Planes::<2, false> { bytes }, rows, positions, out, finish);
            }
            Width::Four => self.each_product_of(Nibbles { bytes }, rows, positions, out, finish),
        }
    }

    fn each_product_of<K: Kind, P: Positions>(
        &self,
        kind: K,
        rows: Rows<'_>,
        positions: P,
        out: &mut [f32],
        finish: impl Fn(f32, *const u8) -> f32,
    ) {
        let weights = &self.weights[..];
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
        let bytes = self.bytes;
        let (kind, weights) = (Nibbles { bytes }, &self.weights[..]);
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
                let squared_kind = SquaredNibbles { bytes };
                sums(squared_kind, lowest, rows, part, squared, |sum, _| sum);
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

/// How many times as large as usual a component of a query is that stands out: of normal ones less than one in a
/// million is.
const STANDS_OUT: f64 = 5.0;
