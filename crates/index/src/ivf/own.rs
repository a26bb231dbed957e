//! An inverted index in memory of the table's own: centroids, lists, and what their codes mean.
//!
//! What a row's distance is, with `q` the query, `c` its list's centroid where codes are of residuals (else 0), and `x` what
//! the code stands for:
//!
//! | codes | L2 | inner products |
//! |---|---|---|
//! | `f32`, `f16`, `bf16` | `sum ((q - c) - x)^2` | `start - sum q x` |
//! | 8 bits, `x = base + step code` | `sum ((q - c - base) - step code)^2` | `start - sum q base - sum (q step) code` |
//! | product quantizer | sum of the entries of `q - c` | `start +` sum of the entries of `q` |
//!
//! where `start` is 1 for cosine and 0 for inner products, less `sum q c`, which the coarse search has computed. What depends
//! on the query or the list alone is computed once for each.
//!
//! **A row's distance depends on the query and the row alone**, to the bit, and an answer is the `k` first rows by
//! distance, then id. So it does not matter how a query is cut, or which others it is searched with.

use chiplet_executor::{Query, Work};

use super::best::Offers;
use super::lists::{Ids, Lists, pack};
use super::scratch::Scratch;
use crate::kernel::{self, Bits, Cell, Codebook, Entry, Form, List, SLACK};
use crate::metric::Metric;

/// Centroids, lists, and how to read them.
pub(super) struct Own {
    pub(super) metric: Metric,
    pub(super) dim: usize,
    pub(super) centroids: Centroids,
    pub(super) lists: Lists,
    pub(super) coding: Coding,
    /// Whether codes are of rows less their list's centroid.
    pub(super) residual: bool,
}

/// What codes mean.
#[derive(Debug)]
pub(super) enum Coding {
    /// Components as they are.
    Plain(Cell),
    /// Component `i` is `base[i] + step[i] * code`.
    Scaled { base: Vec<f32>, step: Vec<f32> },
    /// Numbers of centroids of parts, `[m][dim / m][entries]`.
    Product {
        bits: Bits,
        m: usize,
        codebook: Vec<f32>,
    },
}

impl Own {
    /// Bytes that a coarse search reads.
    pub(super) fn coarse_bytes(&self) -> u64 {
        (self.lists.count() * self.dim * size_of::<f32>()) as u64
    }

    /// The `nprobe` lists whose centroids are nearest to `scratch.query`, into `scratch.visits`.
    pub(super) fn coarse(&self, nprobe: usize, scratch: &mut Scratch) {
        let form = match self.metric {
            Metric::L2 => Form::SquaredL2,
            Metric::Cosine | Metric::InnerProduct => Form::Product { start: 0.0 },
        };
        let best = &mut scratch.nearest_lists;
        best.begin(nprobe, None);
        let mut offers = Offers {
            best,
            ids: Ids::Numbers,
            filter: None,
            clamp: false,
        };
        let list = self.centroids.list();
        kernel::scan(
            Cell::F32,
            form,
            &scratch.query,
            list,
            f32::INFINITY,
            &mut offers,
        );
        scratch.visits.clear();
        let found = scratch.nearest_lists.sorted();
        let visits = found.map(|(distance, list)| (list as u32, distance));
        scratch.visits.extend(visits);
    }

    /// Prepares `scratch` for scans for `scratch.query`; `query` says what is wanted.
    pub(super) fn begin(&self, query: &Query, scratch: &mut Scratch) {
        scratch
            .best
            .begin(query.k().min(self.lists.rows()), query.requested_radius());
        match &self.coding {
            Coding::Plain(_) => {}
            // What a scan of any list needs, so that only lists of residuals need something of their own.
            Coding::Scaled { .. } => self.shift(None, scratch),
            Coding::Product { .. } if self.by_list() => {}
            Coding::Product { bits, m, codebook } => {
                let codebook = Codebook {
                    bits: *bits,
                    m: *m,
                    values: codebook,
                };
                scratch.tables.fill(self.entry(), &scratch.query, codebook);
            }
        }
    }

    /// Scans `list`, whose centroid is at `distance`, for the nearest rows.
    pub(super) fn scan(
        &self,
        query: &Query,
        list: usize,
        distance: f32,
        scratch: &mut Scratch,
        work: &mut Work,
    ) {
        let (rows, ids) = self.lists.list(list);
        if rows.rows == 0 {
            return;
        }
        work.add_bytes((rows.rows * self.lists.row_bytes()) as u64);
        if self.by_list() {
            self.shift(Some(list), scratch);
        }
        let bound = scratch.best.bound();
        let clamp = self.metric == Metric::Cosine;
        let mut offers = Offers::new(&mut scratch.best, ids, query, clamp);
        let product = Form::Product {
            start: self.start(distance),
        };
        match (&self.coding, self.metric) {
            (Coding::Plain(cell), metric) => {
                let (form, from) = match metric {
                    Metric::L2 if self.residual => (Form::SquaredL2, &scratch.shifted),
                    Metric::L2 => (Form::SquaredL2, &scratch.query),
                    Metric::Cosine | Metric::InnerProduct => (product, &scratch.query),
                };
                kernel::scan(*cell, form, from, rows, bound, &mut offers);
            }
            (Coding::Scaled { step, .. }, Metric::L2) => {
                let form = Form::ScaledL2(step);
                kernel::scan(Cell::U8, form, &scratch.shifted, rows, bound, &mut offers);
            }
            (Coding::Scaled { base, .. }, Metric::Cosine | Metric::InnerProduct) => {
                let base = crate::metric::dot(&scratch.query, base);
                let start = self.start(distance) - base;
                let form = Form::Product { start };
                kernel::scan(Cell::U8, form, &scratch.shifted, rows, bound, &mut offers);
            }
            (Coding::Product { bits, .. }, metric) => {
                let start = match metric {
                    Metric::L2 => 0.0,
                    Metric::Cosine | Metric::InnerProduct => self.start(distance),
                };
                let tables = &mut scratch.tables;
                kernel::scan_codes(*bits, tables, start, rows, bound, &mut offers);
            }
        }
    }

    /// Whether each list needs a query of its own.
    fn by_list(&self) -> bool {
        self.residual && self.metric == Metric::L2
    }

    fn entry(&self) -> Entry {
        match self.metric {
            Metric::L2 => Entry::SquaredL2,
            Metric::Cosine | Metric::InnerProduct => Entry::Product,
        }
    }

    /// What products are taken off, in a list whose centroid is at `distance`: minus their product.
    fn start(&self, distance: f32) -> f32 {
        let start = match self.metric {
            Metric::Cosine => 1.0,
            Metric::L2 | Metric::InnerProduct => 0.0,
        };
        if self.residual {
            start + distance
        } else {
            start
        }
    }

    /// The query as the codes of `list` are compared with it, or those of any list.
    fn shift(&self, list: Option<usize>, scratch: &mut Scratch) {
        let Scratch {
            query,
            shifted,
            tables,
            ..
        } = scratch;
        shifted.clear();
        shifted.extend_from_slice(query);
        if let Some(list) = list {
            let centroid = self.centroids.row(list);
            shifted.iter_mut().zip(centroid).for_each(|(q, c)| *q -= c);
        }
        match &self.coding {
            Coding::Plain(_) => {}
            Coding::Scaled { base, step } => match self.metric {
                Metric::L2 => shifted.iter_mut().zip(base).for_each(|(q, b)| *q -= b),
                Metric::Cosine | Metric::InnerProduct => {
                    shifted.iter_mut().zip(step).for_each(|(q, s)| *q *= s);
                }
            },
            Coding::Product { bits, m, codebook } => {
                let codebook = Codebook {
                    bits: *bits,
                    m: *m,
                    values: codebook,
                };
                tables.fill(self.entry(), shifted, codebook);
            }
        }
    }
}

/// The middles of the lists, in blocks to be searched, and row by row where residuals are taken.
#[derive(Debug)]
pub(super) struct Centroids {
    dim: usize,
    count: usize,
    blocks: Vec<u8>,
    rows: Vec<f32>,
}

impl Centroids {
    /// Of `rows`, `[n][dim]`, `dim >= 1`; `by_row` if [`Centroids::row`] will be called.
    pub(super) fn new(rows: Vec<f32>, dim: usize, by_row: bool) -> Self {
        let bytes: Vec<u8> = rows.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let mut blocks = vec![0; bytes.len() + SLACK];
        let row_bytes = dim * size_of::<f32>();
        pack(
            &bytes,
            row_bytes,
            size_of::<f32>(),
            &mut blocks[..bytes.len()],
        );
        Self {
            dim,
            count: rows.len() / dim,
            blocks,
            rows: if by_row { rows } else { Vec::new() },
        }
    }

    fn list(&self) -> List<'_> {
        List {
            codes: &self.blocks,
            rows: self.count,
        }
    }

    fn row(&self, list: usize) -> &[f32] {
        &self.rows[list * self.dim..][..self.dim]
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.blocks.len() + size_of_val(&self.rows[..])) as u64
    }
}
