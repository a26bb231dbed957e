//! A made-up machine of 12 domains with 8 cores each, 96 workers on whatever cores there are.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use crate::common::{Gate, HANG, OpenOnDrop, hold, still};
use chiplet::index::{FlatTable, Metric};
use chiplet::{
    Context, DomainId, Executor, Neighbor, PlannerConfig, Query, SearchError, StealConfig, Table,
    TableId, Ticket, Topology, TriggerConfig,
};
use chiplet_policy::WindowConfig;

const DOMAINS: u32 = 12;
const CORES: u32 = 8;

fn genoa(planner: PlannerConfig) -> chiplet::Builder {
    Executor::builder()
        .topology(Topology::uniform(DOMAINS, CORES, 32 << 20))
        .planner(planner)
}

fn rows(table: usize, count: usize, dim: usize) -> Vec<f32> {
    (0..count * dim)
        .map(|i| (((i + 31 * table) * 2_654_435_761) % 1_000) as f32 / 1_000.0)
        .collect()
}

/// Keeps `each` queries of every table outstanding until `rounds` more have been answered for each.
fn closed_loop(executor: &Executor, tables: &[TableId], each: usize, rounds: usize, query: &Query) {
    crate::common::threads::scope(|scope| {
        for part in tables.chunks(4) {
            scope.spawn(move || {
                let send = |table| executor.submit(table, query.clone()).unwrap();
                let mut flying: Vec<(TableId, Ticket<_>)> = (0..each)
                    .flat_map(|_| part.iter().map(|&table| (table, send(table))))
                    .collect();
                for _ in 0..rounds {
                    flying = flying
                        .into_iter()
                        .map(|(table, ticket)| {
                            assert_eq!(ticket.wait().unwrap().len(), 10);
                            (table, send(table))
                        })
                        .collect();
                }
                for (_, ticket) in flying {
                    ticket.wait().unwrap();
                }
            });
        }
    });
}

/// A table whose queries take four times as long away from home, as they may on a cold cache. No cache of this machine
/// has anything to do with that: queries sleep, so that a few real cores can play 96.
struct ColdAway {
    table: FlatTable,
    home: OnceLock<DomainId>,
    /// Queries that ran at home and away.
    ran: Arc<[AtomicU64; 2]>,
}

impl Table for ColdAway {
    fn dim(&self) -> usize {
        self.table.dim()
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn size_bytes(&self) -> u64 {
        self.table.size_bytes()
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        let away = context.domain() != self.home.get().copied();
        self.ran[usize::from(away)].fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(if away { 20 } else { 5 }));
        self.table.search(query, context)
    }
}

#[test]
fn at_balanced_load_every_query_is_answered_and_tables_stay_home() {
    // Only the price counts, and it is one that is paid only where a domain's workers get no turn on the real cores for
    // a long while: nobody is helped because of how long it has waited.
    let priced = StealConfig::new()
        .max_wait(Duration::MAX)
        .cold_factor(Some(20.0))
        .cold_limit(Duration::from_secs(1));
    let executor = genoa(still()).steal(priced).build().unwrap();
    assert_eq!(executor.workers().len(), 96);
    let ran: Arc<[AtomicU64; 2]> = Arc::default();
    let tables: Vec<TableId> = (0..24)
        .map(|n| {
            let table = Arc::new(ColdAway {
                table: FlatTable::build(rows(n, 400, 16), 16, Metric::L2).unwrap(),
                home: OnceLock::new(),
                ran: Arc::clone(&ran),
            });
            let id = executor.add_table(format!("t{n}"), Arc::clone(&table));
            let home = executor.placement().homes(id).unwrap().main().domain;
            table.home.set(home).unwrap();
            id
        })
        .collect();
    let homes: BTreeSet<DomainId> = tables
        .iter()
        .map(|&table| executor.placement().homes(table).unwrap().main().domain)
        .collect();
    assert_eq!(homes.len(), 12, "tables without traffic are spread evenly");

    closed_loop(&executor, &tables, 8, 40, &Query::new(vec![0.5; 16]));
    let total = executor.snapshot().total;
    assert_eq!((total.done, total.accepted), (24 * 8 * 41, 24 * 8 * 41));
    let [home, away] = [0, 1].map(|place| ran[place].load(Ordering::Relaxed));
    println!("{away} of {} queries ran away from home", home + away);
    assert!(away < home / 10, "{away} away from home, {home} there");
}

#[test]
fn an_idle_domain_helps_an_overloaded_one_once_that_beats_a_warm_cache() {
    // Nobody is helped because of how long it has waited.
    let patient = StealConfig::new().max_wait(Duration::MAX);
    let executor = genoa(still()).steal(patient).build().unwrap();
    let table = executor.add_closure_table("hot", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, table, CORES as usize, &gate);
    // The home's eight workers are held. With a cold factor of 2 a ninth waiting task is worth crossing for,
    // so of twenty the first twelve are served elsewhere, and the last eight wait for a warm core.
    let tickets: Vec<_> = (0..20).map(|n| executor.spawn(table, move || n)).collect();
    let mut tickets = tickets.into_iter();
    for n in 0..12 {
        let mut ticket = tickets.next().unwrap();
        assert_eq!(
            ticket.wait_for(HANG),
            Some(Ok(n)),
            "task {n} is served by another domain"
        );
    }
    assert_eq!(executor.snapshot().steals.remote, 12);
    assert_eq!(executor.snapshot().tables[0].counts.queued, 8);
    gate.open();
    for (n, ticket) in tickets.enumerate() {
        assert_eq!(ticket.wait(), Ok(n + 12));
    }
    for ticket in held {
        ticket.wait().unwrap();
    }
    let helped = executor
        .snapshot()
        .domains
        .iter()
        .filter(|domain| domain.done > 0)
        .count();
    assert!(helped >= 2);
}

#[test]
fn a_table_with_most_of_the_traffic_gets_several_homes() {
    // The windows of an hour's operation, shrunk to what a test can wait for.
    let planner = PlannerConfig::new()
        .windows(
            WindowConfig::new()
                .fast(Duration::from_millis(500))
                .slow(Duration::from_millis(3_000)),
        )
        .trigger(TriggerConfig::new().cooldown(Some(Duration::from_millis(500))));
    let (sender, remaps) = channel();
    let sender = Mutex::new(sender);
    let executor = Arc::new(
        genoa(planner)
            .on_remap(move |event| drop(sender.lock().unwrap().send(event.clone())))
            .build()
            .unwrap(),
    );
    let tables: Vec<TableId> = (0..24)
        .map(|n| executor.add_closure_table(format!("t{n}"), 1 << 20))
        .collect();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let several = crate::common::threads::scope(|scope| {
        let (executor, tables, stop) = (&executor, &tables, &stop);
        scope.spawn(move || {
            // 60 % of all bytes go to table 0, which keeps its home's workers busy; the rest is spread.
            let mut flying = std::collections::VecDeque::new();
            for turn in 0_usize.. {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let hot = turn % 10 < 6;
                let table = if hot {
                    tables[0]
                } else {
                    tables[1 + turn % 23]
                };
                let task = executor.submit_fn(table, None, move |context: &mut Context| {
                    context.add_bytes(1 << 20);
                    std::thread::park_timeout(Duration::from_micros(if hot { 2_000 } else { 100 }));
                });
                match task {
                    Ok(ticket) => flying.push_back(ticket),
                    Err(_) => drop(flying.pop_front().map(Ticket::wait)),
                }
                if flying.len() > 200 {
                    drop(flying.pop_front().map(Ticket::wait));
                }
            }
        });
        let mut several = 0;
        while let Ok(event) = remaps.recv_timeout(HANG) {
            let hot = event.moves.iter().find(|moved| moved.table == tables[0]);
            if let Some(moved) = hot.filter(|moved| moved.to.len() >= 3) {
                several = moved.to.len();
                break;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        several
    });
    assert!(
        several >= 3,
        "60 % of the traffic is seven domains' mean share"
    );
    let snapshot = executor.snapshot();
    assert!(snapshot.remaps >= 1);
    assert!(snapshot.placement.version() > 24);
}
