//! `keyed-rows report`: starts servers, asks them as Cube's report did, and prints its tables beside ours.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the command: what is measured |
//! | `servers` | server processes |
//! | `load` | calls that wait for each other, and calls at fixed times |
//! | `theirs` | the figures of Cube's report |
//! | `table` | the tables |

mod load;
mod servers;
mod table;
mod theirs;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use load::{Load, Outcome, Side};
use servers::{Server, Setting};

/// Calls under way where each waits for its answer.
const UNDER_WAY: usize = 32;

/// Seconds of calls before those that count.
const WARM_UP: f64 = 0.5;

/// What part of saturation the calls are sent at.
const SHARES: [f64; 3] = [0.1, 0.5, 0.9];

/// Runs at each part; the one of median mean latency is told.
const RUNS: usize = 3;

/// How each rate is to the one tried before it, where the highest is looked for that is kept up with.
const LOWER: f64 = 0.93;

/// Of the distributed case: shards, keys of a call, calls a second.
const SHARDS: usize = 10;
const BATCHES: [usize; 3] = [100, 500, 1_000];
const RATE: f64 = 100.0;

/// What `report` is told.
#[derive(Args)]
pub struct Arguments {
    /// Keys, with values of 40 bytes.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=4_000_000_000))]
    keys: u64,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds of each measurement of shards, at 100 calls a second.
    #[arg(long, default_value_t = 50.0, value_parser = seconds)]
    shard_seconds: f64,
    /// Rounds in which other pages, threads, cpus and allocators take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Another allocator for the server, as mimalloc=/usr/lib/libmimalloc.so (LD_PRELOAD); may be given several times.
    #[arg(long = "allocator", value_name = "NAME=LIBRARY", value_parser = allocator)]
    allocators: Vec<(String, PathBuf)>,
    /// Cpus of the server, as 0,1: one variant runs on these, and its client on the others.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    server_cpus: Vec<u32>,
    /// Parts to measure.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "one,hundred,shards,variants"
    )]
    only: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// One key a call.
    One,
    /// A hundred.
    Hundred,
    /// Ten shards, one replica and two.
    Shards,
    /// Pages, threads, cpus, allocators.
    Variants,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number from 0.1 to 600".to_owned()),
    }
}

fn allocator(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("give NAME=LIBRARY")?;
    let file = PathBuf::from(file);
    match file.is_file() {
        true => Ok((name.to_owned(), file)),
        false => Err(format!("{} is no file", file.display())),
    }
}

/// Measures what was asked for, and prints it.
///
/// # Errors
/// A server does not start, or does not answer.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cpus = chiplet_topology::pin::current_affinity();
    println!(
        "{} keys with values of 40 bytes; gRPC over loopback; servers and client share {} cpus. Latencies in microseconds, from\n\
         the time at which a call was to be sent; `-` where there are too few calls to tell.\n",
        arguments.keys,
        cpus.len()
    );
    let progress = ProgressBar::new_spinner().with_style(
        ProgressStyle::with_template("{spinner} {elapsed} {msg}")
            .expect("a template of known names"),
    );
    progress.enable_steady_tick(Duration::from_millis(200));
    let wanted = |part| arguments.only.contains(&part);
    for (part, keys, theirs) in [
        (Part::One, 1, &theirs::ONE),
        (Part::Hundred, 100, &theirs::HUNDRED),
    ] {
        if wanted(part) {
            let text = single(arguments, keys, theirs, &progress)?;
            progress.suspend(|| println!("{text}"));
        }
    }
    if wanted(Part::Shards) {
        let text = sharded(arguments, &progress)?;
        progress.suspend(|| println!("{text}"));
    }
    if wanted(Part::Variants) {
        let text = variants(arguments, &cpus, &progress)?;
        progress.suspend(|| println!("{text}"));
    }
    progress.finish_and_clear();
    Ok(())
}

/// One server, calls of `keys` keys at parts of what it keeps up with.
fn single(
    arguments: &Arguments,
    keys: usize,
    theirs: &[theirs::Line],
    progress: &ProgressBar,
) -> anyhow::Result<String> {
    let server = Server::start(&Setting::usual(arguments.keys))?;
    let side = Side::connect(&[vec![server.address()]], None)?;
    let load = Load::new(arguments.keys, keys, arguments.seconds);
    progress.set_message(format!("{keys} keys a call: looking for saturation"));
    side.closed(&Load::new(arguments.keys, keys, WARM_UP), UNDER_WAY)?;
    let mut rate = side.closed(&load, UNDER_WAY)?.calls_a_second();
    // With answers waited for, fewer things are done besides: what is kept up with at fixed times is less.
    while !(side.open(&load, rate)?.kept_up() && side.open(&load, rate)?.kept_up()) {
        rate *= LOWER;
    }
    let mut runs: Vec<Vec<Outcome>> = SHARES.map(|_| Vec::new()).into();
    for round in 0..RUNS {
        for (share, runs) in SHARES.iter().zip(&mut runs) {
            let part = 100.0 * share;
            progress.set_message(format!(
                "{keys} keys a call: {part:.0} % of saturation, run {}",
                round + 1
            ));
            runs.push(side.open(&load, share * rate)?);
        }
    }
    let median = |mut runs: Vec<Outcome>| {
        runs.sort_by(|one, other| one.mean().total_cmp(&other.mean()));
        runs.swap_remove(runs.len() / 2)
    };
    let lines: Vec<_> = SHARES
        .into_iter()
        .zip(runs.into_iter().map(median))
        .collect();
    Ok(table::single(keys, rate, &lines, theirs))
}

/// Ten shards, with one server each and with two.
fn sharded(arguments: &Arguments, progress: &ProgressBar) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    let mut servers: Vec<Vec<Server>> = (0..SHARDS).map(|_| Vec::new()).collect();
    for replicas in 1..=2 {
        for (shard, servers) in servers.iter_mut().enumerate() {
            progress.set_message(format!("starting replica {replicas} of shard {shard}"));
            let usual = Setting::usual(arguments.keys);
            servers.push(Server::start(&Setting {
                shard: (shard, SHARDS),
                ..usual
            })?);
        }
        let addresses: Vec<Vec<String>> = servers
            .iter()
            .map(|servers| servers.iter().map(Server::address).collect())
            .collect();
        let side = Side::connect(&addresses, None)?;
        for keys in BATCHES {
            progress.set_message(format!("{SHARDS} shards of {replicas}: {keys} keys a call"));
            side.closed(&Load::new(arguments.keys, keys, WARM_UP), 2)?;
            let load = Load::new(arguments.keys, keys, arguments.shard_seconds);
            lines.push((replicas, keys, side.open(&load, RATE)?));
        }
    }
    Ok(table::sharded(SHARDS, RATE, &lines, &theirs::SHARDED))
}

/// What other settings bring: calls of 100 keys, as many as are answered, each in turn with the usual server.
fn variants(arguments: &Arguments, cpus: &[u32], progress: &ProgressBar) -> anyhow::Result<String> {
    let usual = Setting::usual(arguments.keys);
    let mut settings = vec![
        (
            "usual: huge pages, 1 thread".to_owned(),
            usual.clone(),
            None,
        ),
        (
            "small pages".to_owned(),
            Setting {
                small_pages: true,
                ..usual.clone()
            },
            None,
        ),
        (
            "2 threads".to_owned(),
            Setting {
                threads: 2,
                ..usual.clone()
            },
            None,
        ),
    ];
    let (own, others): (Vec<u32>, Vec<u32>) = cpus
        .iter()
        .partition(|cpu| arguments.server_cpus.contains(cpu));
    if own.is_empty() || others.is_empty() {
        progress.suspend(|| {
            eprintln!("left out: cpus of their own for server and client: there are {cpus:?}")
        });
    } else {
        let setting = Setting {
            cpus: own,
            ..usual.clone()
        };
        settings.push((
            "server and client bound to cpus of their own".to_owned(),
            setting,
            Some(others),
        ));
    }
    for (name, library) in &arguments.allocators {
        let setting = Setting {
            preload: Some(library.clone()),
            ..usual.clone()
        };
        settings.push((name.clone(), setting, None));
    }
    let mut sides = Vec::new();
    for (name, setting, client_cpus) in settings {
        let server = Server::start(&setting)?;
        let side = Side::connect(&[vec![server.address()]], client_cpus.as_deref())?;
        sides.push((name, server, side, Vec::<Outcome>::new()));
    }
    let load = Load::new(arguments.keys, 100, arguments.seconds.min(2.0));
    let count = sides.len();
    for round in 0..arguments.rounds {
        // Each round begins with another.
        for at in 0..count {
            let (name, _, side, outcomes) = &mut sides[(at + round as usize) % count];
            progress.set_message(format!(
                "round {} of {}: {name}",
                round + 1,
                arguments.rounds
            ));
            outcomes.push(side.closed(&load, UNDER_WAY)?);
        }
    }
    let lines: Vec<_> = sides
        .into_iter()
        .map(|(name, _, _, outcomes)| (name, outcomes))
        .collect();
    Ok(table::variants(&lines))
}
