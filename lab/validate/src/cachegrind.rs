//! The simulator against cachegrind: one thread that searches one graph, on one core with one cache.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, ensure};
use chiplet::{Query, Table as _};
use chiplet_baselines::Strategy;
use chiplet_caches::spread::Spread;
use chiplet_caches::tables;
use chiplet_sim::{Costs, Load, Machine, Prepared, Scenario, Ways};
use chiplet_workload::traffic::{Arrivals, Group, Traffic};

use crate::case::Case;
use crate::child;
use crate::graphs;

/// Lines of a set of the modelled last level, and of the first.
const WAYS: [u32; 2] = [16, 8];

/// Of the traffic.
const SEED: u64 = 1;

/// Candidates of each search.
const EF: usize = 64;

/// The first level, for data and for instructions.
const L1_BYTES: u64 = 32 << 10;

/// Searches a saved graph, in the order that the simulator searches it in: what cachegrind looks at.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Graph and queries, as `chiplet-caches tables` makes them; the first is searched.
    #[arg(long)]
    folder: PathBuf,
    /// How many queries.
    #[arg(long)]
    queries: usize,
    /// Candidates of each search.
    #[arg(long)]
    ef: usize,
}

/// Searches.
///
/// # Errors
/// If the files cannot be read.
pub fn search(arguments: &Arguments) -> anyhow::Result<()> {
    let graph = tables::map_graph(&arguments.folder, 0)?;
    let asked = File::open(tables::queries(&arguments.folder, 0))?;
    let bytes = 4 * graph.dim();
    let known = asked.metadata()?.len() as usize / bytes;
    let mut context = chiplet::Context::default();
    let traffic = Traffic::new(SEED, Arrivals::Steady { rate: 1.0 }).group(Group::new(0..1, known));
    // Each query's vector comes from the system, as a service's does from a socket: it takes no room in the cache for
    // longer than its search.
    let mut vector = vec![0; bytes];
    for arrival in traffic.stream()?.take(arguments.queries) {
        asked.read_exact_at(&mut vector, (arrival.query * bytes) as u64)?;
        let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let values: Vec<f32> = vector.chunks_exact(4).map(value).collect();
        let query = Query::new(values).top(10).ef(arguments.ef);
        let found = graph.search(&query, &mut context)?;
        ensure!(!found.is_empty(), "a search found nothing");
    }
    Ok(())
}

/// One cache to compare at.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Rows of the graph, and components of a row.
    pub rows: [usize; 2],
    /// Bytes of the last level.
    pub bytes: u64,
    /// Queries that warm it, and as many that count.
    pub queries: u64,
}

/// What is compared: caches that hold a tenth, four tenths and eight tenths of a graph of 600 KB, and of one of 10 MB
/// unless it is to be `quick`.
#[must_use]
pub fn sizes(quick: bool) -> Vec<Size> {
    let graphs = [
        ([1_500, 64], 64 << 10, 500),
        ([16_000, 128], 1 << 20, 1_000),
    ];
    let graphs = &graphs[..if quick { 1 } else { 2 }];
    let sizes = graphs.iter().flat_map(|&(rows, bytes, queries)| {
        [1, 4, 8].map(|part| Size {
            rows,
            bytes: part * bytes,
            queries,
        })
    });
    sizes.collect()
}

/// Whether valgrind is there; else why this part is left out.
///
/// # Errors
/// What is missing.
pub fn is_there() -> Result<(), String> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(said) if said.status.success() => Ok(()),
        _ => Err("valgrind is not installed: scripts/setup.sh valgrind".to_owned()),
    }
}

/// Compares at one size.
///
/// # Errors
/// If a program fails, or `stop` is set.
pub fn compare(size: &Size, folder: &Path, stop: &AtomicBool) -> anyhow::Result<Case> {
    let [rows, dim] = size.rows;
    let folder = folder.join(format!("{rows}x{dim}"));
    tables::run(&tables::Arguments {
        folder: folder.clone(),
        tables: 1,
        rows,
        dim,
        kept: tables::Kept::default(),
    })?;
    let misses = |queries| count(size, &folder, queries, stop);
    let [warm, both] = [misses(size.queries)?, misses(2 * size.queries)?];
    let measured = (both as f64 - warm as f64) / size.queries as f64;
    let prepared = graphs::prepare(&folder, 1, EF, 0.0)?.prepared;
    let simulated = simulate(&prepared, size.bytes, size.queries);
    Ok(Case {
        instrument: "cachegrind",
        name: format!("{rows} x {dim}, {} KiB", size.bytes >> 10),
        figure: "misses a query",
        measured: Spread::of([measured].into_iter()),
        simulated: Spread::of([simulated].into_iter()),
        goal: 0.05,
    })
}

/// Misses of the last level, of `queries` searches and of starting the program.
fn count(size: &Size, folder: &Path, queries: u64, stop: &AtomicBool) -> anyhow::Result<u64> {
    let report = tempfile::NamedTempFile::new()?;
    let [last, first] = WAYS;
    let mut words: Vec<OsString> = vec!["--tool=cachegrind".into(), "--cache-sim=yes".into()];
    words.push(format!("--LL={},{last},64", size.bytes).into());
    words.push(format!("--D1={L1_BYTES},{first},64").into());
    words.push(format!("--I1={L1_BYTES},{first},64").into());
    words.push(format!("--cachegrind-out-file={}", report.path().display()).into());
    words.push(std::env::current_exe()?.into());
    words.extend(["search", "--folder"].map(Into::into));
    words.push(folder.into());
    words.extend(["--queries", &queries.to_string(), "--ef", &EF.to_string()].map(Into::into));
    // Valgrind knows no AVX-512.
    let mut command = Command::new("valgrind");
    command.args(words).env("CHIPLET_SIMD", "avx2");
    child::run(&mut command, false, stop)?;
    let text = std::fs::read_to_string(report.path())?;
    misses(&text).with_context(|| format!("cachegrind's report has no misses: {text:.300}"))
}

/// Misses of the last level, as cachegrind's report sums them up.
fn misses(report: &str) -> Option<u64> {
    let line = |name| report.lines().find_map(|line| line.strip_prefix(name));
    let events = line("events:")?.split_whitespace();
    let sums = line("summary:")?.split_whitespace();
    let of = |(event, sum): (&str, &str)| {
        let counts = ["ILmr", "DLmr", "DLmw"].contains(&event);
        Some(if counts { sum.parse().ok()? } else { 0 })
    };
    events.zip(sums).map(of).sum()
}

/// Misses a query of one core whose only cache has `bytes`.
#[must_use]
pub fn simulate(prepared: &Prepared, bytes: u64, queries: u64) -> f64 {
    let costs = Costs {
        l2_bytes: 0,
        ways: Some(Ways {
            l2: WAYS[1],
            l3: WAYS[0],
        }),
        ..Costs::GENOA
    };
    let machine = Machine::new("one core", chiplet::Topology::uniform(1, 1, bytes), costs);
    let mut scenario = Scenario::new(&machine, prepared, Strategy::CCD_AWARE);
    scenario.load = Load::Saturated { outstanding: 1 };
    (scenario.warmup, scenario.measured) = (queries, queries);
    scenario.settled = false;
    scenario.seed = SEED;
    scenario.run(&mut |_| ()).l3_misses_per_query
}
