//! The tables of a run: an index over each part of the dataset, and the exact answers to the queries.
//!
//! Built once and shared by all strategies.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use chiplet_bench::recipes::Workload;
use chiplet_bench::workload::dataset::VectorSet;
use chiplet_bench::workload::truth::{self, Truth};
use chiplet_index::{AnyTable, HnswConfig, HnswTable, Metric, Pages};
use chiplet_table::{Query, Table};
use chiplet_topology::Topology;
use indicatif::{MultiProgress, ProgressBar};
use parking_lot::Mutex;

use super::arguments::{Arguments, Graph, Kind};
use super::dataset::{self, Dataset};
use super::recipe;
use super::sizes::Caches;
use chiplet_bench::output::style;

/// All tables of a run.
pub(crate) struct Tables {
    pub(crate) all: Vec<BuiltTable>,
    /// How each is asked.
    asked: Vec<Asked>,
    /// Where the vectors come from, for the report.
    pub(crate) source: String,
    /// Rows of a table, on average.
    pub(crate) rows: usize,
    /// The part of all queries that goes to the first table beside its share by the law.
    pub(crate) hot_share: f64,
    /// The workload that the tables are of, as it was read.
    pub(crate) recipe: Option<String>,
}

/// How a table is asked.
#[derive(Clone)]
struct Asked {
    /// Held-out vectors.
    queries: Arc<VectorSet>,
    graph: bool,
    k: usize,
    /// Candidates of a graph search; lists that a scan visits.
    width: usize,
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

    /// The table of this name, from the file that [`BuiltTable::save`] wrote; what is searched is what `over` makes of
    /// it.
    pub(crate) fn load(
        name: String,
        path: &Path,
        over: impl FnOnce(AnyTable) -> anyhow::Result<Arc<dyn Table>>,
    ) -> anyhow::Result<Self> {
        let table = chiplet_index::open(path, Pages::default())?;
        Ok(Self {
            name,
            main: Some(over(table)?),
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
}

/// Where tables' vectors come from.
enum Source {
    /// One set, dealt to tables that are all alike.
    Shared(Box<Dataset>, Arc<VectorSet>),
    /// Drawn for each table as a workload describes it.
    Drawn(Box<Workload>),
}

impl Source {
    fn read(arguments: &Arguments) -> anyhow::Result<Self> {
        if let Some(workload) = recipe::read(arguments)? {
            return Ok(Self::Drawn(Box::new(workload)));
        }
        let source = dataset::read(arguments)?;
        let tables = arguments.tables() as usize;
        ensure!(
            source.vectors.len() / tables >= 2,
            "{} vectors for {tables} tables: give fewer --tables",
            source.vectors.len()
        );
        ensure!(
            arguments.kind == Kind::Hnsw || cfg!(feature = "faiss"),
            "--kind {}: this chiplet was built without Faiss; build it with --features faiss",
            arguments.kind
        );
        let queries = Arc::new(source.queries.clone());
        Ok(Self::Shared(Box::new(source), queries))
    }

    fn tables(&self, arguments: &Arguments) -> usize {
        match self {
            Self::Shared(..) => arguments.tables() as usize,
            Self::Drawn(workload) => workload.tables.len(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Shared(source, _) => source.name.clone(),
            Self::Drawn(workload) => format!("synthetic clusters, workload {}", workload.name),
        }
    }

    /// The rows of table `number`, what it is, and how it is asked.
    fn table(
        &self,
        arguments: &Arguments,
        number: usize,
    ) -> anyhow::Result<(VectorSet, Shape, Asked)> {
        let tables = self.tables(arguments);
        match self {
            Self::Shared(source, queries) => {
                let graph = match arguments.kind {
                    Kind::Hnsw => true,
                    Kind::Ivf => false,
                    Kind::Mixed => number < tables.div_ceil(2),
                };
                let rows = source.vectors.interleaved(number, tables);
                let asked = Asked {
                    queries: Arc::clone(queries),
                    graph,
                    k: arguments.k as usize,
                    width: match graph {
                        true => arguments.ef() as usize,
                        false => arguments.nprobe() as usize,
                    },
                };
                Ok((rows, Shape::asked(arguments, source)?, asked))
            }
            Self::Drawn(workload) => {
                let table = &workload.tables[number];
                let drawn = workload.draw(number, arguments.queries as usize, arguments.seed);
                let (k, width, graph) = match *table {
                    chiplet_bench::recipes::Table::Graph { k, ef, .. } => (k, ef, true),
                    chiplet_bench::recipes::Table::Lists { k, probes, .. } => (k, probes, false),
                    chiplet_bench::recipes::Table::Task { .. } => {
                        unreachable!("refused when it was read")
                    }
                };
                let asked = Asked {
                    queries: Arc::new(drawn.queries),
                    graph,
                    k,
                    width,
                };
                Ok((drawn.rows, Shape::of(table), asked))
            }
        }
    }
}

/// What a table is, beside its rows.
struct Shape {
    metric: truth::Metric,
    /// Of a graph; of lists it is not used.
    graph: HnswConfig,
    /// The Faiss description of lists; none: as many as rows advise.
    #[cfg_attr(not(feature = "faiss"), expect(dead_code, reason = "lists need Faiss"))]
    factory: Option<String>,
}

impl Shape {
    fn asked(arguments: &Arguments, source: &Dataset) -> anyhow::Result<Self> {
        Ok(Self {
            metric: source.metric,
            graph: HnswConfig::new(source.index_metric()?).ef(arguments.ef() as usize),
            factory: arguments.factory.clone(),
        })
    }

    fn of(table: &chiplet_bench::recipes::Table) -> Self {
        let factory = match *table {
            chiplet_bench::recipes::Table::Lists { lists, rows, .. } => {
                Some(recipe::factory(lists, rows as usize, table.rows_as()))
            }
            _ => None,
        };
        let plain = || HnswConfig::new(Metric::L2);
        Self {
            metric: truth::Metric::L2,
            graph: table.graph_config().unwrap_or_else(plain),
            factory,
        }
    }
}

impl Tables {
    /// Reads the dataset and builds all tables, as many at once as there are cores. Ends early if `stop` is set.
    pub(crate) fn build(
        arguments: &Arguments,
        bars: &MultiProgress,
        stop: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let source = Source::read(arguments)?;
        let tables = source.tables(arguments);
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
                        let built = build_one(arguments, &source, table);
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
        let done = done.into_iter().map(|(_, built)| built);
        let done = done.collect::<anyhow::Result<Vec<_>>>()?;
        let rows = done.iter().map(|(_, _, rows)| rows).sum::<usize>() / tables;
        let (all, asked) = done
            .into_iter()
            .map(|(built, asked, _)| (built, asked))
            .unzip();
        Ok(Self {
            recipe: recipe::text(arguments),
            all,
            asked,
            source: source.name(),
            rows,
            hot_share: match &source {
                Source::Shared(..) => 0.0,
                Source::Drawn(workload) => workload.hot_share,
            },
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
            asked: Vec::new(),
            source: String::new(),
            rows: 0,
            hot_share: 0.0,
            recipe: None,
        }
    }

    /// Query number `query` as table `table` is asked it.
    pub(crate) fn query(&self, table: usize, query: usize) -> Query {
        let Asked {
            queries,
            graph,
            k,
            width,
        } = &self.asked[table];
        let asked = Query::new(queries.row(query)).top(*k);
        match graph {
            true => asked.ef(*width),
            false => asked.nprobe(*width),
        }
    }

    /// Different queries of each table.
    pub(crate) fn queries(&self) -> usize {
        self.asked.first().map_or(0, |asked| asked.queries.len())
    }

    /// Components of the tables' vectors, on average.
    pub(crate) fn dims(&self) -> usize {
        let dims = self.asked.iter().map(|asked| asked.queries.dim());
        dims.sum::<usize>() / self.asked.len().max(1)
    }

    /// How many of the tables are graphs; the others are inverted lists.
    pub(crate) fn graphs(&self) -> usize {
        self.asked.iter().filter(|asked| asked.graph).count()
    }

    /// The most neighbours that a table is asked for.
    pub(crate) fn k(&self) -> usize {
        self.asked.iter().map(|asked| asked.k).max().unwrap_or(0)
    }

    /// The most candidates of a graph's searches, or lists of a scan's; `None` where there is no such table.
    pub(crate) fn width(&self, graph: bool) -> Option<usize> {
        let of_kind = self.asked.iter().filter(|asked| asked.graph == graph);
        of_kind.map(|asked| asked.width).max()
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

/// A table, how it is asked, and its rows.
fn build_one(
    arguments: &Arguments,
    source: &Source,
    number: usize,
) -> anyhow::Result<(BuiltTable, Asked, usize)> {
    let (rows, shape, asked) = source.table(arguments, number)?;
    // One broken folder would otherwise be reported once a table.
    let warn = number == 0;
    let k = asked.k.min(10);
    let truth = dataset::truth(arguments, (&rows, &asked.queries), (k, shape.metric), warn)?;
    let metric = dataset::index_metric(shape.metric)?;
    let mut built = BuiltTable {
        name: format!("{}-{number}", if asked.graph { "hnsw" } else { "ivf" }),
        truth: Some(truth),
        ..BuiltTable::default()
    };
    match asked.graph {
        true => graph(arguments, (&rows, metric), &shape, asked.width, &mut built)?,
        false => lists_of(arguments, (&rows, metric), &shape, asked.width, &mut built)?,
    }
    Ok((built, asked, rows.len()))
}

#[cfg_attr(
    not(feature = "usearch"),
    expect(unused_variables, reason = "for usearch alone")
)]
fn graph(
    arguments: &Arguments,
    (rows, metric): (&VectorSet, Metric),
    shape: &Shape,
    ef: usize,
    built: &mut BuiltTable,
) -> anyhow::Result<()> {
    let asked = |graph| {
        let mut strategies = arguments.strategies.iter();
        strategies.any(|choice| choice.graph == graph)
    };
    if asked(Graph::Own) {
        let index = HnswTable::build(rows.as_slice(), rows.dim(), &shape.graph)?;
        built.set(Own::Graph(Arc::new(index)));
    }
    #[cfg(feature = "usearch")]
    if asked(Graph::Usearch) {
        let index = super::usearch::UsearchTable::build(rows, metric, ef)?;
        built.usearch = Some(Arc::new(index));
    }
    Ok(())
}

#[cfg(feature = "faiss")]
fn lists_of(
    arguments: &Arguments,
    (rows, metric): (&VectorSet, Metric),
    shape: &Shape,
    nprobe: usize,
    built: &mut BuiltTable,
) -> anyhow::Result<()> {
    let own = || factory(arguments, rows.len());
    let factory = shape.factory.clone().unwrap_or_else(own);
    let config = chiplet_index::IvfConfig::new(metric).nprobe(nprobe);
    let build =
        |config: &_| chiplet_index::IvfTable::build(rows.as_slice(), rows.dim(), &factory, config);
    built.set(Own::Lists(Arc::new(build(&config)?)));
    let mut strategies = arguments.strategies.iter();
    if strategies.any(super::arguments::Choice::is_openmp) {
        built.faiss = Some(Arc::new(build(&config.faiss_scans(true))?));
    }
    Ok(())
}

#[cfg(not(feature = "faiss"))]
fn lists_of(
    _: &Arguments,
    _: (&VectorSet, Metric),
    _: &Shape,
    _: usize,
    _: &mut BuiltTable,
) -> anyhow::Result<()> {
    anyhow::bail!("inverted lists need a chiplet that was built with --features faiss")
}

/// The Faiss description of an IVF table of `rows` rows.
#[cfg(feature = "faiss")]
pub(crate) fn factory(arguments: &Arguments, rows: usize) -> String {
    let own = || format!("IVF{},Flat", lists(rows));
    arguments.factory.clone().unwrap_or_else(own)
}

/// Lists of an IVF table of `rows` rows, where nobody says how many.
pub(crate) fn lists(rows: usize) -> usize {
    recipe::learnable((4.0 * (rows as f64).sqrt()) as usize, rows)
}
