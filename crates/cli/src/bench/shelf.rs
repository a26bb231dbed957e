//! The tables of a run: vectors from wherever they come, an index over each part, queries and their exact answers.
//!
//! Built once and shared by all strategies. Queries are held out: no table holds them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, bail, ensure};
use chiplet_executor::{Query, Table};
use chiplet_index::{HnswConfig, HnswTable, Metric};
use chiplet_topology::Topology;
use chiplet_workload::dataset::{AnnBenchmark, Clusters, VectorSet};
use chiplet_workload::truth::{self, Truth, TruthCache};
use indicatif::{MultiProgress, ProgressBar};
use parking_lot::Mutex;

use super::arguments::{Arguments, Kind};
use super::sizes::Caches;

/// Which library searches the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Graph {
    Own,
    Usearch,
}

/// All tables of a run.
pub(crate) struct Shelf {
    pub(crate) tables: Vec<Shelved>,
    /// Held-out vectors that every table is asked for.
    pub(crate) queries: VectorSet,
    /// Where the vectors come from, for the report.
    pub(crate) source: String,
    pub(crate) rows: usize,
    /// Tables below this number are graphs, the others inverted lists.
    pub(crate) graphs: usize,
}

/// One table.
pub(crate) struct Shelved {
    pub(crate) name: String,
    pub(crate) truth: Truth,
    /// `HnswTable` or `IvfTable`.
    main: Option<Arc<dyn Table>>,
    usearch: Option<Arc<dyn Table>>,
    /// The same lists, scanned by Faiss: for its own OpenMP.
    #[cfg(feature = "faiss")]
    pub(crate) faiss: Option<Arc<chiplet_index::IvfTable>>,
}

impl Shelved {
    /// The index to search where graphs are to be `graph`.
    pub(crate) fn index(&self, graph: Graph) -> &Arc<dyn Table> {
        let asked = match graph {
            Graph::Own => self.main.as_ref().or(self.usearch.as_ref()),
            Graph::Usearch => self.usearch.as_ref().or(self.main.as_ref()),
        };
        asked.expect("a table has at least one index: `build_one` makes it")
    }
}

/// Vectors, queries and their metric.
pub(crate) struct Source {
    pub(crate) vectors: VectorSet,
    pub(crate) queries: VectorSet,
    pub(crate) name: String,
    pub(crate) metric: truth::Metric,
}

impl Source {
    /// The metric as indexes name it.
    pub(crate) fn index_metric(&self) -> anyhow::Result<Metric> {
        Ok(match self.metric {
            truth::Metric::L2 => Metric::L2,
            truth::Metric::Cosine => Metric::Cosine,
            truth::Metric::InnerProduct => Metric::InnerProduct,
            other => bail!("no index here searches by {other:?}"),
        })
    }

    /// The exact neighbours of the queries among `rows`, from the cache if they are there; says what is wrong with the
    /// cache if `warn`.
    pub(crate) fn truth(
        &self,
        arguments: &Arguments,
        rows: &VectorSet,
        warn: bool,
    ) -> anyhow::Result<Truth> {
        // Recall is of the first ten, or of all if fewer are asked for.
        let k = arguments.k.min(10) as usize;
        let cache = match &arguments.truth_cache {
            Some(folder) => Some(TruthCache::new(folder)),
            None => TruthCache::of_user(),
        };
        let Some(cache) = cache else {
            return Ok(Truth::exact(rows, &self.queries, k, self.metric)?);
        };
        let cached = Truth::exact_cached(rows, &self.queries, k, self.metric, &cache, |_, _| ())?;
        if warn {
            for warning in &cached.warnings {
                eprintln!("chiplet: {warning}");
            }
        }
        Ok(cached.truth)
    }
}

impl Shelf {
    /// Reads or draws the vectors and builds all tables, one a core at a time. Ends early if `stop` is set.
    pub(crate) fn build(
        arguments: &Arguments,
        bars: &MultiProgress,
        stop: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let source = source(arguments)?;
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
        bar.set_style(super::style(
            "building tables {bar:30} {pos}/{len}, {eta} left",
        ));
        let next = AtomicUsize::new(0);
        let built = Mutex::new(Vec::new());
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
                        let shelved = build_one(arguments, &source, &part, table, table < graphs);
                        built.lock().push((table, shelved));
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
        let mut built = built.into_inner();
        built.sort_by_key(|(table, _)| *table);
        let tables = built
            .into_iter()
            .map(|(_, table)| table)
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            tables,
            queries: source.queries,
            source: source.name,
            rows,
            graphs,
        })
    }

    /// No tables: for tests of what only carries a shelf along.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            tables: Vec::new(),
            queries: VectorSet::clusters(&Clusters::default()),
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
        let sizes = self
            .tables
            .iter()
            .map(|table| table.index(graph).size_bytes());
        Caches::of(topology).verdict(self.bytes(graph), sizes.max().unwrap_or(0))
    }

    pub(crate) fn bytes(&self, graph: Graph) -> u64 {
        self.tables
            .iter()
            .map(|table| table.index(graph).size_bytes())
            .sum()
    }
}

/// Reads or draws vectors for `--tables` tables of `--rows`, and holds the queries out of them.
pub(crate) fn source(arguments: &Arguments) -> anyhow::Result<Source> {
    let tables = arguments.tables() as usize;
    let queries = arguments.queries as usize;
    match arguments.data.as_str() {
        "synthetic" => {
            let rows = arguments.rows.unwrap_or(1_500) as usize;
            let values = (rows * tables + queries).saturating_mul(arguments.dims as usize);
            ensure!(
                values <= 1 << 36,
                "{tables} tables of {rows} x {}: more than 256 GiB of vectors",
                arguments.dims
            );
            let drawn = VectorSet::clusters(&Clusters {
                rows: rows * tables + queries,
                dim: arguments.dims as usize,
                seed: arguments.seed,
                ..Clusters::default()
            });
            let (vectors, queries) = drawn.hold_out(queries);
            Ok(Source {
                vectors,
                queries,
                name: "synthetic clusters".to_owned(),
                metric: arguments.metric.unwrap_or(truth::Metric::L2),
            })
        }
        "glove" => {
            let words = VectorSet::glove_sample(&arguments.datasets).with_context(|| {
                format!(
                    "the GloVe sample is expected in {} (--datasets)",
                    arguments.datasets.join("glove-50d").display()
                )
            })?;
            cut(
                &words,
                arguments,
                "GloVe sample".to_owned(),
                truth::Metric::Cosine,
            )
        }
        file => {
            let path = PathBuf::from(file);
            ensure!(
                path.exists(),
                "--data {file}: there is no such file; give synthetic, glove, or a file of vectors"
            );
            let extension = path.extension().and_then(|extension| extension.to_str());
            if let Some("hdf5" | "h5") = extension {
                let AnnBenchmark {
                    train,
                    test,
                    metric,
                    ..
                } = AnnBenchmark::read(&path)?;
                let asked = test.len().min(arguments.queries as usize);
                return Ok(Source {
                    vectors: first_rows(train, arguments, &named(&path))?,
                    queries: test.select(&(0..asked).collect::<Vec<_>>()),
                    name: named(&path),
                    metric: arguments.metric.unwrap_or(metric),
                });
            }
            let vectors = VectorSet::read(&path)?;
            cut(&vectors, arguments, named(&path), truth::Metric::L2)
        }
    }
}

fn named(path: &Path) -> String {
    path.file_name().map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Queries held out of a file's vectors, and as many of the rest as were asked for.
fn cut(
    all: &VectorSet,
    arguments: &Arguments,
    name: String,
    metric: truth::Metric,
) -> anyhow::Result<Source> {
    let queries = (arguments.queries as usize).min(all.len() / 4);
    ensure!(
        queries > 0,
        "{name} holds {} vectors: too few to ask for",
        all.len()
    );
    let (vectors, queries) = all.hold_out(queries);
    Ok(Source {
        vectors: first_rows(vectors, arguments, &name)?,
        queries,
        name,
        metric: arguments.metric.unwrap_or(metric),
    })
}

/// As many vectors as `--rows` and `--tables` ask for, or all.
fn first_rows(vectors: VectorSet, arguments: &Arguments, name: &str) -> anyhow::Result<VectorSet> {
    let Some(rows) = arguments.rows else {
        return Ok(vectors);
    };
    let wanted = rows as usize * arguments.tables() as usize;
    ensure!(
        wanted <= vectors.len(),
        "{} tables of {rows} rows are more than the {} vectors of {name}",
        arguments.tables(),
        vectors.len()
    );
    Ok(vectors.select(&(0..wanted).collect::<Vec<_>>()))
}

fn build_one(
    arguments: &Arguments,
    source: &Source,
    rows: &VectorSet,
    table: usize,
    graph: bool,
) -> anyhow::Result<Shelved> {
    let metric = source.index_metric()?;
    // One broken folder would otherwise be reported once a table.
    let truth = source.truth(arguments, rows, table == 0)?;
    let mut shelved = Shelved {
        name: format!("{}-{table}", if graph { "hnsw" } else { "ivf" }),
        truth,
        main: None,
        usearch: None,
        #[cfg(feature = "faiss")]
        faiss: None,
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
            shelved.main = Some(Arc::new(index));
        }
        #[cfg(feature = "usearch")]
        if asked(Graph::Usearch) {
            let index = super::usearch::UsearchTable::build(rows, metric, arguments.ef() as usize)?;
            shelved.usearch = Some(Arc::new(index));
        }
    } else {
        #[cfg(feature = "faiss")]
        {
            let factory = factory(arguments, rows.len());
            let config = chiplet_index::IvfConfig::new(metric).nprobe(arguments.nprobe() as usize);
            let build = |config: &_| {
                chiplet_index::IvfTable::build(rows.as_slice(), rows.dim(), &factory, config)
            };
            shelved.main = Some(Arc::new(build(&config)?));
            if arguments
                .strategies
                .iter()
                .any(super::contender::Choice::is_openmp)
            {
                shelved.faiss = Some(Arc::new(build(&config.faiss_scans(true))?));
            }
        }
    }
    Ok(shelved)
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
