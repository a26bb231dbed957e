//! chiplet against other thread pools, in interleaved rounds: `cargo bench --bench peers`.
//!
//! Prints, for each workload, the median time of each pool and the ratio of chiplet's to it: the median over rounds of
//! each round's own ratio, with the lowest and the highest. Below 1 chiplet is quicker. Rounds are interleaved because
//! on a shared machine only figures taken side by side compare. `--json FILE` writes the same as JSON.

mod pools;

use std::hint::black_box;
use std::time::{Duration, Instant};

use pools::{BATCH, Pool};
use serde_json::json;

const ROUNDS: usize = 11;

/// A measurement lasts about this long; thousands of hand-overs.
const ROUND_TIME: Duration = Duration::from_millis(60);

/// Long enough for the balancer's ticks, one a second, to count.
const IDLE_TIME: Duration = Duration::from_secs(5);

struct Workload {
    name: &'static str,
    submitters: usize,
    /// One task at a time, or batches.
    batches: bool,
    argument: u64,
}

fn main() {
    let json_path = json_path();
    let micros = turns_in_a_microsecond();
    let workload = |name, submitters, batches, argument| Workload {
        name,
        submitters,
        batches,
        argument,
    };
    let workloads = [
        workload("empty task, submit to answer", 1, false, 0),
        workload("1 us tasks from 1 thread", 1, true, micros),
        workload("1 us tasks from 2 threads", 2, true, micros),
        workload("1 us tasks from 4 threads", 4, true, micros),
        workload("10 us tasks from 2 threads", 2, true, 10 * micros),
        workload(
            "10 us tasks, one by one, from 4 threads",
            4,
            false,
            10 * micros,
        ),
        workload(
            "50 us tasks, one by one, from 4 threads",
            4,
            false,
            50 * micros,
        ),
    ];
    let pools = pools::all();
    let mut found = Vec::new();
    for workload in &workloads {
        // times[pool][round], nanoseconds a task.
        let mut times = vec![Vec::new(); pools.len()];
        for round in 0..=ROUNDS {
            for turn in 0..pools.len() {
                let index = (turn + round) % pools.len();
                let time = measure(&*pools[index], workload);
                // The first round starts threads and warms up.
                if round > 0 {
                    times[index].push(time);
                }
            }
        }
        println!("\n{}", workload.name);
        for (pool, mine) in pools.iter().zip(&times) {
            let ratios: Vec<f64> = times[0]
                .iter()
                .zip(mine)
                .map(|(chiplet, other)| chiplet / other)
                .collect();
            let (low, high) = ratios
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(low, high), &ratio| {
                    (low.min(ratio), high.max(ratio))
                });
            println!(
                "  {:22} {:>8.0} ns a task   chiplet/this {:.2} ({low:.2}-{high:.2})",
                pool.name(),
                median(mine),
                median(&ratios)
            );
            found.push(json!({
                "workload": workload.name,
                "pool": pool.name(),
                "ns_per_task": median(mine),
                "chiplet_to_this": { "median": median(&ratios), "lowest": low, "highest": high },
                "rounds": ROUNDS,
            }));
        }
    }
    // The other pools' threads are idle too, and not counted.
    let idle = idle_share();
    println!(
        "\nidle workers: {:.4} % of a core each (Linux only; over {IDLE_TIME:?})",
        idle * 100.0
    );
    found.push(json!({ "workload": "idle", "pool": "chiplet", "cores_per_worker": idle }));
    if let Some(path) = json_path {
        let text = format!("{:#}\n", json!(found));
        if let Err(error) = std::fs::write(&path, text) {
            eprintln!("{path}: {error}");
            std::process::exit(1);
        }
    }
}

/// Processor time that chiplet's threads use while there is nothing to do, in cores for each worker. The balancer's
/// thread is among them.
fn idle_share() -> f64 {
    let before = chiplet_nanoseconds();
    std::thread::sleep(IDLE_TIME);
    let used = chiplet_nanoseconds().saturating_sub(before);
    used as f64 / IDLE_TIME.as_nanos() as f64 / pools::workers() as f64
}

/// Time on a processor of all threads named `chiplet-..`, from `/proc/self/task/*/schedstat`.
fn chiplet_nanoseconds() -> u64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    threads
        .filter_map(|thread| {
            let folder = thread.ok()?.path();
            let name = std::fs::read_to_string(folder.join("comm")).ok()?;
            let times = std::fs::read_to_string(folder.join("schedstat")).ok()?;
            let nanoseconds: u64 = times.split_whitespace().next()?.parse().ok()?;
            name.starts_with("chiplet-").then_some(nanoseconds)
        })
        .sum()
}

fn json_path() -> Option<String> {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == "--json")?;
    arguments.next()
}

/// Nanoseconds a task.
fn measure(pool: &dyn Pool, workload: &Workload) -> f64 {
    let began = Instant::now();
    let tasks: u64 = std::thread::scope(|scope| {
        let submitter = || {
            let mut tasks = 0;
            while began.elapsed() < ROUND_TIME {
                if workload.batches {
                    black_box(pool.run_batch(turn, workload.argument));
                    tasks += BATCH as u64;
                } else {
                    black_box(pool.run_one(turn, workload.argument));
                    tasks += 1;
                }
            }
            tasks
        };
        let threads: Vec<_> = (0..workload.submitters)
            .map(|_| scope.spawn(submitter))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a submitter ends"))
            .sum()
    });
    began.elapsed().as_nanos() as f64 / tasks as f64
}

/// Work that no compiler removes: `turns` dependent multiplications.
fn turn(turns: u64) -> u64 {
    (0..turns).fold(1, |value, next| black_box(value * 31 + next))
}

fn turns_in_a_microsecond() -> u64 {
    let time = |turns: u64| {
        let began = Instant::now();
        black_box(turn(turns));
        began.elapsed().as_nanos() as f64
    };
    let fastest = (0..20).map(|_| time(100_000)).fold(f64::INFINITY, f64::min);
    (100_000.0 * 1_000.0 / fastest) as u64
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
