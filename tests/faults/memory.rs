//! The system has no memory for a longer queue.
//!
//! The workers are held inside tasks, so that everything submitted stays queued and no lock is contended: a submit
//! allocates its task and then, one after the other, whatever has to grow for it in the queue.

use std::sync::Arc;

use chiplet::index::{FlatTable, Metric};
use chiplet::{Context, Executor, Query, SubmitError, TableId, Ticket};

use crate::common::dice::Dice;
use crate::common::rules::Rules;
use crate::common::{Gate, OpenOnDrop, builder, hold, still};
use crate::refusing::with_allocations;
use crate::verified;

/// One worker that is held inside a task.
struct Held<'a> {
    executor: &'a Executor,
    ticket: Option<Ticket<()>>,
    gate: OpenOnDrop,
}

fn one_worker(rules: Rules) -> Executor {
    let builder = rules.configure(builder(1, 1), still()).queue_limit(100_000);
    builder.table_queue_limit(100_000).build().unwrap()
}

fn held(executor: &Executor) -> Held<'_> {
    let table = executor.add_closure_table("held", 1);
    let gate = OpenOnDrop(Gate::default());
    let ticket = hold(executor, table, 1, &gate.0).pop();
    Held {
        executor,
        ticket,
        gate,
    }
}

impl Held<'_> {
    /// Lets the worker go on, and checks that each ticket gets its number and that all counters add up.
    fn finish(self, tickets: Vec<(u64, Ticket<u64>)>, shed: Shed) {
        let before = self.executor.snapshot();
        let waiting = tickets.len() as u64;
        assert_eq!((before.total.queued, before.total.running), (waiting, 1));
        assert_eq!(before.total.shed, shed.all);
        let by_table: u64 = before.tables.iter().map(|table| table.counts.shed).sum();
        assert_eq!(by_table, shed.all - shed.apart);
        let by_domain: u64 = before.domains.iter().map(|domain| domain.shed).sum();
        assert_eq!(by_domain, shed.all);
        self.gate.0.open();
        for (number, ticket) in tickets {
            assert_eq!(ticket.wait(), Ok(number));
        }
        self.ticket.unwrap().wait().unwrap();
        let after = self.executor.snapshot().total;
        assert_eq!(after.done, before.total.done + waiting + 1);
        assert_eq!(
            (after.accepted, after.shed),
            (before.total.accepted, shed.all)
        );
        assert_eq!((after.queued, after.running), (0, 0));
    }
}

/// What was refused: all of it, and what there was not even memory to count with its table.
#[derive(Clone, Copy, Default)]
struct Shed {
    all: u64,
    apart: u64,
    /// Refusals of memory that a queue does without: it puts a flood apart.
    without: u64,
}

/// Submits a closure that answers `number`, with memory for its task and for `growths` in the queue.
fn submit(
    executor: &Executor,
    table: TableId,
    number: u64,
    growths: usize,
    shed: &mut Shed,
) -> Option<(u64, Ticket<u64>)> {
    let kept = Arc::new(number);
    let code = move |_: &mut Context| *kept;
    let (result, refused) = with_allocations(1 + growths, || executor.submit_fn(table, None, code));
    match result {
        Ok(ticket) => {
            shed.without += refused as u64;
            Some((number, ticket))
        }
        Err(back) => {
            assert_eq!(back.reason, SubmitError::OutOfMemory);
            let code = back.input;
            assert_eq!(code(&mut Context::default()), number, "the caller's again");
            // The second time it is asked for, to count the task.
            assert!(matches!(refused, 1 | 2), "{refused} refusals");
            shed.all += 1;
            shed.apart += u64::from(refused == 2);
            None
        }
    }
}

/// Whatever has to grow for a table's first task is refused, one after the other; `least` of these there are.
fn first_tasks(rules: Rules, least: u64) {
    let executor = one_worker(rules);
    let held = held(&executor);
    let mut shed = Shed::default();
    let tickets: Vec<_> = (0..100)
        .map(|number| {
            let table = executor.add_closure_table("t", 1);
            let mut tries = 0..=3;
            let accepted =
                tries.find_map(|growths| submit(&executor, table, number, growths, &mut shed));
            accepted.expect("a task needs no more than a flow, its buffer and a turn")
        })
        .collect();
    assert!(shed.all >= least, "only {} refusals", shed.all);
    assert!(
        shed.apart >= 4,
        "only {} with no memory for a flow",
        shed.apart
    );
    assert_eq!(shed.without, 0, "accepted although memory was refused");
    held.finish(tickets, shed);
}

#[test]
fn a_tables_first_task_is_refused_wherever_its_flow_needs_memory() {
    // Room for more flows and more tasks at every doubling.
    first_tasks(Rules::Default, 4 + 4);
    verified("no memory for a table's flow or its task");
}

#[test]
fn a_tables_first_task_is_refused_where_all_tables_share_one_line() {
    first_tasks(Rules::Fifo, 4 + 4);
    verified("no memory for a line that all tables share");
}

#[test]
fn a_queue_takes_what_it_has_room_for_without_memory() {
    let executor = one_worker(Rules::Default);
    // As many tables as leave no room for another, at one of these numbers.
    for tables in 1..=30 {
        let held = held(&executor);
        let tables: Vec<_> = (0..tables)
            .map(|_| executor.add_closure_table("t", 1))
            .collect();
        let mut shed = Shed {
            all: executor.snapshot().total.shed,
            ..Shed::default()
        };
        let mut tickets = Vec::new();
        for &table in &tables {
            tickets.extend(submit(&executor, table, 0, usize::MAX - 1, &mut shed));
        }
        for number in 1.. {
            let table = tables[number as usize % tables.len()];
            match submit(&executor, table, number, 0, &mut shed) {
                Some(ticket) => tickets.push(ticket),
                None => break,
            }
        }
        // At least as many as the first table's flow has room for at first.
        assert!(tickets.len() >= 4, "{} places", tickets.len());
        assert_eq!((shed.apart, shed.without), (0, 0));
        held.finish(tickets, shed);
    }
    verified("no memory for a longer queue");
}

#[test]
fn a_refused_query_comes_back() {
    let executor = one_worker(Rules::Default);
    let held = held(&executor);
    let points = FlatTable::build([0.0, 1.0, 5.0], 1, Metric::L2).unwrap();
    let table = executor.add_table("points", points);
    let query = Query::new([4.0]).top(1);
    // There is room for some, and then for no more.
    let mut tickets = Vec::new();
    let refused = loop {
        let copy = query.clone();
        match with_allocations(1, || executor.submit(table, copy)).0 {
            Ok(ticket) => tickets.push(ticket),
            Err(refused) => break refused,
        }
    };
    assert_eq!(
        (refused.reason, &refused.input),
        (SubmitError::OutOfMemory, &query)
    );
    let later = executor.submit(table, refused.input).unwrap();
    held.gate.0.open();
    assert_eq!(later.wait().unwrap()[0].id, 2);
    verified("no memory to queue a query");
}

#[test]
fn whatever_is_refused_at_whatever_moment_the_counters_add_up() {
    const EXECUTORS: u64 = 10;
    const ROUNDS: u64 = 2;
    const TASKS: u64 = 1_000;
    for rules in [Rules::Default, Rules::Fifo] {
        let (mut all, mut apart) = (0, 0);
        for seed in 0..EXECUTORS {
            let executor = one_worker(rules);
            let mut dice = Dice(seed);
            let mut tables = vec![executor.add_closure_table("t", 1)];
            let mut shed = Shed::default();
            for round in 0..ROUNDS {
                let held = held(&executor);
                let mut tickets = Vec::new();
                for number in round * TASKS..(round + 1) * TASKS {
                    if dice.one_in(50) {
                        tables.push(executor.add_closure_table("t", 1));
                    }
                    let hot = dice.throw(tables.len() as u64);
                    let table = tables[dice.throw(hot + 1) as usize];
                    let growths = dice.throw(4) as usize;
                    tickets.extend(submit(&executor, table, number, growths, &mut shed));
                }
                held.finish(tickets, shed);
            }
            all += shed.all;
            apart += shed.apart;
        }
        let enough = all > EXECUTORS && apart > 0;
        assert!(enough, "{all} refusals, {apart} without a flow");
    }
    verified("no memory at random moments");
}
