//! A usearch graph as a table: a second graph index, so that no claim rests on our own alone.

use anyhow::Context as _;
use chiplet_bench::workload::dataset::VectorSet;
use chiplet_index::Metric;
use chiplet_table::hnsw_query_bytes;
use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

/// Links a node, as in `HnswConfig`, so that both graphs are alike.
const M: usize = 16;

pub(crate) struct UsearchTable {
    index: Index,
    /// The candidate list length is a setting of the whole index, not of a query.
    ef: usize,
}

impl UsearchTable {
    pub(crate) fn build(rows: &VectorSet, metric: Metric, ef: usize) -> anyhow::Result<Self> {
        let index = Index::new(&IndexOptions {
            dimensions: rows.dim(),
            metric: match metric {
                Metric::L2 => MetricKind::L2sq,
                Metric::Cosine => MetricKind::Cos,
                Metric::InnerProduct => MetricKind::IP,
            },
            quantization: ScalarKind::F32,
            connectivity: M,
            expansion_add: 200,
            expansion_search: ef,
            ..IndexOptions::default()
        })
        .context("usearch")?;
        // A slot for each thread that may ever search at once, in any of the pools.
        let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from) + 64;
        index
            .reserve_capacity_and_threads(rows.len(), threads)
            .context("usearch")?;
        for (id, row) in rows.rows().enumerate() {
            index.add(id as u64, row).context("usearch")?;
        }
        Ok(Self { index, ef })
    }
}

impl Table for UsearchTable {
    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.index.dimensions())?;
        let found = self
            .index
            .search(query.vector(), query.k())
            .map_err(|error| SearchError::Backend(error.to_string()))?;
        // usearch does not say what it visited: about every link of every candidate, as an upper estimate.
        let visited = (self.ef.max(query.k()) * M) as u64;
        let bytes = (self.index.dimensions() * size_of::<f32>()) as u64;
        context.add_bytes(hnsw_query_bytes(visited, bytes, 4 * M as u64));
        Ok(found
            .keys
            .into_iter()
            .zip(found.distances)
            .map(|(id, distance)| Neighbor { id, distance })
            .collect())
    }

    fn dim(&self) -> usize {
        self.index.dimensions()
    }

    fn len(&self) -> usize {
        self.index.size()
    }

    fn size_bytes(&self) -> u64 {
        self.index.memory_usage() as u64
    }
}
