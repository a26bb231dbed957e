//! Everything at once under every strategy: tables come and go, tickets are kept, dropped and detached, tasks
//! expire and panic, queues overflow, homes move, and two threads shut down. Every accepted task ends exactly once.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use chiplet::{Executor, Query, Shutdown, Strategy, SubmitError, TableId, Ticket};
use common::lists::Lists;
use common::{HANG, builder, restless};

/// Tasks that must have ended before the shutdown.
const TASKS: u64 = 2_500;

/// A fixed sequence of throws, another one for each seed.
struct Dice(u64);

impl Dice {
    /// One of `0..sides`: an outcome of Knuth's MMIX generator, whose upper bits are the good ones.
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.throw(sides) == 0
    }
}

struct Client<'a> {
    executor: &'a Executor,
    dice: Dice,
    tables: Vec<TableId>,
    /// Waits for one ticket each.
    waits: Vec<Box<dyn FnOnce()>>,
    accepted: u64,
}

impl Client<'_> {
    /// Until the executor shuts down; returns how many tasks it accepted.
    fn run(mut self) -> u64 {
        while self.step() != Err(SubmitError::ShuttingDown) {
            if self.waits.len() > 20 {
                self.waits.drain(..10).for_each(|wait| wait());
            }
        }
        self.waits.into_iter().for_each(|wait| wait());
        self.accepted
    }

    fn step(&mut self) -> Result<(), SubmitError> {
        if self.tables.len() < 2 || self.dice.one_in(30) {
            let table = if self.dice.one_in(2) {
                self.executor.add_closure_table("closures", 1)
            } else {
                self.executor.add_table("lists", Lists::default())
            };
            self.tables.push(table);
        }
        let pick = self.dice.throw(self.tables.len() as u64) as usize;
        if self.tables.len() > 2 && self.dice.one_in(30) {
            self.executor.remove_table(self.tables.swap_remove(pick));
            return Ok(());
        }
        let table = self.tables[pick];
        let deadline = self.dice.one_in(10).then(Instant::now);
        if self.dice.one_in(2) {
            let query = Query::new([3.0]);
            let query = match deadline {
                Some(at) => query.deadline(at),
                None => query,
            };
            let ticket = self.executor.submit(table, query);
            self.keep(ticket.map_err(|refused| refused.reason))
        } else {
            let (bytes, fails) = (1 << self.dice.throw(20), self.dice.one_in(50));
            let ticket = self.executor.submit_fn(table, deadline, move |work| {
                work.add_bytes(bytes);
                assert!(!fails, "a task that fails");
            });
            self.keep(ticket.map_err(|refused| refused.reason))
        }
    }

    fn keep<T: 'static>(
        &mut self,
        ticket: Result<Ticket<T>, SubmitError>,
    ) -> Result<(), SubmitError> {
        let ticket = ticket?;
        self.accepted += 1;
        match self.dice.throw(8) {
            0 => drop(ticket),
            1 => ticket.detach(),
            _ => self.waits.push(Box::new(move || drop(ticket.wait()))),
        }
        Ok(())
    }
}

/// Looks until enough tasks have ended; each look must add up.
fn watch(executor: &Executor) {
    let begun = Instant::now();
    loop {
        let snapshot = executor.snapshot();
        let tables = snapshot.tables.iter().map(|table| table.counts);
        for counts in tables.chain([snapshot.total]) {
            let known = counts.queued + counts.running + counts.ended();
            assert_eq!(counts.accepted, known, "{counts:?}");
        }
        if snapshot.total.ended() >= TASKS {
            return;
        }
        assert!(begun.elapsed() < HANG, "tasks do not end: {snapshot:?}");
    }
}

fn every_task_ends_once(strategy: Strategy, seed: u64, first: Shutdown) {
    let executor = builder(3, 2)
        .planner(restless())
        .strategy(strategy)
        .queue_limit(32)
        .build()
        .unwrap();
    let accepted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (executor, accepted) = (&executor, &accepted);
            scope.spawn(move || {
                let client = Client {
                    executor,
                    dice: Dice(3 * seed + client),
                    tables: Vec::new(),
                    waits: Vec::new(),
                    accepted: 0,
                };
                accepted.fetch_add(client.run(), Ordering::Relaxed);
            });
        }
        watch(&executor);
        scope.spawn(|| executor.shutdown(first));
        executor.shutdown(Shutdown::Drain(HANG));
    });
    let total = executor.snapshot().total;
    let accepted = accepted.into_inner();
    assert_eq!(
        (total.accepted, total.ended(), total.queued, total.running),
        (accepted, accepted, 0, 0),
        "{strategy}, seed {seed}"
    );
    for (what, count) in [
        ("done", total.done),
        ("expired", total.expired),
        ("cancelled", total.cancelled),
        ("panicked", total.panicked),
    ] {
        assert!(count > 0, "{strategy}: no task ended as {what}");
    }
}

#[test]
fn every_accepted_task_ends_once_while_two_drain() {
    for (seed, strategy) in Strategy::ALL.into_iter().enumerate() {
        every_task_ends_once(strategy, seed as u64, Shutdown::Drain(HANG));
    }
}

#[test]
fn every_accepted_task_ends_once_while_one_abandons_what_another_drains() {
    for (seed, strategy) in Strategy::ALL.into_iter().enumerate() {
        every_task_ends_once(strategy, 100 + seed as u64, Shutdown::Abandon(HANG));
    }
}
