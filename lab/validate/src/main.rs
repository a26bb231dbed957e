//! `chiplet-validate`: the simulator against emulated caches, the real executor and cachegrind, as one table.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use chiplet_validate::case::{self, Case};
use chiplet_validate::{cachegrind, child, emulated, host};
use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;

/// Compares the simulator with emulated caches, with the real executor on this machine, and with cachegrind.
///
/// Each instrument runs a workload, and `chiplet-simulate`'s model gets the same machine, the same graphs and the same
/// queries. The table says how far the two are apart. results/lab/2026-11/validation.md has the causes of what is
/// outside.
#[derive(Parser)]
#[command(name = "chiplet-validate", args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
struct Arguments {
    /// What to compare with; all that is installed without it
    #[arg(long, value_name = "A,B,..", value_delimiter = ',', value_enum)]
    parts: Vec<Part>,

    /// Small graphs and short rounds: a few minutes instead of a quarter of an hour
    #[arg(long)]
    quick: bool,

    /// Where the figures go
    #[arg(long, default_value = "target/validate.json")]
    json: PathBuf,

    /// Graphs are built here once; runs leave nothing else behind
    #[arg(long, default_value = "target/caches")]
    folder: PathBuf,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    #[command(hide = true)]
    Search(cachegrind::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  make validate                             builds what is needed and compares all; a quarter of an hour on two cores
  make validate QUICK=1                     small graphs, short rounds
  make validate ARGS='--parts cachegrind'   one instrument
  chiplet-validate --parts executor         the real executor alone; wants a machine that is otherwise idle

A difference is (simulator - instrument) / instrument, of medians. In brackets: the least and the most of the runs.
Exit status: 0 whatever the table says; 1 if a part failed; 2 for input that cannot be used.";

/// An instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// `make caches`: the executor on modelled caches, under QEMU.
    Emulated,
    /// The real executor on this machine's private L2s.
    Executor,
    /// One thread under valgrind.
    Cachegrind,
}

/// All of it, for the file.
#[derive(Serialize, Default)]
struct Report {
    command: String,
    cpu: String,
    /// Over one minute, before and after the executor's rounds.
    load_average: Vec<String>,
    /// As the simulator got it for the executor's cases.
    machine: Option<String>,
    cases: Vec<Compared>,
    skipped: Vec<String>,
}

#[derive(Serialize)]
struct Compared {
    #[serde(flatten)]
    case: Case,
    difference: f64,
    within: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.command {
        Some(Command::Search(search)) => cachegrind::search(search),
        None => validate(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("validate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn validate(arguments: &Arguments) -> anyhow::Result<()> {
    let stop = child::stop_on_ctrl_c()?;
    let parts = match arguments.parts.as_slice() {
        [] => Part::value_variants(),
        parts => parts,
    };
    let mut report = Report {
        command: std::env::args().collect::<Vec<_>>().join(" "),
        cpu: cpu(),
        ..Report::default()
    };
    let mut cases = Vec::new();
    for &part in parts {
        let there = match part {
            Part::Emulated => emulated::is_there(),
            Part::Executor => Ok(()),
            Part::Cachegrind => cachegrind::is_there(),
        };
        if let Err(reason) = there {
            let skipped = format!("{part:?} skipped: {reason}").to_lowercase();
            eprintln!("validate: {skipped}");
            report.skipped.push(skipped);
            continue;
        }
        run(part, arguments, &mut report, &mut cases, &stop)?;
    }
    print!("{}", case::show(&cases));
    println!("{}", report.cpu);
    if let (Some(machine), [before, after]) = (&report.machine, &report.load_average[..]) {
        println!(
            "as the executor's simulation had it: {machine}; load average {before} before, {after} after"
        );
    }
    for skipped in &report.skipped {
        println!("{skipped}");
    }
    report.cases = cases
        .into_iter()
        .map(|case| Compared {
            difference: case.difference(),
            within: case.is_within(),
            case,
        })
        .collect();
    if let Some(folder) = arguments.json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_string_pretty(&report)? + "\n";
    let name = || arguments.json.display().to_string();
    std::fs::write(&arguments.json, text).with_context(name)?;
    println!("Figures: {}", name());
    Ok(())
}

fn run(
    part: Part,
    arguments: &Arguments,
    report: &mut Report,
    cases: &mut Vec<Case>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (quick, folder) = (arguments.quick, &arguments.folder);
    let scratch = tempfile::tempdir()?;
    match part {
        Part::Emulated => {
            for size in if quick {
                &["small"][..]
            } else {
                &["small", "full"]
            } {
                eprintln!("validate: emulated caches, {size}");
                let runs = emulated::Runs { size, repeats: 3 };
                cases.extend(emulated::compare(&runs, folder, scratch.path(), stop)?);
            }
        }
        Part::Executor => {
            report.load_average.push(load());
            let host = host::Host::detect()?;
            eprintln!("validate: this machine: {}", host.text());
            report.machine = Some(host.text());
            let rounds = host::Rounds {
                count: if quick { 5 } else { 11 },
                seconds: if quick { [0.4, 0.2] } else { [1.0, 0.3] },
            };
            for tables in &host::WORKLOADS {
                eprintln!("validate: the executor, {} tables", tables.count);
                cases.push(host.compare(tables, &rounds, scratch.path(), stop)?);
            }
            report.load_average.push(load());
        }
        Part::Cachegrind => {
            for size in &cachegrind::sizes(quick) {
                eprintln!("validate: cachegrind, {} KiB", size.bytes >> 10);
                cases.push(cachegrind::compare(size, folder, stop)?);
            }
        }
    }
    Ok(())
}

/// The processor as the system names it, and how many of its cpus there are.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find(|line| line.starts_with("model name"));
    let name = named.and_then(|line| line.split(": ").nth(1));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cpus} cpus", name.unwrap_or("unknown"))
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
