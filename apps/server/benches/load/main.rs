//! Load on the server as its users see it: from another process, over loopback, at fixed times whatever becomes of the
//! answers. Each experiment runs the same traffic against chiplet and against the baseline
//! (`scheduler.kind = "rayon"`), turn by turn, and prints a table. Everything is bounded and stops by itself.

mod client;
#[path = "../common/mod.rs"]
mod common;
mod experiments;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measures chiplet-server against a tokio + rayon baseline, over loopback.
#[derive(Parser)]
struct Arguments {
    /// Which experiments to run; all of them unless told.
    #[arg(value_enum)]
    experiments: Vec<Experiment>,

    /// Rounds; each runs every scheduler once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,

    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,

    /// `hnsw_ef` of the queries: how much work each is.
    #[arg(long, default_value_t = 768)]
    ef: u64,

    /// Filtered counts instead of searches: each looks into the payloads of all points.
    #[arg(long)]
    count: bool,

    /// Cores that the server leaves to its network threads.
    #[arg(long, default_value_t = 0)]
    reserve: usize,

    /// Another setting of the server, as `SCHEDULER__PATIENCE_MICROS=0`; may be given several times.
    #[arg(long = "set", value_parser = common::setting)]
    settings: Vec<(String, String)>,

    /// The repository's folder `datasets`.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../datasets"))]
    datasets: PathBuf,

    /// cargo bench passes this.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// Sustained load, then one and a half times and twice what the server can do: goodput and latency of what is
    /// accepted.
    Overload,
    /// Quiet collections alone, then beside one that sends twice what the server can do.
    Noisy,
    /// Latency of searches while another collection is loaded and indexed.
    Loading,
    /// Processor time of a server that nobody asks anything.
    Idle,
}

/// What all experiments share.
pub(crate) struct Plan {
    pub(crate) rounds: u32,
    pub(crate) lasting: Duration,
    pub(crate) ef: u64,
    pub(crate) count: bool,
    pub(crate) reserve: usize,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) words: chiplet_bench::workload::dataset::VectorSet,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let words = chiplet_bench::workload::dataset::VectorSet::glove_sample(&arguments.datasets)?;
    let plan = Plan {
        rounds: arguments.rounds,
        lasting: Duration::from_secs(arguments.seconds),
        ef: arguments.ef,
        count: arguments.count,
        reserve: arguments.reserve,
        settings: arguments.settings.clone(),
        words,
    };
    let chosen = |experiment| {
        arguments.experiments.is_empty() || arguments.experiments.contains(&experiment)
    };
    println!(
        "{} rounds of {} s each, {}, {} cores left to the network, on {} cpus\n",
        plan.rounds,
        arguments.seconds,
        match plan.count {
            true => "filtered counts".to_owned(),
            false => format!("hnsw_ef {}", plan.ef),
        },
        plan.reserve,
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    if chosen(Experiment::Overload) {
        experiments::overload(&plan)?;
    }
    if chosen(Experiment::Noisy) {
        experiments::noisy(&plan)?;
    }
    if chosen(Experiment::Loading) {
        experiments::loading(&plan)?;
    }
    if chosen(Experiment::Idle) {
        experiments::idle(&plan)?;
    }
    Ok(())
}
