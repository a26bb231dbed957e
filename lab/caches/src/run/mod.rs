//! Strategies compared: each in a process of its own under QEMU, a few times, all with the same queries.

mod child;
mod control;
mod picture;
mod record;
mod table;
#[cfg(target_os = "linux")]
pub mod vm;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use chiplet_baselines::{PLACEBO, Strategy, deal};
use chiplet_caches::model::Wiring;
use chiplet_caches::model::parts::{self, Part};
use chiplet_caches::seen::Config;
use chiplet_caches::tables;
use chiplet_sim::{Recipe, Table, Workload};
use indicatif::{ProgressBar, ProgressStyle};

pub use self::control::control;
use crate::program::{self, Work};
use chiplet_caches::record::{Constants, Record};

/// Compares strategies on emulated caches. What it prints is modelled.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// `full`: a table of 16,000 x 128 for each L3 domain. `bench`: what `chiplet bench` takes on such a machine: four
    /// tables of 64 components a domain, three quarters of all L3s together, moderate skew. Both with all workers.
    /// `small`: 8 tables of 1,500 x 64, 8 workers, caches to match.
    #[arg(long, value_enum, default_value_t = Shape::Full)]
    shape: Shape,
    /// Graphs and traffic of a workload instead, as chiplet-simulate and chiplet bench run it: paper-hnsw or a TOML
    /// file.
    #[arg(long, value_name = "NAME or FILE.toml", conflicts_with_all = ["rows", "rows_as", "rerank", "skew", "work"])]
    workload: Option<String>,
    /// All tables' rows times this.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    size: f64,
    /// The processor's first domains alone.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ccds: Option<u32>,
    /// Strategies of chiplet's, `rayon`, and `placebo`: `ccd-aware-fifo` whose workers of a domain share no cache.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "rayon,round-robin,global-steal,placebo,ccd-aware-bytes,ccd-aware-fifo,ccd-aware"
    )]
    strategies: Vec<String>,
    /// Runs of each strategy; each has other queries, the same for all strategies.
    #[arg(long, default_value_t = 5)]
    repeats: u64,
    /// The processor.
    #[arg(long, default_value = parts::NAMES[0], value_parser = clap::builder::PossibleValuesParser::new(parts::NAMES))]
    part: String,
    /// `one`: all workers on one L3, strategies must tie. `permuted`: domains change places, nothing must change.
    #[arg(long, value_enum, default_value_t = Wires::Straight)]
    wiring: Wires,
    /// What is asked. `scan`: every query reads a table that no cache holds; strategies must tie.
    #[arg(long, value_enum, default_value_t = Work::Graphs)]
    work: Work,
    /// Popularity of the n-th table is n to the minus this [default: 0, which is uniform; 0.5 with `bench`].
    #[arg(long)]
    skew: Option<f64>,
    /// Page size: 4096 or 2097152.
    #[arg(long, default_value_t = 4096, value_parser = page_bytes)]
    page_bytes: u64,
    /// What a link to memory carries, in GB/s, instead of the part's.
    #[arg(long)]
    link_gbs: Option<f64>,
    /// Vectors in each table, instead of the size's.
    #[arg(long)]
    rows: Option<usize>,
    #[command(flatten)]
    kept: tables::Kept,
    /// Waits for memory that a core has at a time, instead of the part's.
    #[arg(long)]
    overlap: Option<f64>,
    /// Say which lines of the program cross between domains most, and where.
    #[arg(long)]
    bounces: bool,
    /// Where the figures go.
    #[arg(long, default_value = "target/caches.json")]
    json: PathBuf,
    /// Where the picture goes.
    #[arg(long, default_value = "target/caches.html")]
    picture: PathBuf,
    /// Tables are built here once, and runs leave nothing else behind.
    #[arg(long, default_value = "target/caches")]
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Shape {
    Full,
    Bench,
    Small,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Wires {
    Straight,
    One,
    Permuted,
}

impl Wires {
    fn of(self, part: &Part) -> Wiring {
        match self {
            Self::Straight => Wiring::Straight,
            Self::One => Wiring::One,
            // Five has no factor in common with any part's number of domains.
            Self::Permuted => {
                let domains = part.domains as u16;
                let to = (0..domains).map(|domain| (domain * 5 + 2) % domains);
                Wiring::Permuted(to.collect())
            }
        }
    }
}

/// The placebo's wiring: cores dealt at random, as `chiplet bench` deals them on a real machine.
fn dealt(part: &Part, seed: u64) -> Wiring {
    let cores = part.cores as usize;
    let domains = deal(&vec![cores; part.domains as usize], seed);
    let l3_of = |core: usize| (core / cores) as u16;
    Wiring::Dealt(domains.concat().into_iter().map(l3_of).collect())
}

/// The part with so many domains and cores of each, and with caches for tables of 1,500 x 64.
fn small_caches(part: Part, (domains, cores): (u32, u32)) -> Part {
    Part {
        domains,
        cores,
        l1_bytes: 16 << 10,
        l1_ways: 8,
        l2_bytes: 64 << 10,
        l3_bytes: 1 << 20,
        name: format!("{}, caches a sixteenth to a thirty-second", part.name),
        ..part
    }
}

fn page_bytes(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(bytes @ (4096 | 2_097_152)) => Ok(bytes),
        _ => Err("pages have 4096 or 2097152 bytes".to_owned()),
    }
}

/// Components of the vectors that `chiplet bench` draws.
const BENCH_DIM: usize = 64;

/// Rows of each of four tables a domain, so that all fill three quarters of the L3s: with 4 bytes a component and 136
/// of links, as `chiplet bench` counts them.
fn bench_rows(part: &Part) -> usize {
    (part.l3_bytes as f64 * 0.75 / 4.0) as usize / (4 * BENCH_DIM + 136)
}

/// Modelled time that threads may be apart.
const QUANTUM_NS: u64 = 2000;

impl Arguments {
    fn part(&self) -> Part {
        let mut part = Part::named(&self.part).expect("clap knows the names");
        if let Shape::Small = self.shape {
            part = small_caches(part, (4, 2));
            if self.work == Work::Scan {
                // A scanned table of 512 KiB must not fit.
                part.l3_bytes = 128 << 10;
            }
        }
        part.domains = self.ccds.unwrap_or(part.domains).min(part.domains);
        part.link_gbs = self.link_gbs.unwrap_or(part.link_gbs);
        part.overlap = self.overlap.unwrap_or(part.overlap);
        part
    }

    fn skew(&self) -> f64 {
        let moderate = if let Shape::Bench = self.shape {
            0.5
        } else {
            0.0
        };
        self.skew.unwrap_or(moderate)
    }

    /// The workload, if one is named, with its tables cut to `--size`.
    fn workload(&self) -> anyhow::Result<Option<Workload>> {
        let Some(name) = &self.workload else {
            return Ok(None);
        };
        let recipe = Recipe::open(name).with_context(|| format!("--workload {name}"))?;
        Ok(Some(recipe.resized(self.size).workload(1)))
    }

    /// Builds the tables that are not there yet, and says which they are.
    fn build(&self, part: &Part) -> anyhow::Result<tables::Arguments> {
        let Some(workload) = self.workload()? else {
            let tables = self.tables(part);
            tables::run(&tables)?;
            return Ok(tables);
        };
        let count = workload.tables.len();
        let rows = workload.tables.iter().map(Table::rows).sum::<u64>() as usize / count;
        let dims = workload.tables.iter().map(|table| table.dim() as usize);
        let mut hash = DefaultHasher::new();
        // With k, which the model leaves out.
        format!("{workload:?}").hash(&mut hash);
        let folder = self
            .folder
            .join(format!("{}-{:016x}", workload.name, hash.finish()));
        tables::build(&folder, &workload, 1)?;
        Ok(tables::Arguments {
            folder,
            tables: count,
            rows,
            dim: dims.sum::<usize>() / count,
            kept: tables::Kept {
                rows_as: workload.tables[0].rows_as(),
                rerank: workload.tables[0].rerank().map(|rerank| rerank.rows_as),
            },
        })
    }

    fn tables(&self, part: &Part) -> tables::Arguments {
        let (tables, rows, dim) = match self.shape {
            Shape::Full => (part.domains as usize, 16_000, 128),
            Shape::Bench => (4 * part.domains as usize, bench_rows(part), BENCH_DIM),
            Shape::Small => (8, 1_500, 64),
        };
        let rows = self.rows.unwrap_or(rows);
        let rows = ((rows as f64 * self.size) as usize).max(100);
        tables::Arguments {
            folder: tables::folder(&self.folder, tables, rows, dim, self.kept),
            tables,
            rows,
            dim,
            kept: self.kept,
        }
    }

    fn program(
        &self,
        part: &Part,
        (tables, skew): (&tables::Arguments, f64),
        (strategy, repeat): (&str, u64),
    ) -> program::Arguments {
        let workers = (part.domains * part.cores) as usize;
        let (warm, queries, clients) = match (self.shape, self.work) {
            (Shape::Full, _) => (22 * workers, 22 * workers, workers / 4),
            // Four times the tables, of which a search of half the candidates reads less: it takes longer until caches
            // hold them.
            (Shape::Bench, _) => (66 * workers, 44 * workers, workers / 2),
            (Shape::Small, Work::Graphs) => (400, 600, 4),
            (Shape::Small, Work::Scan) => (40, 200, 4),
        };
        program::Arguments {
            folder: tables.folder.clone(),
            tables: tables.tables,
            work: self.work,
            strategy: match strategy {
                PLACEBO => Strategy::CCD_AWARE_FIFO.name.to_owned(),
                other => other.to_owned(),
            },
            domains: part.domains,
            cores: part.cores,
            l3_bytes: part.l3_bytes,
            detect: false,
            queries,
            warm,
            // Searches of `bench` are short: with two for each worker, workers wait for clients half of the time.
            under_way: match self.shape {
                Shape::Bench => 6,
                Shape::Full | Shape::Small => 2,
            },
            clients,
            skew,
            seed: repeat + 1,
            ef: match self.shape {
                Shape::Bench => 32,
                Shape::Full | Shape::Small => 64,
            },
        }
    }

    fn config(&self, part: Part, (strategy, repeat): (&str, u64), report: PathBuf) -> Config {
        Config {
            wiring: match strategy {
                PLACEBO => dealt(&part, repeat + 1),
                _ => self.wiring.of(&part),
            },
            part,
            page_bytes: self.page_bytes,
            quantum_ns: QUANTUM_NS,
            bounces: self.bounces,
            report,
        }
    }
}

/// A folder for one comparison's files, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(format!("caches-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let begun = Instant::now();
    let qemu = child::version()?;
    let stop = child::stop_on_ctrl_c()?;
    let part = arguments.part();
    let tables = arguments.build(&part)?;
    let skew = match arguments.workload()? {
        Some(workload) => workload.table_skew,
        None => arguments.skew(),
    };
    let scratch = Scratch::new(&arguments.folder)?;
    let total = arguments.repeats * arguments.strategies.len() as u64;
    let style = ProgressStyle::with_template(
        "caches: {pos}/{len} runs, {elapsed}, about {eta} left: {msg}",
    );
    let bar = ProgressBar::new(total).with_style(style.expect("the template is well formed"));
    let program = arguments.program(&part, (&tables, skew), ("", 0));
    let mut record = Record {
        note: "modelled: emulated caches and modelled time, not measured on such a machine"
            .to_owned(),
        machine: part,
        constants: Constants {
            qemu,
            wiring: format!("{:?}", arguments.wiring).to_lowercase(),
            work: format!("{:?}", arguments.work).to_lowercase(),
            skew,
            page_bytes: arguments.page_bytes,
            quantum_ns: QUANTUM_NS,
            tables: tables.tables,
            workload: arguments.workload.clone(),
            size: arguments.size,
            rows: tables.rows,
            dim: tables.dim,
            rows_as: tables.kept.to_string(),
            ef: program.ef,
            warm: program.warm,
            queries: program.queries,
            under_way: program.under_way,
            folder: tables.folder.clone(),
            host_seconds: 0,
        },
        runs: Vec::new(),
    };
    for repeat in 0..arguments.repeats {
        for strategy in &arguments.strategies {
            bar.set_message(format!("{strategy}, repeat {}", repeat + 1));
            if bar.is_hidden() {
                eprintln!(
                    "caches: run {} of {total}: {strategy}",
                    record.runs.len() + 1
                );
            }
            bar.tick();
            let part = &record.machine;
            let config = arguments.config(
                part.clone(),
                (strategy, repeat),
                scratch.0.join("seen.json"),
            );
            let program = arguments.program(part, (&tables, skew), (strategy, repeat));
            let (seen, told) = child::run(&config, &scratch.0, &program.to_words(), &stop)
                .with_context(|| format!("{strategy}, repeat {}", repeat + 1))?;
            let run = record::run(strategy, repeat, part.cores, seen, told)?;
            record.runs.push(run);
            bar.inc(1);
        }
        // Strategies take turns, and a comparison that is stopped keeps the repeats that were complete.
        record.constants.host_seconds = begun.elapsed().as_secs();
        write(&arguments.json, &serde_json::to_string_pretty(&record)?)?;
        write(&arguments.picture, &picture::draw(&record))?;
    }
    bar.finish_and_clear();
    print!("{}", table::show(&record));
    println!(
        "Figures: {}, picture: {}",
        arguments.json.display(),
        arguments.picture.display()
    );
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
