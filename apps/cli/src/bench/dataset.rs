//! Vectors to search and to ask for: drawn, or read from a file. Queries are held out: no table holds them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use chiplet_bench::workload::dataset::{AnnBenchmark, Clusters, VectorSet};
use chiplet_bench::workload::truth::{self, Truth, TruthCache};
use chiplet_index::Metric;

use super::arguments::Arguments;

/// Vectors, queries and their metric.
pub(crate) struct Dataset {
    pub(crate) vectors: VectorSet,
    pub(crate) queries: VectorSet,
    pub(crate) name: String,
    pub(crate) metric: truth::Metric,
}

impl Dataset {
    /// The metric as indexes name it.
    pub(crate) fn index_metric(&self) -> anyhow::Result<Metric> {
        index_metric(self.metric)
    }

    /// [`truth`] of this set's queries and metric.
    pub(crate) fn truth(
        &self,
        arguments: &Arguments,
        rows: &VectorSet,
        k: usize,
        warn: bool,
    ) -> anyhow::Result<Truth> {
        truth(arguments, (rows, &self.queries), (k, self.metric), warn)
    }
}

/// A metric as indexes name it.
pub(crate) fn index_metric(metric: truth::Metric) -> anyhow::Result<Metric> {
    Ok(match metric {
        truth::Metric::L2 => Metric::L2,
        truth::Metric::Cosine => Metric::Cosine,
        truth::Metric::InnerProduct => Metric::InnerProduct,
        other => bail!("no index here searches by {other:?}"),
    })
}

/// The `k` exact neighbours of `queries` among `rows`, from the cache if they are there; says what is wrong with the
/// cache if `warn`.
pub(crate) fn truth(
    arguments: &Arguments,
    (rows, queries): (&VectorSet, &VectorSet),
    (k, metric): (usize, truth::Metric),
    warn: bool,
) -> anyhow::Result<Truth> {
    let cache = match &arguments.truth_cache {
        Some(folder) => Some(TruthCache::new(folder)),
        None => TruthCache::of_user(),
    };
    let Some(cache) = cache else {
        return Ok(Truth::exact(rows, queries, k, metric)?);
    };
    let cached = Truth::exact_cached(rows, queries, k, metric, &cache, |_, _| ())?;
    if warn {
        for warning in &cached.warnings {
            eprintln!("chiplet: {warning}");
        }
    }
    Ok(cached.truth)
}

/// Reads or draws vectors for `--tables` tables of `--rows`, and holds the queries out of them.
pub(crate) fn read(arguments: &Arguments) -> anyhow::Result<Dataset> {
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
            Ok(Dataset {
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
                return Ok(Dataset {
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
) -> anyhow::Result<Dataset> {
    let queries = (arguments.queries as usize).min(all.len() / 4);
    ensure!(
        queries > 0,
        "{name} holds {} vectors: too few to ask for",
        all.len()
    );
    let (vectors, queries) = all.hold_out(queries);
    Ok(Dataset {
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
