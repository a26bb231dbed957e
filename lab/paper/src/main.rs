//! `chiplet-paper`: simulates what the paper claims, and writes the page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use chiplet_paper::evidence::Evidence;
use chiplet_paper::runs::{Kind, Results, TOPICS};
use chiplet_paper::{groups, page, parts, picture};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

/// The claims of arXiv 2605.10090 beside what the simulator gives.
///
/// Simulates the paper's systems and ours on a Genoa and a Rome, without and with locality of queries, keeps the
/// figures in paper.json, and writes paper.md, img/locality.svg and img/size.svg from them. Everything is modelled.
#[derive(Parser)]
#[command(name = "chiplet-paper", version, after_help = EXAMPLES)]
struct Arguments {
    /// The folder of paper.json, paper.md and the pictures in img
    #[arg(long, value_name = "FOLDER", default_value = "results/lab/2026-11")]
    into: PathBuf,

    /// Write the page from the kept figures; nothing is simulated
    #[arg(long, conflicts_with_all = ["queries", "seed", "seeds"])]
    kept: bool,

    /// Print what the coarse parts of the model change, for tables of this kind without or with topics, and write no
    /// file
    #[arg(long, value_name = "KIND", value_parser = ["hnsw", "hnsw-topics", "ivf", "ivf-topics"], conflicts_with_all = ["kept", "evidence", "into"])]
    parts: Option<String>,

    /// What emulated caches or a machine gave for the paper's tables, to be kept and shown beside the model: the file
    /// of chiplet-caches run --workload paper-hnsw --json, or of chiplet bench --workload paper-hnsw (or paper-ivf)
    /// --json
    #[arg(long, value_name = "FILE.json")]
    evidence: Vec<PathBuf>,

    /// Queries that are counted in each run; a third as many before them warm the caches
    #[arg(long, value_name = "N", default_value_t = 40_000,
        value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    queries: u64,

    /// Same seed, same tables and queries
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// So many seeds in a row for the claims and the scaling; all else is run with the first
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
}

const EXAMPLES: &str = "\
Examples:
  chiplet-paper                              the page as it is kept: twenty minutes on two cores
  chiplet-paper --seeds 3                    with the spread over three draws of tables: an hour
  chiplet-paper --kept                       the page again, from the kept paper.json
  chiplet-paper --kept --evidence hnsw.json  with a column for what chiplet bench measured
  chiplet-paper --queries 1000 --into /tmp   a quick look, too short for figures
  chiplet-paper --parts hnsw --seeds 3 --queries 12000
                                             what each coarse part of the model changes: half an hour
Exit status: 0 whatever the figures are; 1 if something failed; 2 for input that cannot be used.";

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chiplet-paper: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(kind) = &arguments.parts {
        let case = match kind.as_str() {
            "hnsw" => (Kind::Hnsw, None),
            "hnsw-topics" => (Kind::Hnsw, Some(TOPICS)),
            "ivf" => (Kind::Ivf, None),
            _ => (Kind::Ivf, Some(TOPICS)),
        };
        let bar = progress("parts of the model");
        let seeds = (arguments.seed, arguments.seeds);
        let table = parts::table(case, seeds, arguments.queries, |done, all| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        print!("{}", table?);
        return Ok(());
    }
    let file = arguments.into.join("paper.json");
    let mut results: Results = match arguments.kept {
        true => {
            let text = std::fs::read_to_string(&file).with_context(|| {
                format!(
                    "{} cannot be read; without --kept it is made",
                    file.display()
                )
            })?;
            serde_json::from_str(&text).with_context(|| {
                format!("{} is of another version; leave out --kept", file.display())
            })?
        }
        false => {
            std::fs::create_dir_all(arguments.into.join("img"))
                .with_context(|| format!("--into {}", arguments.into.display()))?;
            simulate(arguments)?
        }
    };
    if !arguments.kept
        && let Ok(text) = std::fs::read_to_string(&file)
        && let Ok(before) = serde_json::from_str::<Results>(&text)
    {
        // It is of other programs, and stays until they are run again.
        results.evidence = before.evidence;
    }
    for path in &arguments.evidence {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        let found = Evidence::read(&text).with_context(|| path.display().to_string())?;
        let other = |kept: &Evidence| (kept.how, kept.kind) != (found.how, found.kind);
        results.evidence.retain(other);
        results.evidence.push(found);
    }
    let page = page::page(&results)?;
    let locality = picture::locality(&results)?;
    let sizes = results
        .has_sizes()
        .then(|| picture::sizes(&results))
        .transpose()?;
    // All of it is made before the first file is written.
    if !arguments.kept || !arguments.evidence.is_empty() {
        write(&file, &(serde_json::to_string_pretty(&results)? + "\n"))?;
    }
    write(&arguments.into.join("paper.md"), &page)?;
    write(&arguments.into.join("img/locality.svg"), &locality)?;
    match sizes {
        Some(sizes) => write(&arguments.into.join("img/size.svg"), &sizes),
        None => Ok(()),
    }
}

fn simulate(arguments: &Arguments) -> anyhow::Result<Results> {
    let bar = progress("tables and machines");
    let seeds = (arguments.seed, arguments.seeds);
    let date = jiff::Zoned::now().date().to_string();
    let results = groups::simulate(date, seeds, arguments.queries, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    results
}

fn progress(of: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let template = format!("{{bar:30}} {{pos}}/{{len}} {of} ({{elapsed}})");
    let style = ProgressStyle::with_template(&template);
    bar.set_style(style.expect("the template is valid"));
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}

/// As a whole or not at all.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let written = || {
        std::fs::write(&new, text)?;
        std::fs::rename(&new, path)
    };
    written().with_context(|| format!("{} cannot be written", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}
