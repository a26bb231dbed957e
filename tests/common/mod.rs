//! What the black-box tests share: a gate that holds tasks, and small executors on made-up machines.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use chiplet::{Executor, PlannerConfig, TableId, Ticket, Topology};

/// Long enough for any machine; a test that waits this long has hung.
pub const HANG: Duration = Duration::from_secs(60);

/// Tasks that wait at a gate keep their workers busy until the test opens it.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// Opens a gate even if the test fails, so that dropping the executor does not wait for held workers.
pub struct OpenOnDrop(pub Gate);

impl Drop for OpenOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// An executor on `domains` x `cores` made-up cores that never remaps.
pub fn executor(domains: u32, cores: u32) -> Executor {
    Executor::builder()
        .topology(Topology::uniform(domains, cores, 32 << 20))
        .planner(still())
        .build()
        .unwrap()
}

/// No traffic is worth a remap.
pub fn still() -> PlannerConfig {
    let mut planner = PlannerConfig::default();
    planner.trigger.min_traffic = f64::INFINITY;
    planner
}

/// Holds `count` workers at `gate`; returns when all of them are there.
pub fn hold(executor: &Executor, table: TableId, count: usize, gate: &Gate) -> Vec<Ticket<()>> {
    let (arrived, arrivals): (Sender<()>, Receiver<()>) = channel();
    let tickets = (0..count)
        .map(|_| {
            let gate = gate.clone();
            let arrived = arrived.clone();
            executor.spawn(table, move || {
                arrived.send(()).unwrap();
                gate.wait();
            })
        })
        .collect();
    for _ in 0..count {
        arrivals
            .recv_timeout(HANG)
            .expect("a worker takes each held task");
    }
    tickets
}
