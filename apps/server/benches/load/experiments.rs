//! The experiments. Every figure is a median over rounds, with the least and the most beside it where they matter.

use std::time::Duration;

use anyhow::Context;

use super::Plan;
use super::client::{Client, Outcome, PATIENCE, Stream};
use super::common::process::{self, Process};
use super::common::{shown, spread};

/// Words in a collection.
const ROWS: usize = 30_000;
/// Queries under way when looking for what the server can do: enough to keep it busy, fewer than its queue holds.
const CLIENTS: usize = 16;

/// Quiet collections beside the noisy one, and how many words each has.
const QUIET: usize = 4;
const QUIET_ROWS: usize = 10_000;
/// What they ask for together, as a share of what the server can do.
const QUIET_SHARE: f64 = 0.2;

/// How long the idle server is watched.
const IDLE: Duration = Duration::from_secs(20);

const SCHEDULERS: [&str; 2] = ["chiplet", "rayon"];

fn start(plan: &Plan, kind: &str) -> anyhow::Result<(Process, Client)> {
    let reserve = plan.reserve.to_string();
    let mut settings = vec![
        ("SCHEDULER__KIND", kind),
        ("SCHEDULER__RESERVE_CORES", reserve.as_str()),
    ];
    let further = plan.settings.iter();
    settings.extend(further.map(|(name, value)| (name.as_str(), value.as_str())));
    let process = Process::start(process::built(), &settings)?;
    let client = Client::connect(&process).context("the server does not answer")?;
    Ok((process, client))
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}-{number}"))
        .collect()
}

fn each(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> Vec<f64> {
    outcomes.iter().map(value).collect()
}

fn percentiles(runs: &[Outcome]) -> String {
    format!(
        "{}, {}",
        shown(each(runs, |o| o.latency.p50 / 1e3), 2),
        shown(each(runs, |o| o.latency.p99 / 1e3), 2)
    )
}

/// Round by round.
fn p99_ratio(before: &[Outcome], after: &[Outcome]) -> String {
    let rounds = before.iter().zip(after);
    let ratios = rounds.map(|(before, after)| after.latency.p99 / before.latency.p99);
    shown(ratios.collect(), 2)
}

pub(super) fn overload(plan: &Plan) -> anyhow::Result<()> {
    println!("## Sustained, then twice the capacity\n");
    println!(
        "One collection of {ROWS} words; every query is worth nothing after {} ms. Capacity: {CLIENTS} clients that wait\n\
         for each answer.\n",
        PATIENCE.as_millis()
    );
    let loads = [
        ("0.8 x capacity", 0.8),
        ("1.5 x capacity", 1.5),
        ("2 x capacity", 2.0),
    ];
    // By scheduler: capacity, then each load.
    let mut peaks = vec![Vec::new(); SCHEDULERS.len()];
    let mut outcomes = vec![vec![Vec::new(); loads.len()]; SCHEDULERS.len()];
    let words = names("words", 1);
    let servers = SCHEDULERS
        .iter()
        .map(|kind| {
            let (process, client) = start(plan, kind)?;
            client.fill(&words[0], &plan.words, ROWS)?;
            client.wait_for_index(&words[0])?;
            Ok((process, client))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    for round in 0..plan.rounds {
        for (scheduler, (process, client)) in servers.iter().enumerate() {
            let mut stream = Stream {
                collections: &words,
                rate: 1.0,
                ef: plan.ef,
                count: plan.count,
                seed: u64::from(round),
            };
            let peak = client.closed_loop(&plan.words, &stream, CLIENTS, plan.lasting)?;
            process.settle()?;
            let capacity = peak.goodput();
            peaks[scheduler].push(peak);
            for (load, (_, times)) in loads.iter().enumerate() {
                stream.rate = capacity * times;
                let outcome =
                    client.open_loop(&plan.words, std::slice::from_ref(&stream), plan.lasting)?;
                outcomes[scheduler][load].extend(outcome);
                process.settle()?;
            }
        }
    }
    println!(
        "| scheduler | load | sent/s | goodput/s | of its peak | shed | late | p50 ms | p99 ms | sent late by, p99 ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (scheduler, name) in SCHEDULERS.iter().enumerate() {
        let peak = &peaks[scheduler];
        println!(
            "| {name} | capacity | | {} | 1 | | | {} | {} | |",
            shown(each(peak, Outcome::goodput), 0),
            shown(each(peak, |o| o.latency.p50 / 1e3), 1),
            shown(each(peak, |o| o.latency.p99 / 1e3), 1)
        );
        for (load, (label, _)) in loads.iter().enumerate() {
            let runs = &outcomes[scheduler][load];
            let ratios = runs
                .iter()
                .zip(peak)
                .map(|(run, peak)| run.goodput() / peak.goodput());
            let share = |count: fn(&Outcome) -> u64| {
                let shares = each(runs, |o| 100.0 * count(o) as f64 / o.sent as f64);
                format!("{:.0} %", spread(shares).0)
            };
            println!(
                "| {name} | {label} | {:.0} | {} | {} | {} | {} | {} | {} | {:.1} |",
                spread(each(runs, |o| o.sent as f64 / o.seconds)).0,
                shown(each(runs, Outcome::goodput), 0),
                shown(ratios.collect(), 2),
                share(|o| o.shed),
                share(|o| o.late),
                shown(each(runs, |o| o.latency.p50 / 1e3), 1),
                shown(each(runs, |o| o.latency.p99 / 1e3), 1),
                spread(each(runs, |o| o.lag_p99 / 1e3)).0,
            );
        }
    }
    println!();
    Ok(())
}

pub(super) fn noisy(plan: &Plan) -> anyhow::Result<()> {
    println!("## One noisy collection\n");
    println!(
        "{QUIET} collections of {QUIET_ROWS} words, asked for {:.0} % of the capacity together; beside them one of {ROWS} words that is\n\
         asked for twice the capacity.\n",
        QUIET_SHARE * 100.0
    );
    let quiet = names("quiet", QUIET);
    let noise = names("noisy", 1);
    let servers = SCHEDULERS
        .iter()
        .map(|kind| {
            let (process, client) = start(plan, kind)?;
            for (name, rows) in quiet
                .iter()
                .map(|name| (name, QUIET_ROWS))
                .chain([(&noise[0], ROWS)])
            {
                client.fill(name, &plan.words, rows)?;
                client.wait_for_index(name)?;
            }
            Ok((process, client))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    // By scheduler: the quiet ones alone, the quiet ones beside the noisy one, and the noisy one.
    let mut outcomes = vec![vec![Vec::new(); 3]; SCHEDULERS.len()];
    for round in 0..plan.rounds {
        for (scheduler, (process, client)) in servers.iter().enumerate() {
            let stream = |collections, rate, seed| Stream {
                collections,
                rate,
                ef: plan.ef,
                count: plan.count,
                seed: u64::from(round) * 10 + seed,
            };
            let capacity = |collections| {
                let probe = stream(collections, 1.0, 0);
                let peak = client.closed_loop(&plan.words, &probe, CLIENTS, plan.lasting / 2)?;
                process.settle()?;
                anyhow::Ok(peak.goodput())
            };
            let calm = stream(&quiet[..], capacity(&quiet)? * QUIET_SHARE, 1);
            let loud = stream(&noise[..], capacity(&noise)? * 2.0, 2);
            let alone = client.open_loop(&plan.words, std::slice::from_ref(&calm), plan.lasting)?;
            let together = client.open_loop(&plan.words, &[calm, loud], plan.lasting)?;
            process.settle()?;
            for (slot, outcome) in alone.into_iter().chain(together).enumerate() {
                outcomes[scheduler][slot].push(outcome);
            }
        }
    }
    println!(
        "| scheduler | quiet alone p50, p99 ms | beside the noise p50, p99 ms | p99 ratio | quiet answered | noisy goodput/s | noisy shed or late |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (scheduler, name) in SCHEDULERS.iter().enumerate() {
        let [alone, beside, noisy] = &outcomes[scheduler][..] else {
            continue;
        };
        let refused = each(noisy, |o| 100.0 * (o.shed + o.late) as f64 / o.sent as f64);
        println!(
            "| {name} | {} | {} | {} | {:.1} % | {} | {:.0} % |",
            percentiles(alone),
            percentiles(beside),
            p99_ratio(alone, beside),
            spread(each(beside, |o| 100.0 * o.good as f64 / o.sent as f64)).0,
            shown(each(noisy, Outcome::goodput), 0),
            spread(refused).0,
        );
    }
    println!();
    Ok(())
}

pub(super) fn loading(plan: &Plan) -> anyhow::Result<()> {
    println!("## While another collection is loaded and indexed\n");
    let words = names("words", 1);
    println!(
        "| scheduler | p50, p99 ms before | p50, p99 ms while it loads | p99 ratio | answered while it loads |"
    );
    println!("|---|---|---|---|---|");
    for kind in SCHEDULERS {
        let (_process, client) = start(plan, kind)?;
        client.fill(&words[0], &plan.words, ROWS)?;
        client.wait_for_index(&words[0])?;
        let (mut before, mut during) = (Vec::new(), Vec::new());
        for round in 0..plan.rounds {
            let mut stream = Stream {
                collections: &words,
                rate: 1.0,
                ef: plan.ef,
                count: plan.count,
                seed: u64::from(round),
            };
            let peak = client.closed_loop(&plan.words, &stream, CLIENTS, plan.lasting / 2)?;
            stream.rate = peak.goodput() * QUIET_SHARE;
            let streams = std::slice::from_ref(&stream);
            before.extend(client.open_loop(&plan.words, streams, plan.lasting)?);
            let name = format!("loaded-{round}");
            std::thread::scope(|scope| {
                let loading = scope.spawn(|| client.fill(&name, &plan.words, 2 * ROWS));
                during.extend(client.open_loop(&plan.words, streams, plan.lasting)?);
                loading.join().expect("a loader does not panic")?;
                anyhow::Ok(())
            })?;
            client.wait_for_index(&name)?;
        }
        println!(
            "| {kind} | {} | {} | {} | {:.1} % |",
            percentiles(&before),
            percentiles(&during),
            p99_ratio(&before, &during),
            spread(each(&during, |o| 100.0 * o.good as f64 / o.sent as f64)).0
        );
    }
    println!();
    Ok(())
}

pub(super) fn idle(plan: &Plan) -> anyhow::Result<()> {
    println!("## Idle\n");
    let (process, client) = start(plan, SCHEDULERS[0])?;
    let name = names("words", 1);
    client.fill(&name[0], &plan.words, ROWS)?;
    client.wait_for_index(&name[0])?;
    let before = process.cpu_time()?;
    std::thread::sleep(IDLE);
    let used = process.cpu_time()? - before;
    println!(
        "{} ms of processor time in {} s: {:.3} % of a core, with one collection and {} open connections\n",
        used.as_millis(),
        IDLE.as_secs(),
        100.0 * used.as_secs_f64() / IDLE.as_secs_f64(),
        client.connections()
    );
    Ok(())
}
