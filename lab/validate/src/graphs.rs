//! Graphs whose own searches the simulator makes.

use std::path::Path;

use chiplet::Table as _;
use chiplet::index::{HnswConfig, HnswTable};
use chiplet_caches::tables;
use chiplet_sim::trace::Walks;
use chiplet_sim::{Asking, Prepared, Table, Workload};

/// Graphs, and what their searches read.
pub struct Searched {
    /// For the simulator.
    pub prepared: Prepared,
    /// Rows that a search compares on average.
    pub rows: f64,
}

/// The first `count` graphs that `chiplet-caches tables` has saved, asked for what was saved with them.
///
/// # Errors
/// If they cannot be read.
pub fn prepare(folder: &Path, count: usize, ef: usize, skew: f64) -> anyhow::Result<Searched> {
    let graphs = (0..count).map(|table| {
        let graph = tables::map_graph(folder, table)?;
        let asked = tables::read_queries(folder, table, graph.dim())?;
        Ok((graph, asked))
    });
    recorded(graphs, ef, skew)
}

/// The searches of graphs for so many queries each, and traffic over them whose skew over graphs is `skew`.
///
/// # Errors
/// The first of `graphs`.
pub fn recorded(
    graphs: impl Iterator<Item = anyhow::Result<(HnswTable, Vec<Vec<f32>>)>>,
    ef: usize,
    skew: f64,
) -> anyhow::Result<Searched> {
    let (mut shapes, mut walks, mut queries) = (Vec::new(), Vec::new(), 0);
    for graph in graphs {
        let (graph, asked) = graph?;
        queries = asked.len();
        walks.push(Walks::of(&graph, asked.iter().map(|query| &query[..]), ef));
        shapes.push(Table::Graph {
            rows: graph.len() as u64,
            dim: graph.dim() as u32,
            m: HnswConfig::DEFAULT_M as u32,
            k: ef,
            ef,
            rows_as: graph.row_format(),
            rerank: None,
            scoring: None,
        });
    }
    let workload = Workload {
        name: "recorded".to_owned(),
        tables: shapes,
        table_skew: skew,
        query_skew: 0.0,
        queries,
        topics: None,
        hot_share: 0.0,
        copies: 1,
        asking: Asking::default(),
    };
    let all = walks.iter().flat_map(|walks| &walks.walks);
    let compared: usize = all.clone().map(|walk| walk.rows.len()).sum();
    Ok(Searched {
        prepared: Prepared::recorded(workload, &walks),
        rows: compared as f64 / all.count() as f64,
    })
}
