//! What submitting costs the allocator: one allocation a task, its shared state, and no queue that grows anew.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::common::executor;
use crate::{ALLOCATIONS, ALONE};
use chiplet::{Executor, TableId, Ticket};

/// Whether `rounds` of `round`, after as many to get going, make at most 1.01 allocations for each of the
/// `submits` of a round. The rest is for the balancer's ticks.
fn check(rounds: u64, submits: u64, mut round: impl FnMut()) {
    (0..rounds).for_each(|_| round());
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..rounds).for_each(|_| round());
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let submits = rounds * submits;
    assert!(made >= submits, "{made} allocations: nothing was counted");
    assert!(
        100 * made <= 101 * submits,
        "{made} allocations for {submits} tasks"
    );
}

/// Wakes a thread; made once, while [`Ticket::wait`] allocates one such for each call.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn this_thread() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current())))
}

fn answer<T>(ticket: Ticket<T>, waker: &Waker) -> T {
    let mut ticket = pin!(ticket);
    loop {
        match ticket.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(answer) => return answer.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    }
}

fn one_worker() -> (Executor, TableId) {
    let executor = executor(1, 1);
    let table = executor.add_closure_table("t", 1);
    (executor, table)
}

#[test]
fn a_closed_loop_makes_one_allocation_a_task() {
    let _alone = ALONE.lock();
    let (executor, table) = one_worker();
    let waker = this_thread();
    check(10_000, 1, || {
        assert_eq!(answer(executor.spawn(table, || 7), &waker), 7);
    });
}

#[test]
fn bursts_make_one_allocation_a_task() {
    const BURST: usize = 17;
    let _alone = ALONE.lock();
    let (executor, table) = one_worker();
    let waker = this_thread();
    let mut tickets: Vec<Ticket<usize>> = Vec::with_capacity(BURST);
    let barrier = Arc::new(Barrier::new(2));
    check(1_000, BURST as u64 + 1, || {
        // The worker is held until the whole burst is in the queue.
        let held = Arc::clone(&barrier);
        let holds = executor.spawn(table, move || {
            held.wait();
            held.wait();
        });
        barrier.wait();
        tickets.extend((0..BURST).map(|n| executor.spawn(table, move || n)));
        barrier.wait();
        answer(holds, &waker);
        for (n, ticket) in tickets.drain(..).enumerate() {
            assert_eq!(answer(ticket, &waker), n);
        }
    });
}

#[test]
fn a_snapshot_costs_the_allocator_as_much_as_the_tables_in_use() {
    let _alone = ALONE.lock();
    let (executor, table) = one_worker();
    executor.spawn(table, || ()).wait().unwrap();
    let made = || {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let snapshot = executor.snapshot();
        let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
        (snapshot.tables.len(), made)
    };
    let few = made();
    for n in 0..1_000 {
        executor.add_closure_table(format!("idle {n}"), 1);
    }
    let many = made();
    assert_eq!((few.0, many.0), (1, 1_001));
    // Lists that grow, and a tick that may come.
    assert!(many.1 < few.1 + 200, "{many:?} after {few:?}");
}
