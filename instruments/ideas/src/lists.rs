//! Inverted lists of real and of drawn vectors: a k-means.

use std::path::Path;

use chiplet_index::{FlatTable, Metric};
use chiplet_table::{Context, Query, Table as _};
use chiplet_workload::dataset::{Clusters, GloveSample, VectorSet};

pub type Error = Box<dyn std::error::Error>;

/// The committed sample: 30,000 words.
pub fn glove() -> Result<VectorSet, Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets");
    Ok(GloveSample::read(folder.join(GloveSample::FOLDER))?
        .vectors
        .normalized())
}

pub fn drawn() -> VectorSet {
    VectorSet::clusters(&Clusters {
        rows: 60_000,
        dim: 64,
        centres: 400,
        spread: 0.8,
        seed: 1,
    })
}

/// A k-means and its lists.
pub struct Lists {
    pub centroids: VectorSet,
    pub members: Vec<Vec<u32>>,
    /// The centroids, to be searched.
    pub table: FlatTable,
}

impl Lists {
    /// As many lists as `Recipe` gives a table of that size.
    pub fn build(rows: &VectorSet, seed: u64) -> Result<Self, Error> {
        let count = ((4.0 * (rows.len() as f64).sqrt()) as usize).next_power_of_two();
        Self::means(rows, count, seed)
    }

    /// So many.
    pub fn means(rows: &VectorSet, count: usize, seed: u64) -> Result<Self, Error> {
        let step = rows.len() / count;
        let first: Vec<usize> = (0..count)
            .map(|list| list * step + seed as usize % step)
            .collect();
        let mut lists = Self::around(rows, rows.select(&first))?;
        for _ in 0..8 {
            let mut sums = vec![0.0_f32; count * rows.dim()];
            for (list, members) in lists.members.iter().enumerate() {
                let sum = &mut sums[list * rows.dim()..][..rows.dim()];
                for &row in members {
                    let values = sum.iter_mut().zip(rows.row(row as usize));
                    values.for_each(|(sum, value)| *sum += value / members.len() as f32);
                }
                if members.is_empty() {
                    sum.copy_from_slice(lists.centroids.row(list));
                }
            }
            lists = Self::around(rows, VectorSet::new(sums, rows.dim())?)?;
        }
        Ok(lists)
    }

    pub fn around(rows: &VectorSet, centroids: VectorSet) -> Result<Self, Error> {
        let table = FlatTable::build(centroids.as_slice(), rows.dim(), Metric::L2)?;
        let mut members = vec![Vec::new(); centroids.len()];
        let mut context = Context::default();
        for (row, number) in rows.rows().zip(0_u32..) {
            let nearest = table.search(&Query::new(row).top(1), &mut context)?;
            members[nearest[0].id as usize].push(number);
        }
        Ok(Self {
            centroids,
            members,
            table,
        })
    }
}
