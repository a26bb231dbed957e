//! `chiplet bench`: strategies compared on the same tables and the same queries, in interleaved rounds of one run.
//!
//! | file | holds |
//! |---|---|
//! | `arguments` | the command line: strategies, tables, rates |
//! | `sizes` | how large tables are on this machine, and what they can show there |
//! | `recipe` | `--workload`: a workload that is written down, drawn |
//! | `dataset`, `tables` | vectors and queries; an index over each part of them, with exact answers |
//! | `recorder` | how each query ended |
//! | `pools` | what is compared: chiplet's strategies, other pools |
//! | `generator`, `usage` | one round: sending, and what that took |
//! | `summary` | medians, ratios, fairness |
//! | `series` | the whole run: saturation, rounds in turn, the sweep, placements |
//! | `scaling` | the run at several sizes, on several numbers of domains |
//! | `direct` | one table's own search, without an executor |
//! | `modes` | ways to deploy a service, as processes |
//! | `machine`, `kernel` | what the report says of the machine, and of how its kernel is set |
//! | `report` | text, JSON and the HTML page |
//!
//! Each uses those above it, and the values of `report`.

mod arguments;
mod dataset;
mod direct;
mod generator;
mod kernel;
mod machine;
mod modes;
mod pools;
mod recipe;
mod recorder;
pub(crate) mod report;
mod scaling;
mod series;
mod sizes;
mod summary;
mod tables;
mod usage;
#[cfg(feature = "usearch")]
mod usearch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;

pub(crate) use arguments::Arguments;
use chiplet_bench::output::{writable, write};
use report::chart;
use sizes::Caches;

/// Runs the comparison; what is returned goes to standard output.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<String> {
    arguments.check()?;
    if arguments.modes.instance {
        return modes::instance(arguments);
    }
    // Found out now, not after minutes of measuring.
    for path in [&arguments.json, &arguments.report, &arguments.picture]
        .into_iter()
        .flatten()
    {
        writable(path)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            modes::put_back();
            std::process::exit(130);
        }
        eprintln!("\nstopping with what has been measured; once more to stop at once");
    })
    .context("Ctrl-C cannot be handled")?;
    if arguments.direct.direct {
        return direct::run(arguments, &stop);
    }
    let topology = machine::topology(arguments, |text| eprintln!("{text}"))?;
    if !arguments.modes.modes.is_empty() {
        let arguments = Caches::of(&topology).sized(arguments);
        return modes::run(&arguments, &topology, &stop);
    }
    let report = scaling::run(arguments, &topology, &stop)?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report)?;
        write(path, &(text + "\n"))?;
    }
    if let Some(path) = &arguments.report {
        write(path, &report::html::page(&report))?;
    }
    if let Some(path) = &arguments.picture {
        // A run that was stopped may have no curve: the figures are still worth more than an error.
        match chart::load_curve::picture(&report) {
            Ok(picture) => write(path, &picture)?,
            Err(why) => eprintln!("chiplet: {} was not written: {why}", path.display()),
        }
    }
    Ok(report::text::render(&report))
}
