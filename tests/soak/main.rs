//! The soak test: an executor with 96 workers on a made-up machine of 12 domains is put under the load of
//! `common::load`, shut down and built again every few seconds, and its accounts are checked to the last task each
//! time. Nothing may be left behind: no thread, and no memory that grows from life to life.
//!
//! `CHIPLET_SOAK_SECONDS` says how long (5 if unset). `make soak` takes ten minutes, of a release build, and shows the
//! ledger.

#[path = "../common/mod.rs"]
mod common;
mod ledger;
mod process;
mod watchdog;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet::shutdown::Shutdown;
use chiplet::{Executor, PlannerConfig, Topology, TriggerConfig};
use chiplet_policy::{MapperConfig, WindowConfig};

use common::HANG;
use common::load::Load;
use common::rules::Rules;
use ledger::Ledger;
use watchdog::Watchdog;

const DOMAINS: u32 = 12;
const CORES: u32 = 8;
const TABLES: usize = 60;
const CLIENTS: u64 = 3;

/// Places in each domain's queue: fewer than there are tasks in the longest burst.
const QUEUE: usize = 48;

/// A placement change whenever a window of ten milliseconds shows the least imbalance, a millisecond apart.
fn hectic() -> PlannerConfig {
    PlannerConfig::new()
        .windows(
            WindowConfig::new()
                .fast(Duration::from_millis(10))
                .slow(Duration::from_millis(40)),
        )
        .trigger(
            TriggerConfig::new()
                .cooldown(Some(Duration::from_millis(1)))
                .horizon(Duration::from_millis(1))
                .min_wait(0.0),
        )
        .mapper(MapperConfig::new().stay(0.0))
}

/// Three lives in four run with the defaults; the others with one setting changed, each in turn.
fn rules(life: u64) -> Rules {
    match life % 4 {
        3 => Rules::ALL[(life / 4 % 3) as usize],
        _ => Rules::Default,
    }
}

/// Ends the executor while clients submit: drained or abandoned, by this thread, by another one, or by two at once.
fn shut_down(load: &Load, life: u64) {
    let (drain, abandon) = (Shutdown::Drain(HANG), Shutdown::Abandon(HANG));
    common::threads::scope(|scope| {
        let elsewhere = |how| {
            scope.spawn(move || load.executor.shutdown(how));
        };
        match life % 5 {
            0 => drop(load.executor.shutdown(drain)),
            1 => drop(load.executor.shutdown(abandon)),
            2 => elsewhere(drain),
            3 => elsewhere(abandon),
            _ => {
                elsewhere(drain);
                load.executor.shutdown(abandon);
            }
        }
    });
    let report = load.executor.shutdown(drain);
    assert_eq!(
        (report.abandoned, report.still_running),
        (0, 0),
        "shutdown left something"
    );
}

/// Builds an executor, loads it for `length`, shuts it down, and checks its accounts.
fn live(life: u64, length: Duration, watchdog: &Watchdog, ledger: &mut Ledger) {
    let threads = process::threads();
    let builder = Executor::builder().topology(Topology::uniform(DOMAINS, CORES, 32 << 20));
    let executor = rules(life)
        .configure(builder, hectic())
        .queue_limit(QUEUE)
        .build()
        .unwrap();
    assert_eq!(executor.workers().len(), (DOMAINS * CORES) as usize);
    let load = Arc::new(Load::new(executor, TABLES));
    watchdog.look_at(Some(&load));
    common::threads::scope(|scope| {
        for client in 0..CLIENTS {
            let load = &load;
            scope.spawn(move || load.client(life * CLIENTS + client));
        }
        scope.spawn(|| load.steward(life));
        std::thread::sleep(length);
        shut_down(&load, life);
    });
    watchdog.look_at(None);
    ledger.add(&load.settle(), load.tables());
    drop(Arc::into_inner(load).expect("nobody else holds the load"));
    let left = process::threads_at_most(threads, HANG);
    assert!(
        left <= threads,
        "{threads} threads before a life, {left} after it"
    );
    ledger.rest(threads, left, process::resident_bytes());
}

#[test]
fn executors_under_everything_at_once_lose_no_task_no_thread_and_no_memory() {
    let seconds = std::env::var("CHIPLET_SOAK_SECONDS").map_or(5, |text| {
        text.parse()
            .expect("CHIPLET_SOAK_SECONDS is a whole number of seconds")
    });
    let run = Duration::from_secs(seconds);
    // Some ten lives at least, so that there are quarters to compare.
    let length = (run / 12).clamp(Duration::from_millis(250), Duration::from_secs(4));
    let begun = Instant::now();
    let mut ledger = Ledger::default();
    let watchdog = Watchdog::start();
    let mut told = begun;
    for life in 0.. {
        live(life, length, &watchdog, &mut ledger);
        if told.elapsed() >= Duration::from_secs(10) {
            told = Instant::now();
            println!(
                "soak: {} s of {seconds}; {}",
                begun.elapsed().as_secs(),
                ledger.brief()
            );
        }
        if begun.elapsed() >= run {
            break;
        }
    }
    watchdog.stop();
    println!("{ledger}");
    println!(
        "verify: soak | {} tasks | {} s",
        ledger.accepted(),
        begun.elapsed().as_secs()
    );
    ledger.check_every_kind();
    ledger.check_memory();
}
