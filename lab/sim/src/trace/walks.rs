//! Walks of a real graph, recorded.

use chiplet_index::{HnswConfig, HnswTable, Metric, Part, RowFormat};
use chiplet_table::Table as _;
use chiplet_workload::dataset::{Clusters, VectorSet};
use rustc_hash::FxHashSet;

use super::queries;
use crate::workload::Topics;

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recording {
    /// Rows of the graph.
    pub rows: usize,
    /// Components of a row.
    pub dim: usize,
    /// M of the graph.
    pub m: usize,
    /// Different queries, drawn anywhere.
    pub queries: usize,
    /// Topics whose queries are recorded after them.
    pub topics: Option<Topics>,
    /// Same seed, same rows and queries.
    pub seed: u64,
}

/// What one search read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The nodes whose rows were compared, in that order.
    pub rows: Vec<u32>,
    /// The nodes whose links were read, in that order.
    pub links: Vec<u32>,
    /// The nodes of its candidates, nearest first. Empty if the table that was searched does not re-rank.
    pub nearest: Vec<u32>,
}

/// What many searches of one graph read, with one number of candidates.
#[derive(Clone, Debug)]
pub struct Walks {
    /// Nodes of the graph.
    pub nodes: usize,
    /// Candidates of each search.
    pub ef: usize,
    /// One for each query: first those drawn anywhere, then those of topics.
    pub walks: Vec<Walk>,
    /// How many are drawn anywhere.
    pub anywhere: usize,
}

impl Recording {
    /// Builds the graph and records each of its searches with each of `efs`.
    ///
    /// Rows and queries are drawn from the same overlapping clusters. The graph is built by one thread, so the same
    /// recording is the same walks.
    pub fn walks(&self, efs: &[usize]) -> Vec<Walks> {
        let set = VectorSet::clusters(&Clusters {
            rows: self.rows + queries::to_draw(self.queries, self.topics),
            dim: self.dim,
            centres: 200,
            spread: 1.0,
            seed: self.seed,
        });
        let (rows, drawn) = set.as_slice().split_at(self.rows * self.dim);
        let queries = queries::recorded(drawn, self.dim, self.queries, self.topics);
        let config = HnswConfig::new(Metric::L2).m(self.m).ef_construction(100);
        // With rows as they are in both copies: walks are the same, and candidates are told.
        let config = config.rerank(RowFormat::F32);
        let table = HnswTable::build(rows, self.dim, &config)
            .expect("finite rows of one length are accepted");
        let record = |&ef: &usize| Walks {
            anywhere: self.queries,
            ..Walks::of(&table, queries.chunks(self.dim), ef)
        };
        efs.iter().map(record).collect()
    }
}

impl Walks {
    /// Records what searches of a table read. They are for 10 rows each, or if the table re-ranks for so many that all
    /// candidates are; for how many has no influence on a walk.
    ///
    /// # Panics
    /// If a query is not of the table's dimension, or not finite.
    pub fn of<'a>(
        table: &HnswTable,
        queries: impl IntoIterator<Item = &'a [f32]>,
        ef: usize,
    ) -> Self {
        let queries: Vec<&[f32]> = queries.into_iter().collect();
        let walks = queries.iter().map(|query| record(table, query, ef));
        Self {
            nodes: table.len(),
            ef,
            anywhere: queries.len(),
            walks: walks.collect(),
        }
    }

    /// The part of a walk's rows that another walk of its topic compares, too, on average over neighbours; `None`
    /// without topics.
    pub(super) fn in_common(&self) -> Option<f64> {
        let of_topics = &self.walks[self.anywhere..];
        // Two at the border of two topics are one pair of a hundred.
        let pairs = of_topics.windows(2);
        let parts: Vec<f64> = pairs
            .map(|pair| {
                let rows: FxHashSet<u32> = pair[0].rows.iter().copied().collect();
                let both = pair[1].rows.iter().filter(|row| rows.contains(row)).count();
                both as f64 / pair[1].rows.len().max(1) as f64
            })
            .collect();
        (!parts.is_empty()).then(|| parts.iter().sum::<f64>() / parts.len() as f64)
    }
}

fn record(table: &HnswTable, query: &[f32], ef: usize) -> Walk {
    let mut walk = Walk::default();
    let all = || (1..ef).find(|&k| table.row_format().reranked(k) >= ef);
    let k = match table.rerank_format() {
        Some(_) => all().unwrap_or(ef),
        None => 10.min(ef),
    };
    let found = table.search_observed(query, k, ef, &mut |read| {
        let node = (read.offset / u64::from(read.bytes)) as u32;
        match read.part {
            Part::Rows => walk.rows.push(node),
            // The few links above the ground are read by every query, and stay in cache.
            Part::Links | Part::Upper => walk.links.push(node),
            Part::Full => walk.nearest.push(node),
        }
    });
    found.expect("a finite query of the table's dimension is answered");
    walk
}
