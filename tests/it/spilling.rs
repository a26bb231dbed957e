//! Scan units of tables that no cache keeps: other domains take part while they have workers to spare.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use crate::common::lists::Lists;
use crate::common::rules::Rules;
use crate::common::{Gate, HANG, OpenOnDrop, builder, hold, home, still};
use chiplet::{Context, Executor, LeftHome, Query, Table};
use parking_lot::{Condvar, Mutex};

/// More than twice a domain's cache.
const STREAM: u64 = (64 << 20) + 1;

/// Which domain this worker belongs to, by its thread's name.
fn domain() -> u32 {
    let thread = thread::current();
    let name = thread.name().expect("workers have names").to_owned();
    let domain = name.split('-').nth(1).expect("chiplet-DOMAIN-WORKER");
    domain.parse().unwrap()
}

/// Waits until so many different threads have come.
#[derive(Default)]
struct Meeting {
    threads: Mutex<HashSet<thread::ThreadId>>,
    came: Condvar,
}

impl Meeting {
    fn wait_for(&self, count: usize) {
        let mut threads = self.threads.lock();
        threads.insert(thread::current().id());
        self.came.notify_all();
        let missing = |threads: &mut HashSet<_>| threads.len() < count;
        let waited = self.came.wait_while_for(&mut threads, missing, HANG);
        assert!(!waited.timed_out(), "only {} came", threads.len());
    }
}

/// Searches again and again beside what `begin` has begun, and returns which other domains scanned for a query of which
/// its home scanned a part. A query that another domain took as a whole, as the home's workers got no core, is scanned
/// there.
fn scanned_by<H>(rules: Rules, size: u64, begin: impl FnOnce(&Executor) -> H) -> HashSet<u32> {
    let domains = Arc::new(Mutex::new(HashSet::new()));
    let seen = Arc::clone(&domains);
    let lists = Lists::default().of_size(size).on_scan(move |_, _| {
        seen.lock().insert(domain());
    });
    let executor = rules.configure(builder(2, 2), still()).build().unwrap();
    let _begun = begin(&executor);
    let table = executor.add_table("lists", lists);
    let home = home(&executor, table);
    let (mut at_home, mut others) = (0, HashSet::new());
    for n in 0..300 {
        executor
            .search(table, Query::new([n as f32]))
            .wait()
            .unwrap();
        let mut scanned = std::mem::take(&mut *domains.lock());
        if scanned.remove(&home) {
            at_home += 1;
            others.extend(scanned);
        }
    }
    assert!(at_home > 0, "its home scans");
    others
}

#[test]
fn another_domain_takes_part_in_scanning_a_table_that_no_cache_keeps() {
    let meeting = Meeting::default();
    // Three at once are more than its home has.
    let lists = Lists::default()
        .of_size(STREAM)
        .on_scan(move |_, _| meeting.wait_for(3));
    let query = Query::new([3.0]).top(30);
    let whole = Lists::default().search(&query, &mut Context::default());
    let executor = builder(2, 2).build().unwrap();
    let table = executor.add_table("lists", lists);
    let (found, report) = executor.search(table, query).with_report().wait().unwrap();
    assert_eq!(Ok(found), whole);
    assert_eq!(report.left_home, Some(LeftHome::StolenByIdle));
    assert!(report.units >= 3, "{report:?}");
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.done), (1, 1));
}

#[test]
fn tables_that_a_cache_keeps_are_scanned_at_home() {
    assert!(scanned_by(Rules::Default, STREAM - 1, |_| ()).is_empty());
    assert!(scanned_by(Rules::Local, STREAM, |_| ()).is_empty());
}

#[test]
fn a_domain_with_work_of_its_own_is_left_alone() {
    let others = scanned_by(Rules::Default, STREAM, |executor| {
        let gate = Gate::default();
        // The first table's home; the next one lives in the other domain.
        let busy = executor.add_closure_table("busy", 1);
        hold(executor, busy, 2, &gate)
            .into_iter()
            .for_each(|ticket| ticket.detach());
        OpenOnDrop(gate)
    });
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn who_helps_another_domain_goes_home_when_a_task_waits_there() {
    // Held at its first unit: the helper. Held at every unit: its home's own workers.
    let (helper_goes, all_go) = (Gate::default(), Gate::default());
    let _open = (OpenOnDrop(helper_goes.clone()), OpenOnDrop(all_go.clone()));
    let (came, helpers) = channel();
    let executor = Arc::new(builder(2, 2).build().unwrap());
    let neighbour = executor.add_closure_table("neighbour", 1);
    let away = home(&executor, neighbour);
    let scans = Arc::new(Mutex::new(0));
    let lists = {
        let (helper_goes, all_go, scans) =
            (helper_goes.clone(), all_go.clone(), Arc::clone(&scans));
        Lists::default().of_size(STREAM).on_scan(move |_, _| {
            if domain() != away {
                return all_go.wait();
            }
            *scans.lock() += 1;
            came.send(()).unwrap();
            helper_goes.wait();
        })
    };
    let stream = executor.add_table("stream", lists);
    assert_ne!(home(&executor, stream), away);
    // The helper's sibling is held, so a further task waits for the helper.
    let held = hold(&executor, neighbour, 1, &all_go);
    let query = executor.search(stream, Query::new([3.0]));
    helpers.recv_timeout(HANG).expect("one comes to help");
    let before = Arc::clone(&scans);
    let waiting = executor.spawn(neighbour, move || *before.lock());
    helper_goes.open();
    // Afterwards it may help again.
    let taken = waiting.wait().unwrap();
    assert_eq!(taken, 1, "it took no other unit before");
    all_go.open();
    query.wait().unwrap();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
}
