//! What one submit costs as tables and domains become many, in instructions: `make bench`, or
//! `cargo bench --bench growth` where `valgrind` and `gungraun-runner` are installed.
//!
//! Instructions are counted by callgrind, so the figures repeat on a busy machine. Only the thread that submits is
//! counted, and only during the one call of [`Executor::spawn`]. All workers are held inside a task first: nobody is
//! woken, which would be a system call and not a matter of growth. Every other table has a task waiting, so each
//! queue is as long as it gets.
//!
//! | group | counts |
//! | --- | --- |
//! | `later` | a submit to a table that had one before |
//! | `first` | the first submit ever to a table: its flow in the domain's queue is made |
//! | `life` | the whole process, in which so many tasks are submitted, run and answered: their difference, divided by the difference in tasks, is one task's whole life |

// The macros of gungraun write public items without documentation.
#![allow(missing_docs, reason = "no one links to a benchmark")]

use std::hint::black_box;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};

use chiplet::{Executor, PlannerConfig, TableId, Ticket, Topology, TriggerConfig};
use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint};

/// Long enough that no submit of this benchmark is refused.
const QUEUE: usize = 1 << 20;

/// Holds workers until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self, arrived: &Sender<()>) {
        arrived.send(()).expect("the main thread counts arrivals");
        let open = self.open.lock().expect("no holder panics");
        drop(
            self.opened
                .wait_while(open, |open| !*open)
                .expect("no holder panics"),
        );
    }

    fn open(&self) {
        *self.open.lock().expect("no holder panics") = true;
        self.opened.notify_all();
    }
}

/// An executor whose workers are all held, and a table to submit to.
struct Held {
    executor: Executor,
    tables: Vec<TableId>,
    gate: Arc<Gate>,
    waiting: Vec<Ticket<u32>>,
}

impl Held {
    fn new(tables: u32, domains: u32) -> Self {
        let planner = PlannerConfig::new().trigger(TriggerConfig::new().cooldown(None));
        let executor = Executor::builder()
            .topology(Topology::uniform(domains, 1, 32 << 20))
            .planner(planner)
            .queue_limit(QUEUE)
            .table_queue_limit(QUEUE)
            .build()
            .expect("the workers start");
        let gate = Arc::new(Gate::default());
        let (arrived, arrivals) = channel();
        // New tables without traffic are dealt out evenly: each holder has a domain for itself.
        let holders: Vec<TableId> = (0..domains)
            .map(|n| executor.add_closure_table(format!("holder {n}"), 1))
            .collect();
        for &holder in &holders {
            let (gate, arrived) = (Arc::clone(&gate), arrived.clone());
            let ticket = executor.spawn(holder, move || gate.pass(&arrived));
            arrivals.recv().expect("the holder runs");
            // A running task is not cancelled.
            drop(ticket);
        }
        for holder in holders {
            executor.remove_table(holder).unwrap();
        }
        let tables = (0..tables)
            .map(|n| executor.add_closure_table(format!("t{n}"), 1 << 20))
            .collect();
        Self {
            executor,
            tables,
            gate,
            waiting: Vec::new(),
        }
    }

    /// The table in the middle: neither the first nor the last in any structure.
    fn target(&self) -> TableId {
        self.tables[self.tables.len() / 2]
    }

    fn fill(&mut self, skip: Option<TableId>) {
        for &table in self.tables.iter().filter(|&&table| Some(table) != skip) {
            self.waiting.push(self.executor.spawn(table, || 0));
        }
    }
}

/// Fills the allocator's free lists, so that the one allocation of a submit takes the same path each time.
fn warm_allocator() {
    for size in (16..=512).step_by(16) {
        let blocks: Vec<Vec<u8>> = (0..7).map(|_| Vec::with_capacity(size)).collect();
        drop(black_box(blocks));
    }
}

fn later(tables: u32, domains: u32) -> Box<Held> {
    let mut held = Held::new(tables, domains);
    held.fill(None);
    warm_allocator();
    Box::new(held)
}

fn first(tables: u32, domains: u32) -> Box<Held> {
    let mut held = Held::new(tables, domains);
    held.fill(Some(held.target()));
    warm_allocator();
    Box::new(held)
}

fn release(done: (Box<Held>, Ticket<u32>)) {
    let (held, ticket) = done;
    held.gate.open();
    assert_eq!(ticket.wait().ok(), Some(7));
}

#[library_benchmark(setup = later, teardown = release)]
#[bench::tables_1_domains_1(1, 1)]
#[bench::tables_100_domains_1(100, 1)]
#[bench::tables_10000_domains_1(10_000, 1)]
#[bench::tables_1_domains_8(1, 8)]
#[bench::tables_100_domains_8(100, 8)]
#[bench::tables_10000_domains_8(10_000, 8)]
#[bench::tables_1_domains_64(1, 64)]
#[bench::tables_100_domains_64(100, 64)]
#[bench::tables_10000_domains_64(10_000, 64)]
fn submit_later(held: Box<Held>) -> (Box<Held>, Ticket<u32>) {
    let ticket = held
        .executor
        .spawn(black_box(held.target()), || black_box(7));
    (held, ticket)
}

#[library_benchmark(setup = first, teardown = release)]
#[bench::tables_1_domains_1(1, 1)]
#[bench::tables_100_domains_1(100, 1)]
#[bench::tables_10000_domains_1(10_000, 1)]
#[bench::tables_1_domains_8(1, 8)]
#[bench::tables_100_domains_8(100, 8)]
#[bench::tables_10000_domains_8(10_000, 8)]
#[bench::tables_1_domains_64(1, 64)]
#[bench::tables_100_domains_64(100, 64)]
#[bench::tables_10000_domains_64(10_000, 64)]
fn submit_first(held: Box<Held>) -> (Box<Held>, Ticket<u32>) {
    let ticket = held
        .executor
        .spawn(black_box(held.target()), || black_box(7));
    (held, ticket)
}

// Submits `tasks` to one of eight held tables in turn, lets the worker run them, and takes every answer.
#[library_benchmark(
    config = LibraryBenchmarkConfig::default()
        .tool(Callgrind::with_args(["--collect-atstart=yes"]).entry_point(EntryPoint::None))
)]
#[bench::tasks_1000(1_000)]
#[bench::tasks_9000(9_000)]
fn life(tasks: usize) {
    let held = Held::new(8, 1);
    let tickets: Vec<Ticket<usize>> = (0..tasks)
        .map(|n| {
            held.executor
                .spawn(held.tables[n % 8], move || black_box(n))
        })
        .collect();
    held.gate.open();
    // The last answer first: then all others are there, and nobody waits a second time.
    for (n, ticket) in tickets.into_iter().enumerate().rev() {
        assert_eq!(ticket.wait().ok(), Some(n));
    }
}

library_benchmark_group!(name = growth_later, benchmarks = submit_later);
library_benchmark_group!(name = growth_first, benchmarks = submit_first);
library_benchmark_group!(name = whole_life, benchmarks = life);
main!(
    library_benchmark_groups = growth_later,
    growth_first,
    whole_life
);
