//! What a search reads, for whoever models caches: the same walk, over layers and rows that tell what is read of them.
//!
//! An ordinary search is compiled without any of this; the walk is generic over what it walks.

use std::cell::RefCell;

use chiplet_table::{Context, Neighbor, Query, SearchError};

use super::HnswTable;
use super::search::{Size, with_searcher};
use super::walk::{Distances, Layer};

/// A section of a graph's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The rows that a walk compares, one after the other.
    Rows,
    /// The ground layer's links, one list after the other.
    Links,
    /// The links of the layers above.
    Upper,
    /// The rows that candidates are compared with once more ([`HnswConfig::rerank`](super::HnswConfig::rerank)).
    Full,
}

/// Bytes that a search has read: a row, or a node's list of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// Of which section.
    pub part: Part,
    /// Where they begin in it, in bytes.
    pub offset: u64,
    /// How many they are.
    pub bytes: u32,
}

impl HnswTable {
    /// Searches as [`Table::search`](chiplet_table::Table::search) does, for the `k` nearest of `ef` candidates, and
    /// tells `observer` of every row and every list of links in the order in which they are read.
    ///
    /// A scan, for very many candidates or after a walk that finds too little, is not observed.
    ///
    /// ```
    /// use chiplet_index::{HnswConfig, HnswTable, Metric, Part};
    ///
    /// let rows: Vec<f32> = (0..200).map(|x| x as f32).collect(); // 100 rows of 2
    /// let table = HnswTable::build(&rows, 2, &HnswConfig::new(Metric::L2))?;
    /// let mut compared = 0;
    /// let hits = table.search_observed(&[20.0, 21.0], 3, 32, &mut |read| {
    ///     compared += usize::from(read.part == Part::Rows);
    /// })?;
    /// assert_eq!(hits[0].id, 10);
    /// assert!(compared >= 32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As a search without it.
    #[doc(hidden)]
    pub fn search_observed(
        &self,
        vector: &[f32],
        k: usize,
        ef: usize,
        observer: &mut dyn FnMut(Read),
    ) -> Result<Vec<Neighbor>, SearchError> {
        let graph = &self.graph;
        let query = Query::new(vector.to_vec()).top(k).ef(ef);
        with_searcher(|searcher| {
            let Some(Size { k, ef, scans }) = searcher.prepare(graph, &query)? else {
                return Ok(Vec::new());
            };
            let observer = RefCell::new(observer);
            let found = !scans
                && searcher.walk_observed(graph, k, ef, &|read| (observer.borrow_mut())(read));
            let hits = searcher.answer(graph, &query, k, found, &mut Context::default())?;
            let hits = hits.to_vec();
            if found && let Some((_, rows)) = graph.full() {
                let bytes = rows.stride() as u32;
                for &node in searcher.reranked() {
                    (observer.borrow_mut())(Read {
                        part: Part::Full,
                        offset: u64::from(node) * u64::from(bytes),
                        bytes,
                    });
                }
            }
            Ok(hits)
        })
    }
}

/// A layer that tells which links are read.
pub(super) struct ObservedLayer<'a, L> {
    pub(super) layer: L,
    pub(super) part: Part,
    /// Where the layer begins in its section, and the length of a list, in bytes.
    pub(super) start: u64,
    pub(super) stride: u32,
    pub(super) observer: &'a dyn Fn(Read),
}

impl<L: Layer> Layer for ObservedLayer<'_, L> {
    fn nodes(&self) -> usize {
        self.layer.nodes()
    }

    fn step(&self) -> usize {
        self.layer.step()
    }

    fn links(&self, node: u32) -> impl Iterator<Item = u32> {
        (self.observer)(Read {
            part: self.part,
            offset: self.start + u64::from(node) * u64::from(self.stride),
            bytes: self.stride,
        });
        self.layer.links(node)
    }

    fn prefetch(&self, node: u32) {
        self.layer.prefetch(node);
    }
}

/// Distances that tell which rows are read.
pub(super) struct ObservedRows<'a, D> {
    pub(super) distances: D,
    pub(super) stride: u32,
    pub(super) observer: &'a dyn Fn(Read),
}

impl<D: Distances> Distances for ObservedRows<'_, D> {
    fn to(&self, nodes: &[u32], out: &mut [f32]) {
        for &node in nodes {
            (self.observer)(Read {
                part: Part::Rows,
                offset: u64::from(node) * u64::from(self.stride),
                bytes: self.stride,
            });
        }
        self.distances.to(nodes, out);
    }

    fn prefetch(&self, nodes: &[u32]) {
        self.distances.prefetch(nodes);
    }
}

#[cfg(test)]
mod tests {
    use chiplet_table::Table;

    use super::*;
    use crate::{HnswConfig, Metric, RowFormat};

    #[test]
    fn an_observed_search_answers_the_same_and_tells_every_row_that_it_counts() {
        let dim = 8;
        let rows: Vec<f32> = (0..2_000 * dim)
            .map(|x| ((x * 7_919) % 1_000) as f32)
            .collect();
        let plain = HnswConfig::new(Metric::L2);
        let coded = plain.clone().rows(RowFormat::Sq8).rerank(RowFormat::F32);
        for (config, reranked) in [(plain, 0), (coded, RowFormat::Sq8.reranked(10))] {
            let table = HnswTable::build(&rows, dim, &config).unwrap();
            for query in rows.chunks(dim).step_by(97) {
                let (mut of_rows, mut of_links) = (0, 0);
                let mut full = Vec::new();
                let observed = table
                    .search_observed(query, 10, 40, &mut |read| match read.part {
                        Part::Rows => of_rows += 1,
                        Part::Links | Part::Upper => of_links += 1,
                        Part::Full => {
                            assert_eq!((read.offset % 32, read.bytes), (0, 32));
                            full.push(read.offset);
                        }
                    })
                    .unwrap();
                let mut context = Context::default();
                let plain = Query::new(query.to_vec()).top(10).ef(40);
                assert_eq!(observed, table.search(&plain, &mut context).unwrap());
                assert_eq!(full.len(), reranked);
                full.sort_unstable();
                full.dedup();
                assert_eq!(full.len(), reranked, "each once");
                // The formula counts a row's links with each row; a row that is compared once more is 32 bytes.
                let stride = table.graph.rows().stride() as u64;
                let row = stride + 3 * table.graph.meta.stride as u64;
                let bytes = of_rows * row + 32 * reranked as u64;
                assert_eq!(bytes, context.bytes());
                assert!(of_links >= 40);
            }
        }
    }
}
