//! `chiplet-learning`: models of the gain by binding to a NUMA node, on simulated cases, as tables.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use chiplet_learning::family::Size;
use chiplet_learning::model::MODELS;
use chiplet_learning::report::{Report, THEIRS};
use chiplet_learning::split::Way;
use chiplet_learning::study::{Config, judge, simulate, steps};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};
use indicatif::{ProgressBar, ProgressStyle};

/// How well the gain by binding a service to a NUMA node can be predicted, on simulated cases.
///
/// A case is an instance of a service on a machine of two sockets. It is run by the simulator twice: on both nodes, and
/// bound to the node with more of its memory. The first run gives what a monitor would see (MAO's MBW, MSR, NPMR,
/// RMBR); both together give the part of processor time that binding saves. A first-order law, linear regression, a
/// random forest and boosted trees predict that from what is seen. They are tested on a random 15 % of the cases, as
/// MAO tested, and on families (kinds of services) of which they have seen nothing. Everything is modelled.
/// results/lab/2026-11/learning.md tells more.
#[derive(Parser)]
#[command(name = "chiplet-learning", version, after_help = EXAMPLES)]
struct Arguments {
    /// Simulated instances, of all families together
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    cases: usize,

    /// Kinds of services; each has a machine and tables of its own
    #[arg(long, value_name = "N", default_value_t = 20)]
    families: usize,

    /// Same seed, same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Queries that are counted in each run; half as many before them warm the caches
    #[arg(long, value_name = "N", default_value_t = Size::default().queries,
        value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    queries: u64,

    /// Where all figures go, those of each case too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  chiplet-learning                                the tables of results/lab/2026-11/learning.md; a few minutes on two cores
  chiplet-learning --cases 200 --queries 1000     a quick look
  chiplet-learning --seed 2 --json cases.json     other services, and every case in a file

R2: 1 is exact, 0 is as good as the mean of what was measured, less is worse than that mean. Errors are parts of
processor time: 0.025 is 2.5 points. \"By family\" is what to expect of a service that the model has not seen.
Exit status: 0 whatever the figures are; 1 if something failed; 2 for input that cannot be used.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.families < 2 || arguments.cases / 2 < arguments.families {
        let text = format!(
            "--cases {} --families {}: give at least two families, and two cases of each",
            arguments.cases, arguments.families
        );
        let mut command = Arguments::command();
        command.error(ErrorKind::ValueValidation, text).exit();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chiplet-learning: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config {
        cases: arguments.cases,
        families: arguments.families,
        seed: arguments.seed,
        size: Size {
            queries: arguments.queries,
            ..Size::default()
        },
    };
    if let Some(path) = &arguments.json {
        writable(path)?;
    }
    let bar = ProgressBar::new(config.cases as u64);
    let style = "{msg} [{bar:30}] {pos}/{len} ({elapsed}, {eta} left)";
    bar.set_style(ProgressStyle::with_template(style).context("the bar's template")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let on_screen = bar.clone();
    ctrlc::set_handler(move || {
        on_screen.finish_and_clear();
        std::process::exit(130);
    })
    .context("Ctrl-C cannot be handled")?;
    bar.set_message("simulating");
    let (families, samples) = simulate(&config, &|| bar.inc(1))?;
    bar.reset();
    let ways = [Way::Random, Way::Families];
    let all: usize = ways
        .iter()
        .map(|&way| steps(&MODELS, config.families, way))
        .sum();
    bar.set_length(all as u64);
    bar.set_message("learning");
    let mut judged = Vec::new();
    for way in ways {
        judged.extend(judge(&samples, way, &MODELS, config.seed, &|| bar.inc(1))?);
    }
    bar.finish_and_clear();
    let report = Report {
        modelled: true,
        config,
        families,
        theirs: THEIRS,
        judged,
        samples,
    };
    print!("{}", report.text());
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
        println!("\nfigures: {}", path.display());
    }
    Ok(())
}

/// Finds out whether the file can be written before minutes have passed, and leaves none behind.
fn writable(path: &Path) -> anyhow::Result<()> {
    let existed = path.exists();
    let mut options = std::fs::OpenOptions::new();
    let opened = options.create(true).append(true).open(path);
    opened.with_context(|| format!("--json {} cannot be written", path.display()))?;
    if !existed {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
