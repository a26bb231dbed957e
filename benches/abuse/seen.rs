//! What became of the tasks of one kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chiplet::{Context, Executor, TableId};
use parking_lot::Mutex;

use crate::poisson;

/// When each task that ran was submitted, how long it waited then, and who was not served.
#[derive(Clone, Default)]
pub struct Seen(Arc<Inner>);

#[derive(Default)]
struct Inner {
    ran: Mutex<Vec<(Instant, Duration)>>,
    refused: AtomicU64,
}

impl Seen {
    /// Submits a task that sleeps for `task`, and notes how it goes.
    pub fn submit(
        &self,
        executor: &Executor,
        table: TableId,
        task: Duration,
        within: Option<Duration>,
    ) {
        let (seen, submitted) = (self.clone(), Instant::now());
        let code = move |_: &mut Context| {
            seen.ran(submitted);
            thread::sleep(task);
        };
        match executor.submit_fn(table, within.map(|time| submitted + time), code) {
            Ok(ticket) => ticket.detach(),
            Err(_) => _ = self.0.refused.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A task begins that was submitted then.
    pub fn ran(&self, submitted: Instant) {
        let wait = submitted.elapsed();
        self.0.ran.lock().push((submitted, wait));
    }

    /// Tasks submitted at `rate` a second, Poisson, from now on for `time`.
    pub fn ask(
        &self,
        executor: &Executor,
        table: TableId,
        (task, rate, within): (Duration, f64, Option<Duration>),
        time: Duration,
    ) {
        let began = Instant::now();
        let seed = table.slot.into();
        for at in poisson::arrivals(seed, rate).take_while(|&at| at < time) {
            thread::sleep(at.saturating_sub(began.elapsed()));
            self.submit(executor, table, task, within);
        }
    }

    /// Waits of the tasks that were submitted after `since`, sorted.
    pub fn waits(&self, since: Instant) -> Vec<Duration> {
        let ran = self.0.ran.lock();
        let mut waits: Vec<Duration> = ran
            .iter()
            .filter(|(at, _)| *at >= since)
            .map(|(_, wait)| *wait)
            .collect();
        waits.sort_unstable();
        waits
    }

    /// As `wait p50 / p99 / max ms`, and how many were refused.
    pub fn tell(&self, since: Instant) -> String {
        let waits = self.waits(since);
        let at = |share: f64| {
            let rank = (share * waits.len() as f64).ceil() as usize;
            waits
                .get(rank.max(1) - 1)
                .copied()
                .unwrap_or_default()
                .as_secs_f64()
                * 1e3
        };
        format!(
            "{:7.2} / {:7.2} / {:7.2} ms of {:6}, {:5} refused",
            at(0.5),
            at(0.99),
            at(1.0),
            waits.len(),
            self.0.refused.load(Ordering::Relaxed)
        )
    }
}

/// Keeps `outstanding` tasks of `table` accepted and not done until `stop`: each task that ends submits the next one.
pub fn flood(
    executor: &Arc<Executor>,
    table: TableId,
    task: Duration,
    outstanding: usize,
    stop: &Arc<AtomicBool>,
    ran: &Arc<AtomicU64>,
) {
    for _ in 0..outstanding {
        again(executor, table, task, stop, ran);
    }
}

fn again(
    executor: &Arc<Executor>,
    table: TableId,
    task: Duration,
    stop: &Arc<AtomicBool>,
    ran: &Arc<AtomicU64>,
) {
    let (weak, stop, ran) = (Arc::downgrade(executor), Arc::clone(stop), Arc::clone(ran));
    let code = move |_: &mut Context| {
        thread::sleep(task);
        ran.fetch_add(1, Ordering::Relaxed);
        if !stop.load(Ordering::Relaxed)
            && let Some(executor) = weak.upgrade()
        {
            again(&executor, table, task, &stop, &ran);
        }
    };
    if let Ok(ticket) = executor.submit_fn(table, None, code) {
        ticket.detach();
    }
}
