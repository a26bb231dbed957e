//! A table of any kind.

use chiplet_table::{Context, Neighbor, Query, SearchError, SplitTable, Table};

use crate::flat::FlatTable;
use crate::hnsw::HnswTable;
use crate::ivf::IvfTable;

/// A table of whichever kind was found.
#[non_exhaustive]
pub enum AnyTable {
    /// Exact search.
    Flat(FlatTable),
    /// A graph.
    Hnsw(HnswTable),
    /// Inverted lists.
    Ivf(IvfTable),
}

impl AnyTable {
    fn table(&self) -> &dyn Table {
        match self {
            Self::Flat(table) => table,
            Self::Hnsw(table) => table,
            Self::Ivf(table) => table,
        }
    }
}

impl Table for AnyTable {
    fn dim(&self) -> usize {
        self.table().dim()
    }

    fn len(&self) -> usize {
        self.table().len()
    }

    fn size_bytes(&self) -> u64 {
        self.table().size_bytes()
    }

    fn residence(&self) -> Vec<(u32, u64)> {
        self.table().residence()
    }

    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        self.table().copy_to(nodes, pace)
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        self.table().search(query, context)
    }

    fn search_batch(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Vec<Result<Vec<Neighbor>, SearchError>> {
        self.table().search_batch(queries, context)
    }

    fn batch_size(&self) -> usize {
        self.table().batch_size()
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        self.table().as_split()
    }
}
