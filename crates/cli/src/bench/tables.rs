//! The tables of a run: an index over each part of the dataset, and the exact answers to the queries.
//!
//! Built once and shared by all strategies.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use chiplet_index::{HnswConfig, HnswTable, Pages};
use chiplet_table::{Query, Table};
use chiplet_topology::Topology;
use chiplet_workload::dataset::VectorSet;
use chiplet_workload::truth::Truth;
use indicatif::{MultiProgress, ProgressBar};
use parking_lot::Mutex;

use super::arguments::{Arguments, Graph, Kind};
use super::dataset::{self, Dataset};
use super::output::style;
use super::sizes::Caches;

/// All tables of a run.
pub(crate) struct Tables {
    pub(crate) all: Vec<BuiltTable>,
    /// Held-out vectors that every table is asked for.
    pub(crate) queries: VectorSet,
    /// Where the vectors come from, for the report.
    pub(crate) source: String,
    pub(crate) rows: usize,
    /// Tables below this number are graphs, the others inverted lists.
    pub(crate) graphs: usize,
}

/// One table.
#[derive(Default)]
pub(crate) struct BuiltTable {
    pub(crate) name: String,
    /// Of a table that was built here; none of one that was read from a file.
    pub(crate) truth: Option<Truth>,
    /// What is searched.
    main: Option<Arc<dyn Table>>,
    usearch: Option<Arc<dyn Table>>,
    /// What a file keeps, of a table that was built here.
    own: Option<Own>,
    /// The same lists, scanned by Faiss: for its own OpenMP.
    #[cfg(feature = "faiss")]
    pub(crate) faiss: Option<Arc<chiplet_index::IvfTable>>,
}

impl BuiltTable {
    /// The index to search where graphs are to be `graph`.
    pub(crate) fn index(&self, graph: Graph) -> &Arc<dyn Table> {
        let asked = match graph {
            Graph::Own => self.main.as_ref().or(self.usearch.as_ref()),
            Graph::Usearch => self.usearch.as_ref().or(self.main.as_ref()),
        };
        asked.expect("a table has at least one index: it was built or loaded")
    }

    /// Writes the index to a file.
    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        let own = self.own.as_ref();
        own.context("only chiplet's own indexes have files")?
            .save(path)
    }

    /// The table of this name, from the file that [`BuiltTable::save`] wrote; what is searched is what `over` makes of it.
    pub(crate) fn load(
        name: String,
        path: &Path,
        graph: bool,
        over: impl FnOnce(Box<dyn Table>) -> anyhow::Result<Arc<dyn Table>>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            name,
            main: Some(over(Own::load(path, graph)?)?),
            ..Self::default()
        })
    }

    fn set(&mut self, own: Own) {
        self.main = Some(own.table());
        self.own = Some(own);
    }
}

/// chiplet's own index of a table.
enum Own {
    Graph(Arc<HnswTable>),
    #[cfg(feature = "faiss")]
    Lists(Arc<chiplet_index::IvfTable>),
}

impl Own {
    fn table(&self) -> Arc<dyn Table> {
        match self {
            Self::Graph(graph) => Arc::clone(graph) as Arc<dyn Table>,
            #[cfg(feature = "faiss")]
            Self::Lists(lists) => Arc::clone(lists) as Arc<dyn Table>,
        }
    }

    fn save(&self, path: &Path) -> anyhow::Result<()> {
        match self {
            Self::Graph(graph) => graph.save(path)?,
            #[cfg(feature = "faiss")]
            Self::Lists(lists) => lists.save(path)?,
        }
        Ok(())
    }

    fn load(path: &Path, graph: bool) -> anyhow::Result<Box<dyn Table>> {
        if graph {
            return Ok(Box::new(HnswTable::load(path, Pages::default())?));
        }
        #[cfg(feature = "faiss")]
        {
            let table = chiplet_index::IvfTable::load(path, Pages::default())?;
            Ok(Box::new(table))
        }
        #[cfg(not(feature = "faiss"))]
        anyhow::bail!("inverted lists need a chiplet that was built with --features faiss")
    }
}

impl Tables {
    /// Reads the dataset and builds all tables, as many at once as there are cores. Ends early if `stop` is set.
    pub(crate) fn build(
        arguments: &Arguments,
        bars: &MultiProgress,
        stop: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let source = dataset::read(arguments)?;
        let tables = arguments.tables() as usize;
        let rows = source.vectors.len() / tables;
        ensure!(
            rows >= 2,
            "{} vectors for {tables} tables: give fewer --tables",
            source.vectors.len()
        );
        let graphs = match arguments.kind {
            Kind::Hnsw => tables,
            Kind::Ivf => 0,
            Kind::Mixed => tables.div_ceil(2),
        };
        ensure!(
            graphs == tables || cfg!(feature = "faiss"),
            "--kind {}: this chiplet was built without Faiss; build it with --features faiss",
            arguments.kind
        );
        let bar = bars.add(ProgressBar::new(tables as u64));
        bar.set_style(style("building tables {bar:30} {pos}/{len}, {eta} left"));
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..cores.min(tables) {
                scope.spawn(|| {
                    loop {
                        let table = next.fetch_add(1, Ordering::Relaxed);
                        if table >= tables || stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let part = source.vectors.interleaved(table, tables);
                        let built = build_one(arguments, &source, &part, table, table < graphs);
                        done.lock().push((table, built));
                        bar.inc(1);
                    }
                });
            }
        });
        bar.finish_and_clear();
        ensure!(
            !stop.load(Ordering::Relaxed),
            "stopped while building tables"
        );
        let mut done = done.into_inner();
        done.sort_by_key(|(table, _)| *table);
        let all = done
            .into_iter()
            .map(|(_, table)| table)
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            all,
            queries: source.queries,
            source: source.name,
            rows,
            graphs,
        })
    }

    /// For as long as the process runs: a counted reference would be a line that every thread writes with each query.
    pub(crate) fn keep(self) -> &'static Self {
        Box::leak(Box::new(self))
    }

    /// No tables: for tests of what only carries them along.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            all: Vec::new(),
            queries: VectorSet::clusters(&chiplet_workload::dataset::Clusters::default()),
            source: String::new(),
            rows: 0,
            graphs: 0,
        }
    }

    /// Query number `query` as table `table` is asked it.
    pub(crate) fn query(&self, arguments: &Arguments, table: usize, query: usize) -> Query {
        let asked = Query::new(self.queries.row(query)).top(arguments.k as usize);
        if table < self.graphs {
            asked.ef(arguments.ef() as usize)
        } else {
            asked.nprobe(arguments.nprobe() as usize)
        }
    }

    /// What these tables can show on this machine.
    pub(crate) fn verdict(&self, topology: &Topology, graph: Graph) -> String {
        let sizes = self.all.iter().map(|table| table.index(graph).size_bytes());
        Caches::of(topology).verdict(self.bytes(graph), sizes.max().unwrap_or(0))
    }

    pub(crate) fn bytes(&self, graph: Graph) -> u64 {
        self.all
            .iter()
            .map(|table| table.index(graph).size_bytes())
            .sum()
    }
}

fn build_one(
    arguments: &Arguments,
    source: &Dataset,
    rows: &VectorSet,
    table: usize,
    graph: bool,
) -> anyhow::Result<BuiltTable> {
    let metric = source.index_metric()?;
    // One broken folder would otherwise be reported once a table.
    let truth = source.truth(arguments, rows, arguments.k.min(10) as usize, table == 0)?;
    let mut built = BuiltTable {
        name: format!("{}-{table}", if graph { "hnsw" } else { "ivf" }),
        truth: Some(truth),
        ..BuiltTable::default()
    };
    if graph {
        let asked = |graph| {
            arguments
                .strategies
                .iter()
                .any(|choice| choice.graph == graph)
        };
        if asked(Graph::Own) {
            let config = HnswConfig::new(metric).ef(arguments.ef() as usize);
            let index = HnswTable::build(rows.as_slice(), rows.dim(), &config)?;
            built.set(Own::Graph(Arc::new(index)));
        }
        #[cfg(feature = "usearch")]
        if asked(Graph::Usearch) {
            let index = super::usearch::UsearchTable::build(rows, metric, arguments.ef() as usize)?;
            built.usearch = Some(Arc::new(index));
        }
    } else {
        #[cfg(feature = "faiss")]
        {
            let factory = factory(arguments, rows.len());
            let config = chiplet_index::IvfConfig::new(metric).nprobe(arguments.nprobe() as usize);
            let build = |config: &_| {
                chiplet_index::IvfTable::build(rows.as_slice(), rows.dim(), &factory, config)
            };
            built.set(Own::Lists(Arc::new(build(&config)?)));
            if arguments
                .strategies
                .iter()
                .any(super::arguments::Choice::is_openmp)
            {
                built.faiss = Some(Arc::new(build(&config.faiss_scans(true))?));
            }
        }
    }
    Ok(built)
}

/// The Faiss description of an IVF table of `rows` rows.
#[cfg(feature = "faiss")]
pub(crate) fn factory(arguments: &Arguments, rows: usize) -> String {
    let own = || format!("IVF{},Flat", lists(rows));
    arguments.factory.clone().unwrap_or_else(own)
}

/// Lists of an IVF table of `rows` rows, where nobody says how many.
pub(crate) fn lists(rows: usize) -> usize {
    let lists = (4.0 * (rows as f64).sqrt()) as usize;
    lists.clamp(1, rows / 39 + 1)
}
