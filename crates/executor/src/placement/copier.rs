//! The thread that copies a table's memory to the socket where it is searched.
//!
//! What is to be copied is `chiplet_policy`'s to say (`planner/memory.rs`). Here room is looked for, the table is asked
//! for a copy of itself, at a bounded rate, and the copy is put beside the table's index or in its place: for whoever
//! submits and searches that is as [`Executor::replace_table`](crate::Executor::replace_table). If anything fails the
//! table stays as it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::{MemoryChange, MemoryStep, Planner, TableId};
use chiplet_table::host::contain;
use chiplet_topology::room_on;

use super::balancer::Balancer;
use crate::engine::Engine;
use crate::engine::registry::Placed;
use crate::jobs::guarded;
use crate::sync::now;

/// Between two looks at what is to be copied.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Copier {
    pub(crate) engine: Arc<Engine>,
    pub(crate) balancer: Arc<Balancer>,
    /// Bytes a second that may be copied.
    pub(crate) rate: u64,
}

impl Copier {
    /// Some hundredths of the bandwidth of a socket, both ways, and less than a core can do.
    pub(crate) const USUAL_RATE: u64 = 1_000_000_000;

    /// The thread.
    pub(crate) fn run(&self) {
        while self.balancer.rests(now() + LOOK) {
            if let Some(step) = self.balancer.planner(Planner::next_memory_step) {
                self.take(step);
            }
        }
    }

    /// Takes a step, if it is for the index that the table has now, and says how it went.
    fn take(&self, step: MemoryStep) {
        let Some(entry) = self.engine.registry.find(step.table) else {
            return;
        };
        if let Some(index) = entry.index.main() {
            self.take_with(step, &entry.name, index);
        }
        // Whatever this was the last reference to is the caller's code.
        contain(|| drop(entry));
    }

    fn take_with(&self, step: MemoryStep, table: &str, index: &Placed) {
        let (package, bytes) = (step.package, index.bytes);
        let begun = now();
        let copied = match step.change {
            MemoryChange::Drop => Ok(None),
            // It was replaced between the decision and this by one that is there.
            _ if index.package == Some(package) => return,
            MemoryChange::Move | MemoryChange::Copy => self.copy(step, index).map(Some),
        };
        let made = copied.as_ref().ok().map(Option::as_ref);
        let done = self.balancer.take(&self.engine, step, index, made);
        match &copied {
            Ok(Some(_)) if done => {
                let seconds = now().saturating_duration_since(begun).as_secs_f64();
                tracing::info!(table, bytes, package, seconds, "copied a table's memory");
            }
            Ok(None) if done => tracing::info!(table, bytes, package, "gave up a copy of a table"),
            Err(Some(reason)) => {
                tracing::warn!(
                    table,
                    bytes,
                    package,
                    reason,
                    "did not copy a table's memory"
                );
            }
            _ => {}
        }
        contain(|| drop(copied));
    }

    /// Whether `index` is the table's, still.
    fn is_index(&self, table: TableId, index: &Placed) -> bool {
        let entry = self.engine.registry.find(table);
        entry.is_some_and(|entry| entry.index.is_of(index))
    }

    /// A copy of `index` where the step wants it, or why there is none; without a reason if the table makes none.
    fn copy(&self, step: MemoryStep, index: &Placed) -> Result<Placed, Option<String>> {
        let nodes = self.engine.nodes.of_package(step.package);
        let (mut next, mut asked, mut full) = (now(), false, None);
        let mut pace = |bytes: u64| {
            // Only now, because not every table makes copies.
            if !std::mem::replace(&mut asked, true) {
                full = want_of_room(&nodes, index.bytes);
            }
            full.is_none() && self.wait_for(&mut next, bytes) && self.is_index(step.table, index)
        };
        // All of it is the caller's code, the destructor of a copy that went astray too.
        let mut make = || {
            let copy = index.table.copy_to(&nodes, &mut pace);
            let copy = copy.map_err(|error| Some(error.to_string()))?.ok_or(None)?;
            let placed = self.engine.placed(Arc::from(copy));
            match placed.package == Some(step.package) {
                true => Ok(placed),
                // The node was full, and the kernel took others.
                false => Err(Some(format!("it came to lie on {:?}", placed.residence))),
            }
        };
        let copied = guarded(|| Ok(make()));
        let copied = copied.unwrap_or_else(|error| Err(Some(error.to_string())));
        copied.map_err(|reason| full.or(reason))
    }

    /// Waits until so many bytes may be copied; false if the executor is shut down. `next` is when the rate allows
    /// more.
    fn wait_for(&self, next: &mut Instant, bytes: u64) -> bool {
        let goes_on = self.balancer.rests(*next);
        let takes = Duration::from_secs_f64(bytes as f64 / self.rate.max(1) as f64);
        *next = (*next).max(now()) + takes;
        goes_on
    }
}

/// That these nodes, or the control group, have no room for so many bytes, if so.
fn want_of_room(nodes: &[u32], bytes: u64) -> Option<String> {
    let room = room_on(nodes).filter(|&room| room < bytes)?;
    Some(format!(
        "nodes {nodes:?} have room for {room} bytes and {bytes} are needed: free memory there, or raise the control \
         group's limit"
    ))
}
