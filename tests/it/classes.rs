//! Bulk work gives way, and each table is treated by its options.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::lists::Lists;
use crate::common::{Gate, HANG, OpenOnDrop, builder, closure_table, full_at, hold, pass};
use chiplet::{Builder, Class, Executor, Query, TableId, TableOptions, Ticket};
use parking_lot::Mutex;

const BULK: TableOptions = TableOptions::new()
    .weight(1.0)
    .queue_limit(None)
    .class(Class::Bulk);

/// What was run, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn spawn(&self, executor: &Executor, table: TableId, name: &'static str) -> Ticket<()> {
        let log = self.clone();
        executor.spawn(table, move || log.0.lock().push(name))
    }

    /// A table whose queries are noted by the number that they have for a vector.
    fn table(&self) -> Lists {
        let log = self.clone();
        Lists::default().on_coarse(move |query: &Query| {
            let names = ["query 0", "query 1", "query 2", "query 3"];
            log.0.lock().push(names[query.vector()[0] as usize]);
        })
    }
}

/// One worker, which is held while `submit` submits; returns in which order that was run.
fn run(builder: Builder, submit: impl FnOnce(&Executor, &Log)) -> Vec<&'static str> {
    // Without runs, so that the order is that of the classes.
    let executor = builder.reorder(0.0).build().unwrap();
    let (log, gate) = (Log::default(), Gate::default());
    let _open = OpenOnDrop(gate.clone());
    let first = executor.add_closure_table("first", 1);
    let held = hold(&executor, first, 1, &gate);
    submit(&executor, &log);
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    executor.shutdown(chiplet::shutdown::Shutdown::Drain(HANG));
    std::mem::take(&mut *log.0.lock())
}

#[test]
fn bulk_work_gives_way_whoever_says_so() {
    let ran = run(builder(1, 1).bulk_weight(0.0), |executor, log| {
        let interactive = executor.add_table("interactive", log.table());
        let bulk = executor.add_table_with("bulk", log.table(), BULK);
        let query = |number: usize| Query::new([number as f32]);
        log.spawn(executor, bulk, "closure of a bulk table")
            .detach();
        executor.search(bulk, query(0)).detach();
        let urgent = query(1).class(Class::Interactive);
        executor.search(bulk, urgent).detach();
        let patient = query(2).class(Class::Bulk);
        executor.search(interactive, patient).detach();
        executor.search(interactive, query(3)).detach();
        log.spawn(executor, interactive, "closure").detach();
    });
    let expected = [
        "query 1",
        "query 3",
        "closure",
        "closure of a bulk table",
        "query 0",
        "query 2",
    ];
    assert_eq!(ran, expected);
}

#[test]
fn bulk_work_has_its_turns_while_interactive_tasks_wait() {
    let submit = |executor: &Executor, log: &Log| {
        let bulk = closure_table(executor, "bulk", BULK);
        let interactive = executor.add_closure_table("interactive", 1);
        log.spawn(executor, bulk, "bulk").detach();
        for name in ["first", "second", "third"] {
            log.spawn(executor, interactive, name).detach();
        }
    };
    let ran = run(builder(1, 1), submit);
    assert_eq!(ran, ["first", "bulk", "second", "third"]);
    // What is no number is the default, and what is too little is nothing.
    let ran = run(builder(1, 1).bulk_weight(f32::NAN), submit);
    assert_eq!(ran, ["first", "bulk", "second", "third"]);
    let ran = run(builder(1, 1).bulk_weight(-1.0), submit);
    assert_eq!(ran, ["first", "second", "third", "bulk"]);
}

#[test]
fn a_batch_is_bulk_work_if_all_of_it_is() {
    let endless = builder(1, 1).bulk_weight(0.0);
    let ran = run(endless, |executor, log| {
        let table = executor.add_table("t", log.table());
        let bulk = |number: usize| Query::new([number as f32]).class(Class::Bulk);
        executor.search_batch(table, vec![bulk(0)]).detach();
        let mixed = vec![bulk(1), Query::new([2.0])];
        executor.search_batch(table, mixed).detach();
    });
    assert_eq!(ran, ["query 1", "query 2", "query 0"]);
}

#[test]
fn a_tables_own_queue_limit_holds_instead_of_the_executors() {
    let executor = builder(1, 1)
        .queue_limit(8)
        .table_queue_limit(2)
        .build()
        .unwrap();
    let own = |queue_limit| TableOptions::new().queue_limit(queue_limit);
    let small = executor.add_table_with("small", Arc::new(Lists::default()), own(Some(1)));
    let common = executor.add_closure_table("common", 1);
    let large = closure_table(&executor, "large", own(Some(100)));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, common, 1, &gate);
    let accepts = |table| {
        let fill = || executor.submit_fn(table, None, |_| ());
        let mut accepted = Vec::new();
        let refused = loop {
            match fill() {
                Ok(ticket) => accepted.push(ticket),
                Err(refused) => break full_at(refused.reason),
            }
        };
        (accepted, refused)
    };
    let limited = |limit| (None, limit);
    let (first, reason) = accepts(small);
    assert_eq!((first.len(), reason), (1, limited(1)));
    let (second, reason) = accepts(common);
    assert_eq!((second.len(), reason), (2, limited(2)));

    // Options stay when the index is replaced, and are changed for what comes then.
    assert!(executor.replace_table(small, Lists::default()).is_ok());
    assert_eq!(executor.table_options(small), Some(own(Some(1))));
    let refused = executor.submit(small, Query::new([1.0])).unwrap_err();
    assert_eq!(full_at(refused.reason), limited(1));
    assert!(executor.set_table_options(small, own(Some(3))).is_ok());
    let (more, reason) = accepts(small);
    assert_eq!((more.len(), reason), (2, limited(3)));
    assert!(executor.set_table_options(small, own(Some(0))).is_ok());
    assert_eq!(accepts(small).1, limited(0));
    assert!(executor.set_table_options(small, own(None)).is_ok());
    assert_eq!(accepts(small).1, limited(2));
    let (third, reason) = accepts(large);
    assert_eq!(
        (third.len(), reason),
        (3, (Some(0), 8)),
        "the domain's holds besides"
    );
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    let accepted = [first, second, more, third].into_iter().flatten();
    accepted.for_each(|ticket| ticket.wait().unwrap());

    assert!(executor.remove_table(small).is_ok());
    assert!(executor.set_table_options(small, own(None)).is_err());
    assert_eq!(executor.table_options(small), None);
}

#[test]
fn a_table_of_more_weight_is_served_more_often_where_both_ask_for_too_much() {
    const TASK: Duration = Duration::from_millis(2);
    // Without runs, so that the order is that of the shares.
    let executor = builder(1, 1).reorder(0.0).build().unwrap();
    let heavy = TableOptions::new().weight(3.0);
    let tables = [
        executor.add_closure_table("one", 1),
        closure_table(&executor, "three", heavy),
    ];
    let log = Log::default();
    let spawn = |turn: usize| {
        let (log, name) = (log.clone(), ["one", "three"][turn % 2]);
        executor.spawn(tables[turn % 2], move || {
            log.0.lock().push(name);
            pass(Instant::now() + TASK);
        })
    };
    // How long their tasks take is to be known first.
    for turn in 0..20 {
        spawn(turn).wait().unwrap();
    }
    log.0.lock().clear();
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, tables[0], 1, &gate);
    let tickets: Vec<_> = (0..120).map(spawn).collect();
    gate.open();
    let all = held.into_iter().chain(tickets);
    all.for_each(|ticket| ticket.wait().unwrap());
    let ran = log.0.lock();
    assert_eq!(ran.len(), 120);
    let threes = ran[..40].iter().filter(|&&name| name == "three").count();
    // 30 if each had taken just 2 ms.
    assert!(threes > 22, "{threes} of 40");
}
