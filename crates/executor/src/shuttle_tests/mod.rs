//! The whole executor, its threads and its balancer included, under shuttle's schedulers: `make shuttle`.
//!
//! Loom explores every interleaving of small protocols; a whole executor has too many. Shuttle runs it again and again
//! on schedules drawn at random, half of them by PCT (Burckhardt et al., ASPLOS 2010), which finds a bug that needs `d`
//! ordered steps with a known probability. A lost wake-up ends as a deadlock, which shuttle reports with its schedule.
//!
//! Each scenario is also run with one step of the protocol left out, and has to fail then.

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::{PlannerConfig, TriggerConfig, WindowConfig};
use chiplet_table::{
    Context, Neighbor, Probe, Query, SearchError, SplitTable, Table, merge_nearest,
};
use chiplet_topology::Topology;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

use crate::checks::checks;
use crate::{Builder, Error, Executor, Shutdown, SplitConfig, StealConfig, SubmitError, Ticket};

mod batches;
mod blocking;
mod blocks;
mod deadlines;
mod replacing;
mod sharing;
mod stopping;

/// Longer than any model waits.
const PATIENCE: Duration = Duration::from_secs(1_000);

fn builder(domains: u32, cores: u32) -> Builder {
    let planner = PlannerConfig::new().trigger(TriggerConfig::new().cooldown(None));
    Executor::builder()
        .topology(Topology::uniform(domains, cores, 1 << 20))
        .planner(planner)
}

/// Every accepted task has ended, and as many as the clients know of were accepted.
fn assert_complete(executor: &Executor, accepted: u64) {
    let total = executor.snapshot().total;
    assert_eq!(
        (total.accepted, total.ended(), total.queued, total.running),
        (accepted, accepted, 0, 0),
        "{total:?}"
    );
}

/// Four lists, one vector each, whose distance is the list's number.
struct Lists;

impl Table for Lists {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        4
    }

    fn size_bytes(&self) -> u64 {
        4 << 20
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        let probes = self.coarse(query, context)?;
        self.scan(query, &probes, 0..4, context)
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for Lists {
    fn coarse(&self, _: &Query, _: &mut Context) -> Result<Vec<Probe>, SearchError> {
        let probe = |list: u64| Probe {
            list,
            distance: list as f32,
            cost_bytes: 1 << 20,
        };
        Ok((0..4).map(probe).collect())
    }

    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: std::ops::Range<usize>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        thread::yield_now();
        context.add_bytes(unit.len() as u64);
        let found = probes[unit].iter().map(|probe| Neighbor {
            id: probe.list,
            distance: probe.distance,
        });
        Ok(merge_nearest(query.k(), vec![found.collect()]))
    }
}

/// An executor with settings drawn at random: the order of tasks, whether tasks cross, and whether units do.
fn any_builder(domains: u32, cores: u32) -> Builder {
    use shuttle::rand::Rng as _;
    let mut dice = shuttle::rand::thread_rng();
    let split = SplitConfig::new().stream_caches([None, Some(0)][dice.gen_range(0..2)]);
    let steal = StealConfig::new().cold_factor([Some(2.0), None][dice.gen_range(0..2)]);
    let run_length = [1, 16][dice.gen_range(0..2)];
    let builder = builder(domains, cores).split(split).steal(steal);
    builder.run_length(run_length)
}

/// Each client sees counted what it was told, however full its workers' notes are.
fn counting() {
    let executor = Arc::new(builder(1, 2).build().unwrap());
    let client = |name: &str| {
        let (executor, table) = (Arc::clone(&executor), executor.add_closure_table(name, 1));
        move || {
            // More than a worker has room to note.
            (0..4).for_each(|_| executor.spawn(table, || ()).wait().unwrap());
            let tables = executor.snapshot().tables;
            let own = tables.iter().find(|other| other.id == table).unwrap();
            assert_eq!((own.counts.accepted, own.counts.done), (4, 4));
            assert_eq!(own.wait.count(), 4);
        }
    };
    let other = thread::spawn(client("other"));
    client("one")();
    other.join().unwrap();
    assert_complete(&executor, 8);
}

/// Two clients, two domains, any settings: every ticket resolves, by waiting and by polling.
fn answers() {
    let executor = Arc::new(any_builder(2, 1).build().unwrap());
    let tables = [0, 1].map(|n| executor.add_closure_table(format!("{n}"), 1));
    let clients = [0_u32, 1].map(|client| {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            let [waited, polled] = tables.map(|table| executor.spawn(table, move || client));
            assert_eq!(waited.wait(), Ok(client));
            // Unlike a parked thread, a future is polled again only if its waker was called.
            assert_eq!(shuttle::future::block_on(polled), Ok(client));
        })
    });
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    assert_complete(&executor, 4);
}

/// A ticket is dropped, waited for, or detached while its task starts and ends.
fn cancellation() {
    let executor = builder(1, 1).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let ran = Arc::new(AtomicU32::new(0));
    let submit = || {
        let ran = Arc::clone(&ran);
        executor.spawn(table, move || ran.fetch_add(1, Ordering::SeqCst))
    };
    let (first, dropped, detached, mut hasty) = (submit(), submit(), submit(), submit());
    let dropper = thread::spawn(move || drop(dropped));
    detached.detach();
    let hasty = hasty.wait_for(Duration::from_millis(1));
    first.wait().unwrap();
    dropper.join().unwrap();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 4);
    let total = executor.snapshot().total;
    assert_eq!(total.done, u64::from(ran.load(Ordering::SeqCst)));
    assert!(total.done >= 2 && total.cancelled <= 2, "{total:?}");
    assert!(matches!(hasty, None | Some(Ok(_))));
}

/// What is dropped while it waits behind another task never starts.
fn dropped_in_the_queue() {
    let executor = builder(1, 1).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let (gone, ran) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let first = {
        let gone = Arc::clone(&gone);
        executor.spawn(table, move || {
            while gone.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
        })
    };
    let second = {
        let ran = Arc::clone(&ran);
        executor.spawn(table, move || ran.fetch_add(1, Ordering::SeqCst))
    };
    let dropper = thread::spawn(move || {
        drop(second);
        gone.store(1, Ordering::SeqCst);
    });
    first.wait().unwrap();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    dropper.join().unwrap();
    assert_complete(&executor, 2);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(executor.snapshot().total.cancelled, 1);
}

/// Queries are cut and their units stolen, a ticket is dropped half way, and answers are whole.
fn splitting() {
    let executor = Arc::new(any_builder(2, 2).build().unwrap());
    let table = executor.add_table("lists", Lists);
    let dropped = executor.submit(table, Query::new([0.0])).unwrap();
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            let ticket = executor.submit(table, Query::new([0.0]).top(3)).unwrap();
            let ids: Vec<u64> = ticket.wait().unwrap().iter().map(|hit| hit.id).collect();
            assert_eq!(ids, [0, 1, 2]);
        })
    };
    drop(dropped);
    client.join().unwrap();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 2);
}

/// A table that no cache keeps is scanned by another domain, too, and nobody refers to its query afterwards.
fn spilling() {
    // As a domain has one worker, nothing else would be cut.
    let split = SplitConfig::new().max_unit_bytes(1 << 20);
    let executor = Arc::new(builder(2, 1).split(split).build().unwrap());
    let table = executor.add_table("lists", Lists);
    let other = executor.add_closure_table("other", 1);
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || assert_eq!(executor.spawn(other, || 7).wait(), Ok(7)))
    };
    let seen = Arc::new(());
    let query = Query::new([0.0]).top(3).attach(Arc::clone(&seen));
    let ticket = executor.submit(table, query).unwrap();
    let ids: Vec<u64> = ticket.wait().unwrap().iter().map(|hit| hit.id).collect();
    assert_eq!(ids, [0, 1, 2]);
    client.join().unwrap();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 2);
    assert_eq!(Arc::strong_count(&seen), 1, "the query is gone");
}

/// Domains lose their workers and get them back while tasks come: homes change under the submitters.
fn staffing() {
    let executor = Arc::new(any_builder(2, 1).build().unwrap());
    let tables = [0, 1].map(|n| executor.add_closure_table(format!("{n}"), 1));
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            for turn in 0..2_u32 {
                let tickets = tables.map(|table| executor.submit_fn(table, None, move |_| turn));
                for ticket in tickets {
                    assert_eq!(
                        ticket.expect("the queues are far from full").wait(),
                        Ok(turn)
                    );
                }
            }
        })
    };
    executor.restrict_to(&[1]).unwrap();
    executor.restrict_to(&[0]).unwrap();
    client.join().unwrap();
    executor.restrict_to(&[0, 1]).unwrap();
    let last = tables.map(|table| executor.spawn(table, || ()));
    last.into_iter().for_each(|ticket| ticket.wait().unwrap());
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 6);
}

/// One of two workers stands by while tasks come for both.
fn one_stands_by() {
    let executor = Arc::new(builder(1, 2).build().unwrap());
    let table = executor.add_closure_table("t", 1);
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            for _ in 0..2 {
                let tickets = [0, 1].map(|n| executor.spawn(table, move || n));
                for (n, ticket) in tickets.into_iter().enumerate() {
                    assert_eq!(ticket.wait(), Ok(n));
                }
            }
        })
    };
    executor.restrict_to(&[0]).unwrap();
    client.join().unwrap();
    assert_complete(&executor, 4);
}

/// A table is removed while others submit to it, and the next takes its place.
fn removal() {
    let planner =
        PlannerConfig::new().windows(WindowConfig::new().fast(Duration::from_millis(100)));
    let executor = Arc::new(builder(1, 1).planner(planner).build().unwrap());
    let table = executor.add_closure_table("first", 1);
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            let mut accepted = 0;
            for _ in 0..3 {
                match executor.submit_fn(table, None, |_| ()) {
                    Ok(ticket) => {
                        accepted += 1;
                        ticket.detach();
                    }
                    Err(refused) => assert_eq!(refused.reason, SubmitError::UnknownTable),
                }
            }
            accepted
        })
    };
    assert!(executor.remove_table(table).is_ok());
    assert!(executor.remove_table(table).is_err());
    let next = executor.add_closure_table("next", 1);
    assert_eq!(executor.spawn(next, || 5).wait(), Ok(5));
    let accepted = client.join().unwrap();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, accepted + 1);
    let snapshot = executor.snapshot();
    assert_eq!(snapshot.tables.len(), 1);
    assert_eq!(snapshot.tables[0].counts.accepted, 1);
}

/// One shuts down, another too, a third submits: what was accepted ends.
fn shutdown(how: Shutdown) {
    let executor = Arc::new(any_builder(2, 1).build().unwrap());
    let table = executor.add_closure_table("t", 1);
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            let mut tickets: Vec<Ticket<()>> = Vec::new();
            for _ in 0..3 {
                match executor.submit_fn(table, None, |_| ()) {
                    Ok(ticket) => tickets.push(ticket),
                    Err(refused) => assert_eq!(refused.reason, SubmitError::ShuttingDown),
                }
            }
            let accepted = tickets.len() as u64;
            for ticket in tickets {
                assert!(matches!(ticket.wait(), Ok(()) | Err(Error::ShutDown)));
            }
            accepted
        })
    };
    let other = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || executor.shutdown(Shutdown::Drain(PATIENCE)))
    };
    executor.restrict_to(&[0]).unwrap();
    executor.shutdown(how);
    other.join().unwrap();
    assert_complete(&executor, client.join().unwrap());
}

fn drain() {
    shutdown(Shutdown::Drain(PATIENCE));
}

fn abandon() {
    shutdown(Shutdown::Abandon(PATIENCE));
}

/// A queue at its limit refuses, and never holds more.
fn bound() {
    let executor = Arc::new(
        builder(1, 1)
            .queue_limit(2)
            .table_queue_limit(2)
            .build()
            .unwrap(),
    );
    let table = executor.add_closure_table("t", 1);
    let clients = [0, 1].map(|_| {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            let mut accepted = 0;
            for _ in 0..3 {
                match executor.submit_fn(table, None, |_| thread::yield_now()) {
                    Ok(ticket) => {
                        accepted += 1;
                        ticket.detach();
                    }
                    Err(refused) => assert!(matches!(
                        refused.reason,
                        SubmitError::Overloaded { .. } | SubmitError::TableOverloaded { .. }
                    )),
                }
                // Not the total's: a task that has been taken counts there until its worker has noted that.
                let waiting = executor.snapshot().domains[0].queued;
                assert!(waiting <= 2, "{waiting} tasks wait");
            }
            accepted
        })
    });
    let accepted = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .sum();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, accepted);
}

checks! {
    every_ticket_resolves: answers without PushWakes AnswerWakes;
    a_task_is_run_or_cancelled: cancellation without;
    what_is_cancelled_in_the_queue_never_starts: dropped_in_the_queue without BeginAsks;
    split_answers_are_whole: splitting without LastHandAnswers;
    what_spills_is_whole_and_leaves_nothing: spilling without LastHandAnswers;
    nothing_is_lost_while_homes_change: staffing without TasksMove RecallWakes HomeSoughtAgain;
    nothing_is_lost_while_one_stands_by: one_stands_by without;
    a_removed_table_is_accounted_for: removal without RetireWaits;
    a_drain_ends_what_was_accepted: drain without CloseRefuses CloseCallsAll;
    an_abandon_ends_what_was_accepted: abandon without CloseRefuses;
    a_full_queue_refuses: bound without BoundRefuses;
    what_was_told_is_counted: counting without FullNotesAdded NoteBeforeAnswer;
}
