//! The whole of chiplet on real vectors, in one command: `make demo`.
//!
//! Builds twelve HNSW tables from GloVe word vectors and reads two IVF tables, serves mixed, skewed traffic at an
//! open-loop rate that this machine can hold, moves the hot set half-way so that tables must move, and prints
//! what it measured: recall against exact search, throughput, latency, steals, placements. The same goes to
//! `target/demo.json`, and as pictures to `target/demo.html`.

mod page;
mod report;
mod serve;
mod tables;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use chiplet::shutdown::Shutdown;
use chiplet::snapshot::RemapEvent;
use chiplet::topology::LevelChoice;
use chiplet::{Executor, Topology};
use clap::Parser;

/// Serve real word vectors with chiplet and see what it does.
///
/// Takes about a minute: builds the tables, measures what the machine can hold, then sends queries at a part
/// of that for twice SECONDS, moving the hot set half-way. Ctrl-C ends it early with the report so far.
#[derive(Parser)]
#[command(name = "demo")]
struct Arguments {
    /// Length of each of the two phases
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Part of the measured saturation to send, in percent
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=95))]
    load: u64,
    /// Which cache makes a domain; without it L3, or L2 on a machine with a single L3
    #[arg(long)]
    level: Option<LevelChoice>,
    /// Folder that holds `glove-50d`
    #[arg(long, default_value = "datasets")]
    data: PathBuf,
    /// Where the figures go as JSON
    #[arg(long, default_value = "target/demo.json")]
    json: PathBuf,
    /// Where they go as a page with pictures
    #[arg(long, default_value = "target/demo.html")]
    page: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = runtime(&stop)?;

    let topology = machine(arguments.level)?;
    println!("{topology}");

    let words = tables::Words::read(&arguments.data)?;
    let built = tables::build(&words)?;

    let moves = page::Moves::default();
    let seen = moves.clone();
    let executor = Arc::new(
        Executor::builder()
            .topology(topology)
            .on_remap(move |event: &RemapEvent| {
                seen.note(event);
                report::remap(event);
            })
            .build()
            .context("the executor did not start")?,
    );
    report::workers(&executor);
    let tables: Vec<_> = built
        .iter()
        .map(|table| executor.add_table(table.name.as_str(), Arc::clone(&table.index)))
        .collect();

    let equal = serve::compare_with_direct(&executor, &tables, &built)?;
    let saturation = serve::saturate(&executor, &tables, &built, Duration::from_secs(3))?;
    let rate = saturation * arguments.load as f64 / 100.0;
    println!(
        "saturated: {saturation:.0} queries/s; sending {} % of that, {rate:.0}/s",
        arguments.load
    );

    let plan = serve::Plan {
        executor: &executor,
        tables: &tables,
        built: &built,
        runtime: &runtime,
        stop: &stop,
        rate,
        length: Duration::from_secs(arguments.seconds),
    };
    let natural: Vec<usize> = (0..tables.len()).collect();
    let began = moves.start(&executor, &tables);
    let before = plan.run("phase 1", 1, &natural)?;
    report::placement(&executor, &tables, &built, "after phase 1");

    let mut phases = vec![before];
    if !stop.load(Ordering::Relaxed) {
        // The worst flip for a placement: the hottest tables are now those that share one domain.
        let flipped = serve::hot_on_one_domain(&executor, &tables, &built);
        println!("the hot set moves: the most asked tables are now those that share a domain");
        phases.push(plan.run("phase 2", 2, &flipped)?);
        report::placement(&executor, &tables, &built, "after phase 2");
    }

    let outcome = report::Outcome::new(&executor, &built, phases, equal, saturation, rate);
    outcome.print();
    serve::answer_words(
        &executor,
        &tables,
        &built,
        &words,
        &["coffee", "paris", "guitar", "physics"],
    )?;
    report::write(&arguments.json, &outcome.json())?;
    report::write(
        &arguments.page,
        &page::page(&outcome, &moves, began, &tables),
    )?;
    println!("figures: {}", arguments.json.display());
    println!("a page with pictures: {}", arguments.page.display());
    executor.shutdown(Shutdown::Drain(Duration::from_secs(5)));
    Ok(())
}

/// The machine, with its private L2s as domains if there is only one L3: the demo is to show something move.
fn machine(level: Option<LevelChoice>) -> anyhow::Result<Topology> {
    let detect =
        |level| Topology::detect(level).context("this machine's topology could not be read");
    if let Some(level) = level {
        return detect(level);
    }
    let auto = detect(LevelChoice::Auto)?;
    if auto.domains().len() > 1 {
        return Ok(auto);
    }
    match Topology::detect(LevelChoice::L2) {
        Ok(private) if private.domains().len() > 1 => {
            println!(
                "This machine has a single L3, where chiplet behaves like a plain pool. To show placement, the demo\n\
                 takes the private L2 caches as domains; a service here would leave the level at `auto`.\n"
            );
            Ok(private)
        }
        _ => {
            println!("This machine has one cache domain: there is nowhere to move a table to.\n");
            Ok(auto)
        }
    }
}

/// The runtime that waits on tickets, as a service's would, on one thread of its own. Sets `stop` at Ctrl-C.
fn runtime(stop: &Arc<AtomicBool>) -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let stop = Arc::clone(stop);
    runtime.spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if stop.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            eprintln!("stopping; once more to stop at once");
        }
    });
    Ok(runtime)
}
