//! One domain of eight workers, twenty equal quiet tables, and one that keeps many tasks waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chiplet::{Class, TableOptions};

use super::seen::{Seen, flood};
use super::{machine, start};

const WORKERS: u32 = 8;
const QUIET: usize = 20;
const TASK: Duration = Duration::from_millis(2);
const RUN: Duration = Duration::from_secs(5);
/// What begins is not counted.
const SETTLE: Duration = Duration::from_secs(3);

pub fn run() {
    println!(
        "  the others' wait p50 / p99 / max by what they ask for, and what the flood got of the domain's time"
    );
    for (what, class, waiting) in [
        ("flood of 600", Class::Interactive, 600),
        ("bulk of 1,000", Class::Bulk, 1_000),
    ] {
        for asked in [0.2, 0.4, 0.6, 0.9] {
            println!(
                "  {what:14} {:3.0} %  {}",
                100.0 * asked,
                scenario(class, waiting, asked)
            );
        }
    }
}

fn scenario(class: Class, waiting: usize, asked: f64) -> String {
    let executor = Arc::new(start(machine(1, WORKERS)));
    let options = TableOptions::new().class(class);
    let noisy = executor.add_closure_table("noisy", 1);
    let changed = executor.set_table_options(noisy, options);
    changed.expect("the table has just been added");
    let (stop, served) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    flood(&executor, noisy, TASK, waiting, &stop, &served);
    let quiet: Vec<_> = (0..QUIET)
        .map(|n| executor.add_closure_table(format!("q{n}"), 1))
        .collect();
    let rate = asked * f64::from(WORKERS) / TASK.as_secs_f64() / QUIET as f64;
    let (seen, began) = (Seen::default(), Instant::now());
    let before = thread::scope(|scope| {
        for &table in &quiet {
            let (seen, executor) = (&seen, &executor);
            scope.spawn(move || seen.ask(executor, table, (TASK, rate, None), RUN));
        }
        thread::sleep(SETTLE);
        served.load(Ordering::Relaxed)
    });
    let got = (served.load(Ordering::Relaxed) - before) as f64 * TASK.as_secs_f64()
        / ((RUN - SETTLE).as_secs_f64() * f64::from(WORKERS));
    let told = seen.tell(began + SETTLE);
    stop.store(true, Ordering::Relaxed);
    format!("{told}; {:2.0} %", 100.0 * got)
}
