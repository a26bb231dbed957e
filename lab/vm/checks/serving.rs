//! A service inside the machine: tables, a client that never pauses, and where each query really ran.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chiplet::{Executor, TableId};
use parking_lot::Mutex;

/// Emulation is slow; who waits this long has hung.
pub const HANG: Duration = Duration::from_secs(120);

/// Cpus that queries of one table have run on, by `getcpu(2)` from inside the query.
type Seen = Arc<Mutex<BTreeSet<u32>>>;

pub struct Service {
    pub executor: Arc<Executor>,
    tables: Vec<(TableId, Seen)>,
}

impl Service {
    /// Two tables for each domain of the machine.
    pub fn new(executor: Executor) -> Arc<Self> {
        let domains = executor.topology().domains().len();
        let tables = (0..2 * domains)
            .map(|n| {
                (
                    executor.add_closure_table(format!("t{n}"), 1 << 20),
                    Seen::default(),
                )
            })
            .collect();
        Arc::new(Self {
            executor: Arc::new(executor),
            tables,
        })
    }

    /// One query for each table, all at once: two for each domain, far less than would be worth crossing for. Waits for
    /// all answers.
    pub fn round(&self) {
        let tickets: Vec<_> = self
            .tables
            .iter()
            .map(|(table, seen)| {
                let seen = Arc::clone(seen);
                self.executor.spawn(*table, move || {
                    let cpu = rustix::thread::sched_getcpu() as u32;
                    seen.lock().insert(cpu);
                })
            })
            .collect();
        for mut ticket in tickets {
            ticket
                .wait_for(HANG)
                .unwrap_or_else(|| panic!("a query does not end: {:?}", self.executor.snapshot()))
                .expect("no query fails");
        }
    }

    /// Forgets where queries ran.
    pub fn forget(&self) {
        for (_, seen) in &self.tables {
            seen.lock().clear();
        }
    }

    /// Every query since [`Service::forget`] ran on a cpu of its table's home that is among `allowed`; returns on how
    /// many cpus that was.
    pub fn assert_at_home(&self, allowed: &BTreeSet<u32>) -> usize {
        let placement = self.executor.placement();
        let mut cpus_used = 0;
        self.assert_within(allowed);
        for (table, seen) in &self.tables {
            let home = placement.homes(*table).unwrap().main().domain;
            let domain = &self.executor.topology().domains()[home.0 as usize];
            let seen = seen.lock();
            cpus_used += seen.len();
            for cpu in seen.iter() {
                assert!(
                    domain.cpus().contains(cpu),
                    "{table} of domain {home} ran on cpu {cpu}"
                );
            }
        }
        cpus_used
    }

    /// Every query since [`Service::forget`] ran on a cpu among `allowed`, and every table was served.
    pub fn assert_within(&self, allowed: &BTreeSet<u32>) {
        for (table, seen) in &self.tables {
            let seen = seen.lock();
            assert!(!seen.is_empty(), "{table} was not served");
            assert!(seen.is_subset(allowed), "{table} ran on {seen:?}");
        }
    }

    /// Nothing was lost: every query that was accepted has been answered.
    pub fn assert_complete(&self) -> u64 {
        let total = self.executor.snapshot().total;
        assert_eq!(
            (total.done, total.queued, total.running),
            (total.accepted, 0, 0),
            "{total:?}"
        );
        total.done
    }

    /// Serves rounds on a thread of its own until it is stopped.
    pub fn start(self: &Arc<Self>) -> Client {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let thread = {
            let (service, stop, rounds) =
                (Arc::clone(self), Arc::clone(&stop), Arc::clone(&rounds));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    service.round();
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        Client {
            stop,
            rounds,
            thread: Some(thread),
        }
    }

    pub fn workers_at_work(&self) -> usize {
        let workers = self.executor.workers();
        workers.iter().filter(|worker| worker.at_work).count()
    }

    /// Waits until so many workers are at work.
    pub fn wait_for_workers(&self, count: usize) {
        wait_until(&format!("{count} workers are at work"), || {
            self.workers_at_work() == count
        });
    }
}

pub struct Client {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Waits until it has served some rounds more.
    pub fn serve(&self, rounds: u64) {
        let until = self.rounds.load(Ordering::Relaxed) + rounds;
        wait_until("queries go on being answered", || {
            let gone = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
            assert!(!gone, "the client has failed");
            self.rounds.load(Ordering::Relaxed) >= until
        });
    }

    pub fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the client saw every answer");
        }
    }
}

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < HANG, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
