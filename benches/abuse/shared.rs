//! One domain of four workers: bulk work of three core-seconds, as many tasks or as one that shares out its work,
//! beside an interactive table's tasks.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use chiplet::shutdown::Shutdown;
use chiplet::{Class, Context, Executor, TableId, TableOptions};

use super::seen::Seen;
use super::{machine, start};

const PARTS: usize = 600;
const PART: Duration = Duration::from_millis(5);
const TASK: Duration = Duration::from_micros(500);

pub fn run() {
    println!("  interactive tasks' wait p50 / p99 / max while the bulk work runs");
    let tasks: fn(&Executor, TableId) = |executor, bulk| {
        for _ in 0..PARTS {
            let task = executor.submit_fn(bulk, None, |_| thread::sleep(PART));
            task.map(|ticket| ticket.detach()).unwrap_or_default();
        }
    };
    let shared: fn(&Executor, TableId) = |executor, bulk| {
        let code = |context: &mut Context| {
            context.par_map(PARTS, |_, _| thread::sleep(PART));
        };
        let task = executor.submit_fn(bulk, None, code);
        task.map(|ticket| ticket.detach()).unwrap_or_default();
    };
    for (what, domains, begin) in [
        ("600 bulk tasks of 5 ms", 1, tasks),
        ("one bulk par_map of 600 parts", 1, shared),
        ("the same, two domains", 2, shared),
    ] {
        println!("  {what:30} {}", scenario(domains, begin));
    }
}

fn scenario(domains: u32, begin: fn(&Executor, TableId)) -> String {
    let executor = Arc::new(start(
        machine(domains, 4)
            .queue_limit(2_000)
            .table_queue_limit(1_000),
    ));
    let options = TableOptions::new().class(Class::Bulk);
    let bulk = executor.add_closure_table("bulk", 1);
    let changed = executor.set_table_options(bulk, options);
    changed.expect("the table has just been added");
    let interactive = executor.add_closure_table("interactive", 1);
    let seen = Seen::default();
    // So that both tables' tasks are known.
    for table in [bulk, interactive] {
        executor
            .spawn(table, || thread::sleep(TASK))
            .wait()
            .expect("it runs");
    }
    begin(&executor, bulk);
    let began = Instant::now();
    let time = PART * PARTS as u32 / 4;
    seen.ask(&executor, interactive, (TASK, 100.0, None), time);
    executor.shutdown(Shutdown::Drain(10 * time));
    seen.tell(began)
}
