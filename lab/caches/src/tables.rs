//! Tables for the program: built here, at the processor's own speed, and saved.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::{Context as _, bail};
use chiplet::index::{HnswConfig, HnswTable, Metric, RowFormat};
use chiplet_sim::{Table, Workload};
use chiplet_workload::dataset::{Clusters, VectorSet};
use serde::{Deserialize, Serialize};

/// Builds graphs and saves them, with queries for each.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Where they go; what is there already is kept.
    #[arg(long)]
    pub folder: PathBuf,
    /// How many.
    #[arg(long, default_value_t = 12)]
    pub tables: usize,
    /// Vectors in each.
    #[arg(long, default_value_t = 16_000)]
    pub rows: usize,
    /// Values of a vector.
    #[arg(long, default_value_t = 128)]
    pub dim: usize,
    /// How graphs keep them.
    #[command(flatten)]
    pub kept: Kept,
}

/// How graphs keep their rows.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Kept {
    /// f32, f16, bf16, sq8 (one byte a component), sq4, sq2 or sq1 (4, 2 bits, 1 bit; with --rerank).
    #[arg(long, value_name = "FORMAT", default_value_t = RowFormat::F32)]
    pub rows_as: RowFormat,
    /// A second time, as f32, f16, bf16 or sq8: the best candidates are compared once more with them.
    #[arg(long, value_name = "FORMAT")]
    pub rerank: Option<RowFormat>,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rerank {
            None => write!(f, "{}", self.rows_as),
            Some(rerank) => write!(f, "{} re-ranked by {rerank}", self.rows_as),
        }
    }
}

/// The folder, below `parent`, of graphs of this shape.
pub fn folder(parent: &Path, tables: usize, rows: usize, dim: usize, kept: Kept) -> PathBuf {
    let kept = kept.to_string().replace(" re-ranked by ", "-");
    parent.join(format!("{tables}x{rows}x{dim}-{kept}"))
}

/// Queries that are saved with a table.
const QUERIES: usize = 500;

/// The file of a table's graph.
pub fn graph(folder: &Path, table: usize) -> PathBuf {
    folder.join(format!("{table}.chiplet"))
}

/// A table's graph, mapped.
///
/// # Errors
/// If its file cannot be read.
#[expect(unsafe_code, reason = "a run's own files")]
pub fn map_graph(folder: &Path, table: usize) -> anyhow::Result<HnswTable> {
    let path = graph(folder, table);
    // SAFETY: a run writes its tables' files before it searches them.
    let table = unsafe { HnswTable::map(&path) };
    table.with_context(|| path.display().to_string())
}

/// The file of a table's queries.
pub fn queries(folder: &Path, table: usize) -> PathBuf {
    folder.join(format!("{table}.queries"))
}

/// The queries of a table, one after the other.
pub fn read_queries(folder: &Path, table: usize, dim: usize) -> anyhow::Result<Vec<Vec<f32>>> {
    let path = queries(folder, table);
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let values: Vec<f32> = bytes.chunks_exact(4).map(value).collect();
    Ok(values.chunks_exact(dim).map(<[f32]>::to_vec).collect())
}

/// How each table of a workload is asked, in a file of its folder; without it all are asked alike.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// Neighbours asked for, and candidates that a search keeps, by table.
    pub tables: Vec<(usize, usize)>,
    /// Zipf exponent over a table's queries.
    pub query_skew: f64,
    /// The part of all queries that goes to the first table beside its share by the law.
    pub hot_share: f64,
}

/// How the tables of a folder are asked, if it says so.
///
/// # Errors
/// If the file is there and cannot be read.
pub fn asked(folder: &Path) -> anyhow::Result<Option<Asked>> {
    let path = folder.join("asked.json");
    match path.exists() {
        true => Ok(Some(serde_json::from_str(&fs::read_to_string(path)?)?)),
        false => Ok(None),
    }
}

/// Builds the graphs of a workload that are not there yet.
///
/// # Errors
/// If the workload has other tables than graphs, or files cannot be written.
pub fn build(folder: &Path, workload: &Workload, seed: u64) -> anyhow::Result<()> {
    workload.check_real()?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut tables = Vec::new();
    for (number, table) in workload.tables.iter().enumerate() {
        let (Table::Graph { k, ef, .. }, Some(config)) = (*table, table.graph_config()) else {
            bail!(
                "inverted lists are not emulated: their scans run in Faiss' libraries; give a workload of graphs (hnsw)"
            );
        };
        tables.push((k, ef));
        let config = config.threads(2);
        build_one(folder, (number, workload.tables.len()), &config, || {
            let drawn = workload.draw(number, QUERIES, seed);
            (drawn.rows, drawn.queries)
        })?;
    }
    let asked = Asked {
        tables,
        query_skew: workload.query_skew,
        hot_share: workload.hot_share,
    };
    let half = folder.join(format!("asked.{}", std::process::id()));
    fs::write(&half, serde_json::to_string(&asked)?)?;
    Ok(fs::rename(half, folder.join("asked.json"))?)
}

/// Builds and saves a graph and its queries, unless that has been done.
fn build_one(
    folder: &Path,
    (table, of): (usize, usize),
    config: &HnswConfig,
    draw: impl FnOnce() -> (VectorSet, VectorSet),
) -> anyhow::Result<()> {
    let path = graph(folder, table);
    if path.exists() {
        return Ok(());
    }
    let (rows, asked) = draw();
    let values = asked.as_slice().iter();
    let bytes: Vec<u8> = values.flat_map(|value| value.to_le_bytes()).collect();
    // Two processes may build the same table: none may read what the other has half written.
    let half = folder.join(format!("{table}.{}", std::process::id()));
    fs::write(&half, bytes)?;
    fs::rename(&half, queries(folder, table))?;
    HnswTable::build(rows.as_slice(), rows.dim(), config)?.save(&path)?;
    eprintln!("caches: built table {} of {of}", table + 1);
    Ok(())
}

/// Builds what is not there yet.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments {
        folder,
        tables,
        rows,
        dim,
        kept,
    } = arguments;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    if let Err((value, accepted)) = kept.rows_as.check_rerank(kept.rerank) {
        bail!("--rerank is {value}, it must be {accepted}");
    }
    let mut config = HnswConfig::new(Metric::L2).threads(2).rows(kept.rows_as);
    if let Some(rerank) = kept.rerank {
        config = config.rerank(rerank);
    }
    for table in 0..*tables {
        build_one(folder, (table, *tables), &config, || {
            let set = VectorSet::clusters(&Clusters {
                rows: rows + QUERIES,
                dim: *dim,
                seed: table as u64 + 1,
                ..Clusters::default()
            });
            let part = |from, to| set.select(&(from..to).collect::<Vec<_>>());
            (part(0, *rows), part(*rows, rows + QUERIES))
        })?;
    }
    Ok(())
}
