//! A log of a real run, replayed by the simulator and by the executor's own scheduler: the same decisions.

use std::hint::spin_loop;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use chiplet::{Executor, Topology};
use chiplet_policy::replay::{Arrival, Decision, Log};
use chiplet_policy::{StealLevel, Time};
use chiplet_sim::{Costs, Machine};

/// Domains of so many cores each, on two sockets.
fn machine(domains: &[u32]) -> Topology {
    let mut machine = Topology::builder();
    for (domain, &cores) in domains.iter().enumerate() {
        if domain > 0 && domain == domains.len().div_ceil(2) {
            machine = machine.package();
        }
        machine = machine.domain(32 << 20, cores);
    }
    machine.build().unwrap()
}

/// Where the recorded run happens.
const RECORDED: [u32; 4] = [2; 4];

fn busy(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        spin_loop();
    }
}

/// What came to a real executor, and how long it took: bursts for one table, and others beside them.
fn record() -> Log {
    const TABLES: usize = 8;
    const TASKS: usize = 1_500;
    let executor = Executor::builder()
        .topology(machine(&RECORDED))
        // A busy machine may run none of the tasks until all have come.
        .queue_limit(TASKS)
        .build()
        .unwrap();
    let tables: Vec<_> = (0..TABLES)
        .map(|table| executor.add_closure_table(format!("table {table}"), 1 << 20))
        .collect();
    let (ended, took) = channel();
    let began = Instant::now();
    let (mut log, mut tickets) = (Log::default(), Vec::new());
    for step in 0..TASKS {
        let table = match step % 300 {
            0..150 => 0,
            _ => step * 7 % TABLES,
        };
        let ended = ended.clone();
        log.arrivals.push(Arrival {
            at: Time::from(began.elapsed()),
            table,
            took: Duration::ZERO,
        });
        tickets.push(executor.spawn(tables[table], move || {
            let started = Instant::now();
            busy(Duration::from_micros(10 + (step * 37 % 90) as u64));
            ended.send((step, started.elapsed())).unwrap();
        }));
        if step % 300 >= 150 {
            busy(Duration::from_micros(20));
        }
    }
    tickets
        .into_iter()
        .for_each(|ticket| ticket.wait().unwrap());
    for (step, time) in took.try_iter() {
        log.arrivals[step].took = time;
    }
    let snapshot = executor.snapshot();
    let home = |name: String| {
        let table = snapshot.tables.iter().find(|table| *table.name == name);
        table.unwrap().homes.iter().next().unwrap().domain.0 as usize
    };
    log.homes = (0..TABLES)
        .map(|table| home(format!("table {table}")))
        .collect();
    log
}

/// Replays `log` in both, and returns how many tasks were begun at home and away, and how many refused.
fn compare(log: &Log, domains: &[u32]) -> [usize; 3] {
    let scheduled = chiplet_executor::replay(log, &machine(domains));
    let simulated = Machine::new("made up", machine(domains), Costs::GENOA);
    let simulated = chiplet_sim::replay(log, &simulated);
    let differs = (0..scheduled.len().max(simulated.len()))
        .find(|&at| scheduled.get(at) != simulated.get(at));
    if let Some(at) = differs {
        let around = |decisions: &[Decision]| {
            let lines = decisions.iter().enumerate().skip(at.saturating_sub(5));
            let lines = lines
                .take(8)
                .map(|(number, decision)| format!("{number}: {decision:?}\n"));
            lines.collect::<String>()
        };
        let (one, other) = (around(&scheduled), around(&simulated));
        panic!("on {domains:?} the scheduler:\n{one}the simulator:\n{other}");
    }
    assert_eq!(
        scheduled.len(),
        log.arrivals.len(),
        "each task is begun or refused"
    );
    let count =
        |of: fn(&Decision) -> bool| scheduled.iter().filter(|decision| of(decision)).count();
    [
        count(|decision| {
            matches!(
                decision,
                Decision::Begun {
                    level: StealLevel::Own,
                    ..
                }
            )
        }),
        count(|decision| {
            matches!(
                decision,
                Decision::Begun {
                    level: StealLevel::Away(_),
                    ..
                }
            )
        }),
        count(|decision| matches!(decision, Decision::Refused { .. })),
    ]
}

#[test]
fn the_simulator_and_the_scheduler_decide_alike_what_becomes_of_a_real_run() {
    let log = record();
    let [own, remote, _] = compare(&log, &RECORDED);
    assert!(
        own > 100 && remote > 20,
        "the run asks for little: {own} own, {remote} remote"
    );
}

#[test]
fn they_decide_alike_on_machines_and_logs_of_many_kinds() {
    let mut seed = 1_u64;
    let mut draw = |below: u64| {
        // Knuth, The Art of Computer Programming 2, section 3.3.4, table 1, line 26 (MMIX).
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut all = [0; 3];
    for _ in 0..300 {
        let count = 1 + draw(8) as usize;
        let domains: Vec<u32> = (0..count).map(|_| 1 + draw(6) as u32).collect();
        let tables = 1 + draw(20);
        let homes = (0..tables).map(|_| draw(domains.len() as u64) as usize);
        let mut log = Log {
            homes: homes.collect(),
            arrivals: Vec::new(),
        };
        // From a quarter to twice what the workers can do, in bursts, with tasks of 1 us to 4 ms.
        let cores = u64::from(domains.iter().sum::<u32>());
        let usual = 1_000 << draw(12);
        let gap = usual * 4 / (1 + draw(8)) / cores;
        let mut at = 0;
        while log.arrivals.len() < 1_000 {
            let (table, most) = (draw(tables) as usize, 1 << draw(9));
            let burst = 1 + draw(most);
            for _ in 0..burst {
                at += draw(100);
                log.arrivals.push(Arrival {
                    at: Time::from_nanos(at),
                    table,
                    took: Duration::from_nanos(1 + draw(2 * usual)),
                });
            }
            at += draw(2 * gap * burst + 1);
        }
        for (all, one) in all.iter_mut().zip(compare(&log, &domains)) {
            *all += one;
        }
    }
    assert!(all.iter().all(|&count| count > 100), "{all:?}");
}
