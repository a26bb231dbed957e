//! What the simulator decides of a log, beside the executor's own scheduler.

use chiplet_baselines::Strategy;
use chiplet_policy::replay::{Decision, Log, wake_time};
use chiplet_policy::{Homes, StealLevel};

use super::Engine;
use super::scenario::{Load, Scenario};
use super::timeline::{Event, Timeline};
use crate::machine::Machine;
use crate::workload::Prepared;

/// What the simulator decides of the tasks of `log` on `machine`, with the settings that an executor has by default and
/// where nothing takes time but the tasks and waking up.
pub fn replay(log: &Log, machine: &Machine) -> Vec<Decision> {
    let mut machine = machine.clone();
    let costs = &mut machine.costs;
    (costs.task_ns, costs.task_lines) = (0.0, 0.0);
    // A task of one nanosecond, as many times as its own takes.
    let prepared = Prepared::tasks(log.homes.len(), 1.0, false);
    let scenario = Scenario {
        load: Load::Open { rate: 1.0 },
        settled: false,
        ..Scenario::new(&machine, &prepared, Strategy::CCD_AWARE)
    };
    let mut engine = Engine::new(&scenario, None, false);
    engine.stream = None;
    engine.decisions = Some(Vec::new());
    engine.timeline = Timeline::new(Some(order));
    let homes = log.homes.iter();
    engine.balancer.homes = homes
        .map(|&home| Homes::single(engine.domains[home]))
        .collect();
    let mut tasks = log.arrivals.iter().enumerate().peekable();
    loop {
        let next = engine.timeline.next_at();
        let task = tasks.peek().map(|(_, arrival)| arrival.at.as_nanos());
        match (task, next) {
            (None, None) => break,
            (Some(at), next) if next.is_none_or(|then| at <= then) => {
                let (task, arrival) = tasks.next().expect("it has been looked at");
                engine.timeline.pass(at);
                let mut query = engine.query(arrival.table as u32, task as u32);
                query.work = arrival.took.as_nanos() as f64;
                engine.enter(query, None);
            }
            (_, None) => unreachable!("a task that has not come yet comes"),
            (_, Some(_)) => {
                let event = engine.timeline.next(u64::MAX);
                engine.happen(event.expect("it has been looked at"));
            }
        }
    }
    engine.decisions.unwrap_or_default()
}

/// The order of things that happen at the same time: as `chiplet_policy::replay::Event`s have it.
fn order(event: Event) -> u64 {
    match event {
        Event::Work(worker) => worker as u64,
        _ => u64::MAX,
    }
}

impl Engine<'_> {
    /// Nanoseconds until a worker that was woken comes, in a replay.
    pub(super) fn replayed_wake(&self, worker: usize) -> Option<u64> {
        self.decisions.as_ref()?;
        Some(wake_time(worker).as_nanos() as u64)
    }

    /// Takes note that a worker begins a query.
    pub(super) fn note_decided(&mut self, worker: usize, query: usize, level: StealLevel) {
        let (task, at) = (self.queries[query].number as usize, self.timeline.time());
        if let Some(decisions) = &mut self.decisions {
            decisions.push(Decision::Begun {
                task,
                at,
                worker,
                level,
            });
        }
    }

    /// Takes note that a query was refused.
    pub(super) fn note_refused(&mut self, query: usize) {
        let task = self.queries[query].number as usize;
        if let Some(decisions) = &mut self.decisions {
            decisions.push(Decision::Refused { task });
        }
    }
}
