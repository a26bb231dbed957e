//! One of twelve domains is asked for more than its workers can do: what is refused, and what the other domains' tables
//! notice. `cargo bench --bench overflow`: about a minute.
//!
//! The machine is made up, 12 domains of 8 cores, and a task sleeps for 10 ms, so that 96 workers fit any machine: what
//! is seen is who takes which task when, not how fast. Domain 0's table is asked for three times what its workers can
//! do. Each other domain's table keeps 1, 4 or 7.6 of its eight workers busy. Arrivals are Poisson.
//!
//! | column | means |
//! | --- | --- |
//! | refused | of the flooded table's tasks |
//! | helped | of the flooded table's tasks that ran, those that another domain's worker ran |
//! | away | of the others' tasks that ran, those that ran away from home |
//! | wait of the others | p50 and p99 from submit to start of the other domains' tasks, of the table that waits longest |
//!
//! The waits are shown with no help between domains and domain 0 asked for as much as the others; with help; and with
//! help and domain 0 flooded.

mod poisson;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chiplet::snapshot::Snapshot;
use chiplet::{
    Context, Executor, Pin, PlannerConfig, StealConfig, TableId, Topology, TriggerConfig,
};

const DOMAINS: usize = 12;
const CORES: usize = 8;
const TASK: Duration = Duration::from_millis(10);
const RUN: Duration = Duration::from_secs(5);
/// Workers that each other domain's own table keeps busy.
const BUSY: [f64; 3] = [1.0, 4.0, 7.6];
/// Times its workers' capacity that the flooded table is asked for.
const FLOOD: f64 = 3.0;

fn main() {
    println!(
        "twelve domains of eight workers, tasks of {TASK:?}, {RUN:?} each; domain 0 asked for {FLOOD} times its capacity"
    );
    println!(
        "{:>10} {:>9} {:>8} {:>7} {:>31} {:>18} {:>18}",
        "busy of 8",
        "refused",
        "helped",
        "away",
        "wait of the others: no help",
        "help",
        "help and flood"
    );
    for busy in BUSY {
        let priceless = StealConfig::new().cold_factor(None);
        let apart = run(busy, busy, priceless);
        let together = run(busy, busy, StealConfig::default());
        let flooded = run(busy, FLOOD * CORES as f64, StealConfig::default());
        println!(
            "{busy:>10.1} {:>8.1}% {:>7.1}% {:>6.1}% {:>31} {:>18} {:>18}",
            100.0 * flooded.refused,
            100.0 * flooded.helped,
            100.0 * flooded.away,
            apart.others(),
            together.others(),
            flooded.others(),
        );
    }
}

/// Tasks that ran at home and away.
type Ran = Arc<[AtomicU64; 2]>;

/// What one run showed.
struct Shown {
    refused: f64,
    helped: f64,
    away: f64,
    p50: Duration,
    p99: Duration,
}

impl Shown {
    fn others(&self) -> String {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        format!("{:.1} / {:.1} ms", millis(self.p50), millis(self.p99))
    }
}

/// Asks domain 0 for what `first` workers can do, and each other one for what keeps `busy` of them at work.
fn run(busy: f64, first: f64, steal: StealConfig) -> Shown {
    let still = PlannerConfig::new().trigger(TriggerConfig::new().cooldown(None));
    let executor = Executor::builder()
        .topology(Topology::uniform(DOMAINS as u32, CORES as u32, 32 << 20))
        .pin(Pin::None)
        .planner(still)
        .steal(steal)
        .build()
        .expect("96 threads can be started");
    let tables: Vec<TableId> = (0..DOMAINS)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .collect();
    let a_worker = 1.0 / TASK.as_secs_f64();
    let ran: [Ran; 2] = Default::default();
    let began = Instant::now();
    thread::scope(|scope| {
        for (number, &table) in tables.iter().enumerate() {
            let workers = match number {
                0 => first,
                _ => busy,
            };
            let executor = &executor;
            let ran = Arc::clone(&ran[usize::from(number > 0)]);
            scope.spawn(move || {
                ask(
                    executor,
                    table,
                    workers * a_worker,
                    number as u64,
                    began,
                    ran,
                )
            });
        }
    });
    let shares = ran.map(|ran| {
        let [home, away] = [0, 1].map(|place| ran[place].load(Ordering::Relaxed) as f64);
        away / (home + away).max(1.0)
    });
    show(&executor.snapshot(), tables[0], shares)
}

/// Submits `rate` tasks a second until the run is over.
fn ask(executor: &Executor, table: TableId, rate: f64, seed: u64, began: Instant, ran: Ran) {
    let homes = executor.placement();
    let home = homes.homes(table).expect("it was added").main().domain;
    for at in poisson::arrivals(seed, rate).take_while(|&at| at < RUN) {
        thread::sleep(at.saturating_sub(began.elapsed()));
        let ran = Arc::clone(&ran);
        let code = move |context: &mut Context| {
            ran[usize::from(context.domain() != Some(home))].fetch_add(1, Ordering::Relaxed);
            thread::sleep(TASK);
        };
        // What is refused is counted by the executor.
        if let Ok(ticket) = executor.submit_fn(table, None, code) {
            ticket.detach();
        }
    }
}

fn show(snapshot: &Snapshot, flooded: TableId, shares: [f64; 2]) -> Shown {
    let of = |table: &&chiplet::snapshot::TableSnapshot| table.id == flooded;
    let flood = snapshot
        .tables
        .iter()
        .find(of)
        .expect("it was added")
        .counts;
    let asked = (flood.accepted + flood.shed).max(1);
    let others: Vec<_> = snapshot.tables.iter().filter(|table| !of(table)).collect();
    // The slowest of the other tables decides: a mean would hide it.
    let worst = |percent| {
        let waits = others.iter().map(|table| table.wait.percentile(percent));
        waits.max().unwrap_or_default()
    };
    Shown {
        refused: flood.shed as f64 / asked as f64,
        helped: shares[0],
        away: shares[1],
        p50: worst(50.0),
        p99: worst(99.0),
    }
}
