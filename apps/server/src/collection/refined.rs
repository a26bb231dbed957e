//! Exact distances over an index of codes: its candidates are compared with the rows that it was built of, which the
//! collection keeps anyway.

use std::sync::Arc;

use chiplet::index::{ExactRows, Metric, Refined, RowFormat};
use chiplet::{Context, Neighbor, Query, SearchError, SplitTable, Table};

/// Rows that are compared before it is asked again whether anybody waits.
const AT_ONCE: usize = 256;

/// Candidates that are compared for `k` results.
pub(crate) fn candidates(k: usize) -> usize {
    // What `Refined` asks for, whatever the codes are.
    RowFormat::Sq4.reranked(k)
}

/// `index`, whose answers are compared with `vectors`: the rows that it was built of, in its order. They never change:
/// a point that is written anew has another row.
pub(super) fn refined(
    index: Arc<dyn Table>,
    vectors: Arc<Vec<f32>>,
    metric: Metric,
) -> Arc<dyn Table> {
    let rows = BaseRows {
        vectors,
        dim: index.dim(),
        metric,
    };
    // They have the index' own dimension.
    Arc::new(Refined::new(Coarse(index), rows).expect("one dimension"))
}

/// The rows of a base.
struct BaseRows {
    vectors: Arc<Vec<f32>>,
    dim: usize,
    metric: Metric,
}

impl ExactRows for BaseRows {
    fn dim(&self) -> usize {
        self.dim
    }

    fn metric(&self) -> Metric {
        self.metric
    }

    /// Nothing: they are counted with the points.
    fn size_bytes(&self) -> u64 {
        0
    }

    fn distances(
        &self,
        query: &[f32],
        ids: &[u64],
        distances: &mut [f32],
        context: &mut Context,
    ) -> Result<(), SearchError> {
        let rows = self.vectors.len() / self.dim;
        for (ids, distances) in ids.chunks(AT_ONCE).zip(distances.chunks_mut(AT_ONCE)) {
            context.check()?;
            for (&id, distance) in ids.iter().zip(distances) {
                let row = usize::try_from(id).ok().filter(|&row| row < rows);
                let row = row.ok_or_else(|| {
                    SearchError::Backend(format!("the index names row {id} of {rows}"))
                })?;
                let vector = &self.vectors[row * self.dim..][..self.dim];
                *distance = self.metric.distance(query, vector);
            }
            context.add_bytes((ids.len() * self.dim * size_of::<f32>()) as u64);
        }
        Ok(())
    }
}

/// An index that others hold too: who saves it.
struct Coarse(Arc<dyn Table>);

impl Table for Coarse {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn residence(&self) -> Vec<(u32, u64)> {
        self.0.residence()
    }

    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        self.0.copy_to(nodes, pace)
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        self.0.search(query, context)
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        self.0.as_split()
    }
}
