//! Tables beside others that do not behave: what `cargo bench --bench abuse` measures, as far as it needs no clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{HANG, executor, home};
use chiplet::{DomainId, Error, Executor, TableId};

/// Time of an ordinary task.
const TASK: Duration = Duration::from_millis(2);

/// Until dropped, a thread keeps `outstanding` tasks of `table` under way.
struct Busy {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Busy {
    fn new(executor: &Arc<Executor>, table: TableId, outstanding: usize) -> Self {
        let (stop, executor) = (Arc::new(AtomicBool::new(false)), Arc::clone(executor));
        let stopped = Arc::clone(&stop);
        let begin = move || executor.spawn(table, || thread::sleep(TASK));
        let thread = thread::spawn(move || {
            let mut tickets: Vec<_> = (0..outstanding).map(|_| begin()).collect();
            while !stopped.load(Ordering::Relaxed) {
                for ticket in &mut tickets {
                    std::mem::replace(ticket, begin()).wait().unwrap();
                }
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is dropped once");
        _ = thread.join();
    }
}

#[test]
fn a_table_with_deadlines_is_answered_again_after_slow_tasks() {
    let executor = Arc::new(executor(1, 2));
    let [victim, other] = ["victim", "other"].map(|name| executor.add_closure_table(name, 1));
    // What is known of a table whose queue runs empty is forgotten, so something always waits.
    let _beside = Busy::new(&executor, other, 6);
    let deadline = 25 * TASK;
    for slow in [8 * deadline, 2 * deadline, 2 * deadline] {
        let ticket = executor.spawn(victim, move || thread::sleep(slow));
        ticket.wait().unwrap();
    }
    // Without it a few are answered by chance, and then none. With it most are, as far as there are cores.
    let (mut answered, begun) = (0, Instant::now());
    while answered < 20 {
        assert!(begun.elapsed() < HANG, "only {answered} are answered");
        let expires = Some(Instant::now() + deadline);
        let ticket = executor.submit_fn(victim, expires, |_| thread::sleep(TASK));
        match ticket.unwrap().wait() {
            Ok(()) => answered += 1,
            Err(error) => assert_eq!(error, Error::Expired),
        }
    }
}

#[test]
fn quiet_tables_stay_at_home_beside_one_that_floods() {
    let executor = Arc::new(executor(2, 4));
    let (here, there): (Vec<_>, Vec<_>) = (0..4)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .partition(|&table| home(&executor, table) == 0);
    let [flood, quiet, away] = [here[0], here[1], there[0]];
    let _busy = [
        Busy::new(&executor, away, 6),
        Busy::new(&executor, flood, 300),
    ];
    let places = (0..200).map(|_| {
        thread::sleep(2 * TASK);
        executor.submit_fn(quiet, None, |context| {
            thread::sleep(TASK);
            context.domain()
        })
    });
    let tickets: Vec<_> = places.map(Result::unwrap).collect();
    let at_home = tickets
        .into_iter()
        .map(|ticket| ticket.wait().unwrap())
        .filter(|&domain| domain == Some(DomainId(0)))
        .count();
    assert!(at_home > 150, "{at_home} of 200 ran at home");
}
