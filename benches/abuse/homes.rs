//! Two domains of four workers: one table keeps 300 tasks waiting in the first, where five quiet tables are at home;
//! the second domain is busy too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chiplet::{Context, StealConfig, TableId};

use super::seen::{Seen, flood};
use super::{machine, start};

const TASK: Duration = Duration::from_millis(2);
const RUN: Duration = Duration::from_secs(4);
const QUIET: usize = 5;

pub fn run() {
    println!("  quiet tables' tasks at home and away, and their wait p50 / p99 / max");
    let apart = StealConfig::new().cold_factor(None);
    for (what, outstanding, steal) in [
        ("no flood", 0, StealConfig::default()),
        ("flood", 300, StealConfig::default()),
        ("flood, nothing may cross", 300, apart),
    ] {
        println!("  {what:28} {}", scenario(outstanding, steal));
    }
}

fn scenario(outstanding: usize, steal: StealConfig) -> String {
    let executor = Arc::new(start(machine(2, 4).steal(steal)));
    let tables: Vec<TableId> = (0..2 * (QUIET + 1))
        .map(|n| executor.add_closure_table(format!("t{n}"), 1))
        .collect();
    let placement = executor.placement();
    let at_home = |domain: usize| {
        let (tables, domains) = (&tables, executor.topology().domains());
        let id = domains[domain].id;
        let homes = tables.iter().copied();
        homes
            .filter(|&table| placement.homes(table).expect("it was added").main().domain == id)
            .collect::<Vec<_>>()
    };
    let (first, second) = (at_home(0), at_home(1));
    let home = executor.topology().domains()[0].id;
    let stop = Arc::new(AtomicBool::new(false));
    let none = Arc::new(AtomicU64::new(0));
    flood(&executor, second[0], TASK, 6, &stop, &none);
    flood(&executor, first[0], TASK, outstanding, &stop, &none);
    let (seen, places) = (
        Seen::default(),
        Arc::new([AtomicU64::new(0), AtomicU64::new(0)]),
    );
    let began = Instant::now();
    // A tenth of the domain's time for all of them together.
    let gap = TASK * 10 / 4;
    for number in 0.. {
        let at = gap * number;
        if at >= RUN {
            break;
        }
        thread::sleep(at.saturating_sub(began.elapsed()));
        let table = first[1 + number as usize % QUIET.min(first.len() - 1)];
        let (places, submitted, waited) = (Arc::clone(&places), Instant::now(), seen.clone());
        let code = move |context: &mut Context| {
            waited.ran(submitted);
            places[usize::from(context.domain() != Some(home))].fetch_add(1, Ordering::Relaxed);
            thread::sleep(TASK);
        };
        if let Ok(ticket) = executor.submit_fn(table, None, code) {
            ticket.detach();
        }
    }
    stop.store(true, Ordering::Relaxed);
    let [home, away] = [0, 1].map(|place| places[place].load(Ordering::Relaxed));
    format!("{home:5} / {away:5}  {}", seen.tell(began))
}
