//! The comparison on an emulated machine: a kernel, real detection and pinning. Only misses are counted.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use chiplet_caches::emulator;
use chiplet_caches::model::counts::Counts;
use chiplet_caches::model::parts::{self, Part};
use chiplet_caches::seen::{Config, Seen, Told};
use chiplet_caches::tables;
use chiplet_vm::{Boot, Image, Outcome, Shape};

use super::{QUANTUM_NS, Scratch, Wires, child, small_caches};
use crate::inside;
use crate::program::{self, Work};

/// Checks on an emulated machine, with real detection and pinning, that placement saves misses of the L3.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// `small`: 2 domains of 8 cores. `large`: 12.
    #[arg(value_enum, default_value_t = Size::Small)]
    size: Size,
    /// The strategy that must have less than half the misses of `round-robin` and of `global-steal`.
    #[arg(long, default_value = "ccd-aware")]
    placed: String,
    /// `one`: all cores on one L3, so the check must fail.
    #[arg(long, value_enum, default_value_t = Wires::Straight)]
    wiring: Wires,
    /// Tables are built here once.
    #[arg(long, default_value = "target/caches")]
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Size {
    Small,
    Large,
}

const BLIND: [&str; 2] = ["round-robin", "global-steal"];
/// What placement must save.
const SAVES: u64 = 2;
/// Of each domain: the L3 holds them, and no two domains' tables.
const TABLES: u32 = 2;
/// Where they are inside.
const FOLDER: &str = "/tables";

pub fn vm(arguments: &Arguments) -> anyhow::Result<()> {
    let lacks = emulator::lacks("qemu-system-x86_64", "qemu-system-x86");
    let kernel = match (lacks, chiplet_vm::kernel()) {
        (None, Ok(kernel)) => kernel,
        (Some(reason), _) => return skip(&reason),
        (None, Err(reason)) => return skip(reason),
    };
    // QEMU gets the same signal and ends, so whoever waits for it ends too, and leaves nothing behind.
    child::stop_on_ctrl_c()?;
    let shape = arguments.shape();
    let part = small_caches(
        Part::named(parts::NAMES[0]).expect("it is one of them"),
        (shape.domains, shape.cores),
    );
    let strategies = [BLIND[0], BLIND[1], &arguments.placed];
    let tables = tables::Arguments {
        folder: arguments.folder.join("vm"),
        tables: (TABLES * shape.domains) as usize,
        rows: 1_500,
        dim: 64,
        kept: tables::Kept::default(),
    };
    tables::run(&tables)?;
    let scratch = Scratch::new(&arguments.folder)?;
    let config = Config {
        wiring: arguments.wiring.of(&part),
        part,
        page_bytes: 4096,
        quantum_ns: QUANTUM_NS,
        bounces: false,
        report: scratch.0.join("seen.json"),
    };
    let program = arguments.program(&shape, &config.part);
    let outcome = boot(&shape, &kernel, &config, &scratch.0, &tables, &{
        strategies.map(|strategy| program::Arguments {
            strategy: strategy.to_owned(),
            ..program.clone()
        })
    })?;
    let seen = fs::read(&config.report).context("the plugin has reported nothing")?;
    let seen: Vec<Seen> = serde_json::from_slice(&seen)?;
    let told = outcome.console.iter();
    let told: Vec<Told> = told
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).with_context(|| format!("it said {line:?}")))
        .collect::<anyhow::Result<_>>()?;
    ensure!(
        (seen.len(), told.len()) == (strategies.len(), strategies.len()),
        "of {} strategies the plugin has seen {} and {} have told their figures",
        strategies.len(),
        seen.len(),
        told.len()
    );
    let runs: Vec<StrategyCounts> = strategies
        .iter()
        .zip(seen.iter().zip(&told))
        .map(|(&strategy, (seen, told))| StrategyCounts::new(strategy, seen, told))
        .collect();
    print!("{}", show(&runs));
    check(&runs)?;
    println!(
        "verify: misses of the L3 on an emulated machine of {} x {} cores, modelled | 1 checks in the machine | {} s",
        shape.domains, shape.cores, outcome.seconds
    );
    Ok(())
}

fn skip(reason: &str) -> anyhow::Result<()> {
    println!("vm: misses of the L3 skipped: {reason}");
    Ok(())
}

impl Arguments {
    /// One NUMA node, so that where tables lie says nothing about where they should be served.
    fn shape(&self) -> Shape {
        Shape {
            nodes: 1,
            ..match self.size {
                Size::Small => Shape::SMALL,
                Size::Large => Shape::LARGE,
            }
        }
    }

    fn program(&self, shape: &Shape, part: &Part) -> program::Arguments {
        let workers = (shape.domains * shape.cores) as usize;
        program::Arguments {
            folder: FOLDER.into(),
            tables: (TABLES * shape.domains) as usize,
            work: Work::Graphs,
            strategy: String::new(),
            domains: shape.domains,
            cores: shape.cores,
            l3_bytes: part.l3_bytes,
            detect: true,
            queries: 12 * workers,
            warm: 12 * workers,
            under_way: 2,
            clients: 4,
            skew: 0.0,
            seed: 1,
            ef: 64,
        }
    }
}

/// Packs programs and tables, boots a machine with them, and waits for its end.
fn boot(
    shape: &Shape,
    kernel: &Path,
    config: &Config,
    scratch: &Path,
    tables: &tables::Arguments,
    programs: &[program::Arguments],
) -> anyhow::Result<Outcome> {
    let words: Vec<Vec<String>> = programs
        .iter()
        .map(|program| {
            let words = program.to_words().into_iter();
            words
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        })
        .collect();
    let runs = scratch.join("runs.json");
    fs::write(&runs, serde_json::to_vec(&words)?)?;
    let mut files = vec![(inside::RUNS.into(), runs)];
    for table in 0..tables.tables {
        for file in [tables::graph, tables::queries] {
            files.push((file(Path::new(FOLDER), table), file(&tables.folder, table)));
        }
    }
    let path = scratch.join("config.json");
    fs::write(&path, serde_json::to_vec(config)?)?;
    let plugin = child::plugin(&std::env::current_exe()?)?;
    let machine = Boot {
        shape,
        kernel,
        image: &Image::pack(&files)?,
        arguments: &["inside".to_owned()],
        emulator: &[
            "-plugin".into(),
            format!("{},config={}", plugin.display(), path.display()).into(),
        ],
    };
    Ok(machine.run()?)
}

/// What one strategy did.
struct StrategyCounts<'a> {
    strategy: &'a str,
    queries: u64,
    counts: Counts,
    /// Tasks that another domain's workers took, and all.
    stolen: [u64; 2],
}

impl<'a> StrategyCounts<'a> {
    fn new(strategy: &'a str, seen: &Seen, told: &Told) -> Self {
        let mut counts = Counts::default();
        for domain in &seen.domains {
            counts.add(domain);
        }
        Self {
            strategy,
            queries: told.queries,
            counts,
            stolen: [told.steals[2], told.steals.iter().sum()],
        }
    }

    /// Misses of the L3.
    fn misses(&self) -> u64 {
        self.counts.l3_misses / self.queries
    }
}

fn show(runs: &[StrategyCounts]) -> String {
    let mut text = "Modelled, a query:\n".to_owned();
    let heads = ["L1 accesses", "L2 misses", "L3 misses", "stolen across"];
    let _ = writeln!(
        text,
        "{:<16}{:>14}{:>14}{:>14}{:>16}",
        "strategy", heads[0], heads[1], heads[2], heads[3]
    );
    for run in runs {
        let [across, all] = run.stolen;
        let _ = writeln!(
            text,
            "{:<16}{:>14}{:>14}{:>14}{:>14} %",
            run.strategy,
            run.counts.l1_accesses / run.queries,
            run.counts.l2_misses / run.queries,
            run.misses(),
            100 * across / all.max(1)
        );
    }
    text
}

/// The last strategy must have far fewer misses than each of the others.
fn check(runs: &[StrategyCounts]) -> anyhow::Result<()> {
    let Some((placed, others)) = runs.split_last() else {
        return Ok(());
    };
    for other in others {
        ensure!(
            placed.misses() * SAVES < other.misses(),
            "{} has {} misses of the L3 a query and {} has {}: not less than one in {SAVES}",
            placed.strategy,
            placed.misses(),
            other.strategy,
            other.misses()
        );
    }
    Ok(())
}
