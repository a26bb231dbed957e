//! What a core computes, without any wait for memory: measured on a host.

use std::hint::black_box;
use std::time::{Duration, Instant};

use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, RowFormat};
use chiplet_table::{Context, Query, Table};
use serde::Serialize;

use chiplet_recipes::mix;

/// Lists of 8-bit codes are scanned at 23 GB/s where [`Compute::scan_gbs`] is 28. On such a machine the list kernels
/// take 23 to 25 GB/s of codes from an L2, 49 to 54 of `f16` and `bf16`, 82 of `f32`: about as many rows (2026-11-23).
const CODES: f64 = 23.0 / 28.0;

/// Time of one core with everything in its L2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compute {
    /// Nanoseconds of a graph walk for each row that it compares, beside the components.
    pub row_ns: f64,
    /// Nanoseconds for each component of such a row.
    pub component_ns: f64,
    /// GB/s at which a core compares the rows of a list.
    pub scan_gbs: f64,
}

impl Default for Compute {
    /// Measured on a 2-core Intel cloud machine (AVX-512, L2 of 2 MiB, 2026-11-22): `chiplet-simulate --calibrate`.
    fn default() -> Self {
        Self {
            row_ns: 17.0,
            component_ns: 0.044,
            scan_gbs: 28.0,
        }
    }
}

impl Compute {
    /// Measures this machine, for about a second.
    pub fn measure() -> Self {
        let [short, long] = [32, 256].map(|dim| (dim as f64, row_ns(dim)));
        let component_ns = ((long.1 - short.1) / (long.0 - short.0)).max(0.0);
        Self {
            row_ns: (short.1 - short.0 * component_ns).max(1.0),
            component_ns,
            scan_gbs: scan_gbs(),
        }
    }

    /// GB/s at which a core compares the rows of a list that are kept so.
    pub(crate) fn scan(&self, rows_as: RowFormat) -> f64 {
        match rows_as {
            RowFormat::Sq8 => CODES * self.scan_gbs,
            _ => self.scan_gbs,
        }
    }

    /// Nanoseconds of a graph walk for each row, whatever its format: from an L2 they differ by up to
    /// 5 % at 64 to 256 components, but for codes of 256, which take 0.85 of the time.
    pub(crate) fn row(&self, dim: u32) -> f64 {
        self.row_ns + f64::from(dim) * self.component_ns
    }
}

/// Made-up components.
fn values(count: usize) -> Vec<f32> {
    (0..count as u64)
        .map(|at| (mix(at) >> 40) as f32 / (1 << 24) as f32)
        .collect()
}

/// The fastest of some rounds of `round`.
fn best(mut round: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(200) {
        let round_began = Instant::now();
        round();
        best = best.min(round_began.elapsed());
    }
    best
}

/// Nanoseconds of a walk for each row, of a graph that an L2 holds.
fn row_ns(dim: usize) -> f64 {
    const ROWS: usize = 500;
    let rows = values(ROWS * dim);
    let config = HnswConfig::new(Metric::L2).m(16).ef_construction(60);
    let table = HnswTable::build(&rows, dim, &config).expect("finite rows are accepted");
    let queries: Vec<&[f32]> = rows.chunks(dim).step_by(25).collect();
    let mut compared = 0_u64;
    for query in &queries {
        let counted = table.search_observed(query, 10, 40, &mut |read| {
            compared += u64::from(read.part == chiplet_index::Part::Rows);
        });
        black_box(counted.expect("the query is one of its rows"));
    }
    let mut context = Context::default();
    let time = best(|| {
        for query in &queries {
            let query = Query::new(query.to_vec()).top(10).ef(40);
            black_box(table.search(&query, &mut context).expect("asked before"));
        }
    });
    time.as_nanos() as f64 / compared as f64
}

/// GB/s of a search that looks at every row, of rows that an L2 holds.
fn scan_gbs() -> f64 {
    const DIM: usize = 128;
    let rows = values(1_000 * DIM);
    let table = FlatTable::build(&rows, DIM, Metric::L2).expect("finite rows are accepted");
    let query = Query::new(&rows[..DIM]).top(100);
    let mut context = Context::default();
    let time = best(|| {
        black_box(
            table
                .search(&query, &mut context)
                .expect("a row is a query"),
        );
    });
    (4 * rows.len()) as f64 / time.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_a_number_of_the_right_size() {
        let measured = Compute::measure();
        assert!((1.0..10_000.0).contains(&measured.row(64)), "{measured:?}");
        assert!((0.01..1_000.0).contains(&measured.scan_gbs), "{measured:?}");
    }
}
