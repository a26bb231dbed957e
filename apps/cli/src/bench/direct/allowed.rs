//! The rows that `--filter` allows, and recall among them.

use anyhow::ensure;
use chiplet_bench::workload::dataset::VectorSet;
use chiplet_bench::workload::truth::Truth;
use chiplet_table::{Filter, Query};

use super::super::arguments::Arguments;
use super::super::dataset::Dataset;

/// The exact neighbours of the queries, among all rows or among those allowed.
pub(super) struct Allowed {
    truth: Truth,
    /// With `--filter`: the allowed rows' numbers, ascending, and the filter that all queries have.
    chosen: Option<(Vec<u32>, Filter)>,
}

impl Allowed {
    pub(super) fn find(arguments: &Arguments, source: &Dataset) -> anyhow::Result<Self> {
        let rows = &source.vectors;
        // Recall is of all that is asked for, as in other comparisons of libraries.
        let k = arguments.k as usize;
        let Some(percent) = arguments.direct.filter else {
            let truth = source.truth(arguments, rows, k, true)?;
            return Ok(Self {
                truth,
                chosen: None,
            });
        };
        let chosen: Vec<u32> = (0..rows.len() as u32)
            .filter(|&row| is_chosen(row, arguments.seed, percent / 100.0))
            .collect();
        ensure!(
            chosen.len() >= arguments.k as usize,
            "--filter {percent}: allows {} of {} rows, and --k asks for {}",
            chosen.len(),
            rows.len(),
            arguments.k
        );
        let mut values = Vec::with_capacity(chosen.len() * rows.dim());
        for &row in &chosen {
            values.extend_from_slice(&rows.as_slice()[row as usize * rows.dim()..][..rows.dim()]);
        }
        let truth = source.truth(arguments, &VectorSet::new(values, rows.dim())?, k, true)?;
        let filter = Filter::ids(chosen.iter().copied().map(u64::from));
        Ok(Self {
            truth,
            chosen: Some((chosen, filter)),
        })
    }

    /// `query` with the filter, if there is one.
    pub(super) fn ask(&self, query: Query) -> Query {
        match &self.chosen {
            Some((_, filter)) => query.filter(filter.clone()),
            None => query,
        }
    }

    /// recall@k of an answer to query `number`.
    pub(super) fn recall(&self, number: usize, found: impl Iterator<Item = u32>) -> f64 {
        match &self.chosen {
            None => self.truth.recall(number, found),
            // The truth numbers the allowed rows from 0 on. A row that is not allowed counts as wrong.
            Some((chosen, _)) => {
                let place = |row| chosen.binary_search(&row).map_or(u32::MAX, |at| at as u32);
                self.truth.recall(number, found.map(place))
            }
        }
    }
}

/// Whether `row` is one of about `share` of the rows, spread evenly over them: a Weyl sequence.
fn is_chosen(row: u32, seed: u64, share: f64) -> bool {
    let place = (u64::from(row) ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    place as f64 / u64::MAX as f64 <= share
}

#[cfg(test)]
mod tests {
    use super::is_chosen;

    #[test]
    fn about_the_share_of_the_rows_is_chosen() {
        for share in [0.01, 0.1, 0.5, 1.0] {
            let chosen = (0..100_000).filter(|&row| is_chosen(row, 7, share)).count();
            let expected = share * 100_000.0;
            assert!(
                (chosen as f64 - expected).abs() < 0.02 * expected,
                "{share}: {chosen}"
            );
        }
    }
}
