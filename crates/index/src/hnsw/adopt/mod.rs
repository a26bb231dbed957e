//! Graphs that another library built: checked once, then frozen like a graph of our own.
//!
//! | file | takes |
//! |---|---|
//! | `mod` | a [`Graph`], which a user of any library can fill |
//! | `hnswlib` | files of hnswlib |
//! | `dump` | files of hnsw_rs |
//! | `points` | links as hnsw_rs has them |
//! | `hnsw_rs`, `distance` | a graph of hnsw_rs in memory (feature `hnsw_rs`) |
//! | `room` | how much room lists of links get |
//!
//! What a search relies on is checked here, for all of them, in [`Graph::check`]: the entry is on the highest layer,
//! and a link on a layer leads to a row of that layer.

#[cfg(feature = "hnsw_rs")]
mod distance;
mod dump;
#[cfg(feature = "hnsw_rs")]
mod hnsw_rs;
mod hnswlib;
mod points;
mod room;

use std::cmp::Reverse;

use super::build::Links;
use super::config::HnswConfig;
use super::frozen::Frozen;
use super::walk::NONE;
use super::{HnswTable, choose, config, order};
use crate::error::{BuildError, bad_graph};
use crate::ids::{check_count, is_wide};
use crate::progress::Watch;
use crate::{reserve, rows};
use room::Room;

#[cfg(feature = "hnsw_rs")]
pub use distance::{Cosine, GraphDistance, InnerProduct, SquaredL2};

/// Layers that a graph may have. With two links a row, the fewest that thin out, 2^64 rows would have 64.
const MAX_LAYERS: usize = 64;

/// The links of a graph that was built elsewhere, for [`HnswTable::from_graph`].
///
/// Any library's graph fits that is searched from one entry down its layers. One without layers has one list for each
/// row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The row that a search begins at. It is on the highest layer.
    pub entry: u32,
    /// `links[row][layer]`: the rows that `row` links to on `layer`, of which 0 is the ground layer, the one that all
    /// rows are on. A row is on as many layers as it has lists, on at least one and at most 64.
    pub links: Vec<Vec<Vec<u32>>>,
}

impl HnswTable {
    /// A table of `rows` (`[n][dim]`, one after the other) with the links of `graph`; ids are row numbers.
    ///
    /// Of `config` everything counts but the settings of a build (`m`, `ef_construction`, `threads`, `cpus`). Under
    /// [`Metric::Cosine`](crate::Metric::Cosine) rows are scaled to length 1, as [`HnswTable::build`] does.
    ///
    /// ```
    /// use chiplet_table::{Query, Table, Context};
    /// use chiplet_index::hnsw::Graph;
    /// use chiplet_index::{HnswConfig, HnswTable, Metric};
    ///
    /// // A line: each row is linked to those beside it.
    /// let rows: Vec<f32> = (0..100).map(|x| x as f32).collect();
    /// let beside = |row: u32| vec![vec![row.saturating_sub(1), (row + 1).min(99)]];
    /// let graph = Graph { entry: 50, links: (0..100).map(beside).collect() };
    /// let table = HnswTable::from_graph(&rows, 1, &graph, &HnswConfig::new(Metric::L2))?;
    /// let hits = table.search(&Query::new([7.2]).top(3).ef(8), &mut Context::default())?;
    /// assert_eq!(hits.iter().map(|hit| hit.id).collect::<Vec<_>>(), [7, 8, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Graph`] for links that no search can follow; for rows and settings as [`HnswTable::build`].
    pub fn from_graph(
        rows: &[f32],
        dim: usize,
        graph: &Graph,
        config: &HnswConfig,
    ) -> Result<Self, BuildError> {
        Self::import(rows, dim, graph, config, |row| row as u64)
    }

    /// [`HnswTable::from_graph`] with an id for each row. They need not differ.
    ///
    /// # Errors
    /// As [`HnswTable::from_graph`]; [`BuildError::IdCount`].
    pub fn from_graph_with_ids(
        rows: &[f32],
        dim: usize,
        ids: &[u64],
        graph: &Graph,
        config: &HnswConfig,
    ) -> Result<Self, BuildError> {
        check_count(ids, rows::count(rows, dim)?)?;
        Self::import(rows, dim, graph, config, |row| ids[row])
    }

    fn import(
        rows: &[f32],
        dim: usize,
        graph: &Graph,
        config: &HnswConfig,
        id: impl Fn(usize) -> u64,
    ) -> Result<Self, BuildError> {
        let watch = &Watch::none();
        rows::check(rows, dim, config.metric, watch)?;
        let prepared = rows::prepared(rows, dim, config.metric, watch)?;
        Self::adopt(&prepared, dim, graph, Descent::Greedy, config, id)
    }

    /// A table of `rows` that were checked and are as the metric compares them.
    fn adopt(
        rows: &[f32],
        dim: usize,
        graph: &Graph,
        descent: Descent,
        config: &HnswConfig,
        id: impl Fn(usize) -> u64,
    ) -> Result<Self, BuildError> {
        config.check()?;
        let watch = &Watch::none();
        let wide = (0..rows.len() / dim).any(|row| is_wide(id(row)));
        let config = &choose::fitted(config, rows, dim, wide, watch)?;
        config::check(rows, dim, config, watch)?;
        graph.check(rows.len() / dim)?;
        let mut links = graph.to_links()?;
        links.one_look = matches!(descent, Descent::OneLook);
        let order = order::order(&links, config.reorder, watch)?;
        let graph = Frozen::new(&links, rows, dim, config, &order, id, watch)?;
        Ok(Self { graph })
    }
}

/// How a search goes through the higher layers.
#[derive(Clone, Copy)]
enum Descent {
    /// On to nearer rows for as long as there are any (arXiv 1603.09320, algorithm 2 with `ef` 1).
    Greedy,
    /// To the nearest row of one list of links, then down: what hnsw_rs does.
    OneLook,
}

impl Graph {
    /// Checks what a search of `rows` rows relies on.
    fn check(&self, rows: usize) -> Result<(), BuildError> {
        let lists = self.links.len();
        if lists != rows {
            return Err(bad_graph(format!(
                "the graph links {lists} rows, but {rows} were passed"
            )));
        }
        if rows == 0 {
            return Ok(());
        }
        let entry = self.entry;
        let Some(top) = self.links.get(entry as usize).map(Vec::len) else {
            return Err(bad_graph(format!(
                "the entry is row {entry}, but there are {rows} rows, counted from 0"
            )));
        };
        for (row, layers) in self.links.iter().enumerate() {
            let on = layers.len();
            if on == 0 || on > MAX_LAYERS {
                return Err(bad_graph(format!(
                    "row {row} is on {on} layers; give each row a list of links for 1 to {MAX_LAYERS} layers, if only an \
                     empty one"
                )));
            }
            if on > top {
                return Err(bad_graph(format!(
                    "row {row} is on {on} layers, the entry, row {entry}, on {top}; the entry must be on the highest"
                )));
            }
            for (layer, list) in layers.iter().enumerate() {
                for &link in list {
                    let bad_link = |why: &str| {
                        bad_graph(format!(
                            "row {row} links on layer {layer} to row {link}, {why}"
                        ))
                    };
                    let Some(target) = self.links.get(link as usize) else {
                        let why = format!("but there are {rows} rows, counted from 0");
                        return Err(bad_link(&why));
                    };
                    if target.len() <= layer {
                        return Err(bad_link("which is not on that layer"));
                    }
                }
            }
        }
        Ok(())
    }

    /// The same links between nodes, numbered from the highest layer down, the entry first.
    fn to_links(&self) -> Result<Links, BuildError> {
        let on = |row: u32| self.links[row as usize].len();
        let mut rows: Vec<u32> = (0..self.links.len() as u32).collect();
        rows.sort_by_key(|&row| (Reverse(on(row)), row != self.entry));
        let mut node_of = vec![0; rows.len()];
        for (&row, node) in rows.iter().zip(0..) {
            node_of[row as usize] = node;
        }
        let Room {
            ground_stride,
            stride,
        } = Room::of(&self.links)?;
        let top = rows.first().map_or(1, |&row| on(row));
        let layers = (0..top).map(|layer| {
            let stride = if layer == 0 { ground_stride } else { stride };
            let nodes = rows.partition_point(|&row| on(row) > layer);
            let mut links = reserve::filled(nodes * stride, || NONE)?;
            for (out, &row) in links.chunks_exact_mut(stride).zip(&rows) {
                for (out, &link) in out.iter_mut().zip(&self.links[row as usize][layer]) {
                    *out = node_of[link as usize];
                }
            }
            Ok(links)
        });
        let layers = layers.collect::<Result<_, BuildError>>()?;
        Ok(Links {
            layers,
            rows,
            ground_stride,
            stride,
            one_look: false,
            one_by_one: true,
            copies: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests;
