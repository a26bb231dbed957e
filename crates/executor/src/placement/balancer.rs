//! The thread that moves tables: feeds measured load to the pure planner and applies what it decides.
//!
//! At each tick it looks at which cpus may be used, too, and orders the workers anew when that has changed.
//!
//! Once a tick it collects what each table used and asked for in vain (`demand.rs`), asks `chiplet_policy::Planner`,
//! and on a remap stores each moved table's new homes. Submitters read homes without a lock; tasks queued or running
//! under the old placement finish where they are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::{MemoryStep, Placement, Planner, Rates, Remap, TableId, Time};
use chiplet_table::host::contain;

use super::demand::{self, Missed};
use super::event::{RemapEvent, TableMove};
use super::workers::Workers;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::engine::registry::{Listing, Placed};
use crate::error::TableError;
use crate::sync::{Condvar, Mutex, MutexGuard, Step, left_out, now};

pub(crate) type OnRemap = Box<dyn Fn(&RemapEvent) + Send + Sync>;

pub(crate) struct Balancer {
    control: Mutex<Control>,
    /// Held while counters are read, and while a removed table's are put away. Before the other, and never while that
    /// is held: so no table waits to be added until all counters have been read.
    counters: Mutex<()>,
    wake: Condvar,
    clock: Clock,
    tick: Duration,
}

struct Control {
    planner: Planner,
    workers: Workers,
    /// Since when the planner's clock stands, on the executor's clock.
    held: Option<Time>,
    /// How much the planner's clock is behind.
    lost: Duration,
    /// Changes that have been made and not been reported yet.
    events: Vec<RemapEvent>,
    stop: bool,
    done: Done,
    /// Removed tables whose counters are still kept apart.
    removed: Vec<Arc<Listing>>,
    /// Indexes that were replaced and may still be searched.
    replaced: Vec<Arc<Listing>>,
    missed: Missed,
}

/// What has been done since the start, as a snapshot shows it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Done {
    pub(crate) remaps: u64,
    /// Tables that were copied from package to package, and their bytes.
    pub(crate) copied_tables: u64,
    pub(crate) copied_bytes: u64,
}

/// What a table asks for, as a snapshot shows it.
pub(crate) struct Asked {
    pub(crate) load: Rates,
    pub(crate) traffic: Rates,
}

impl Balancer {
    pub(crate) fn new(planner: Planner, workers: Workers, tick: Duration, clock: Clock) -> Self {
        Self {
            control: Mutex::new(Control {
                planner,
                workers,
                held: None,
                lost: Duration::ZERO,
                events: Vec::new(),
                stop: false,
                done: Done::default(),
                removed: Vec::new(),
                replaced: Vec::new(),
                missed: Missed::default(),
            }),
            counters: Mutex::new(()),
            wake: Condvar::default(),
            clock,
            tick,
        }
    }

    /// The workers, while no order changes them.
    pub(crate) fn workers<R>(&self, code: impl FnOnce(&mut Workers) -> R) -> R {
        code(&mut self.control.lock().workers)
    }

    /// The planner, while no remap changes the placement: a table that is placed there is published before one moves
    /// it.
    pub(crate) fn planner<R>(&self, code: impl FnOnce(&mut Planner) -> R) -> R {
        code(&mut self.control.lock().planner)
    }

    /// Lets the workers use no other cpus than these. What that does to the placement is reported by the thread.
    pub(crate) fn restrict(&self, engine: &Engine, cpus: &[u32]) {
        let notes = {
            let mut control = self.control.lock();
            if control.workers.restrict(cpus) {
                control.staff(engine, self.clock.now());
                self.wake.notify_all();
            }
            control.workers.take_notes()
        };
        notes.log();
    }

    /// Stops the planner's clock, or lets it go on.
    pub(crate) fn hold(&self, engine: &Engine, hold: bool) {
        let mut control = self.control.lock();
        let at = self.clock.now();
        if hold == control.held.is_some() {
            return;
        }
        // The last tick may have been a while ago.
        control.look_at_use(engine, at);
        match control.held.take() {
            Some(since) => control.lost += at.since(since),
            None => control.held = Some(at),
        }
    }

    /// Takes note of a table's new memory and sees to it that its old index is dropped. `replace` puts the new one into
    /// place and returns the old entry; two calls take turns, so that it is the last
    /// one's.
    pub(crate) fn replace_table(
        &self,
        table: TableId,
        (size_bytes, package): (u64, Option<u32>),
        replace: impl FnOnce() -> Result<Arc<Listing>, TableError>,
    ) -> Result<(), TableError> {
        let mut control = self.control.lock();
        let before = replace()?;
        control.planner.set_memory(table, size_bytes, package);
        control.replaced.push(before);
        Ok(())
    }

    /// Takes a step for `index`, unless it was given up (`None`), with the copy that was made if it needs one. False:
    /// it was not taken, or that is the table's index no more.
    pub(crate) fn take(
        &self,
        engine: &Engine,
        step: MemoryStep,
        index: &Placed,
        made: Option<Option<&Placed>>,
    ) -> bool {
        let mut control = self.control.lock();
        let mut is_current = false;
        let before = engine.registry.replace(step.table, |now| {
            is_current = now.is_of(index) || left_out(Step::CopyIsOfIndex);
            // No destructor runs under the locks: the caller keeps the copy.
            let next = made.filter(|_| is_current);
            let next = next.and_then(|copy| now.after(step, copy.cloned()));
            next.ok_or(TableError::Unknown)
        });
        let done = before.is_ok();
        if let Ok(before) = before {
            control.replaced.push(before);
            if let Some(copy) = made.flatten() {
                control.done.copied_tables += 1;
                control.done.copied_bytes += copy.bytes;
            }
        }
        // What replaced it otherwise has been placed anew.
        if is_current {
            control.planner.took(step, done);
        }
        done
    }

    /// Waits until `time`; false if the executor is shut down.
    pub(crate) fn rests(&self, time: Instant) -> bool {
        let mut control = self.control.lock();
        while !control.stop && now() < time {
            control = self.wake.wait_until(control, time);
        }
        !control.stop
    }

    pub(crate) fn remove_table(&self, listing: Arc<Listing>) {
        let mut control = self.control.lock();
        control.planner.remove_table(listing.entry.id);
        control.removed.push(listing);
    }

    /// The state now.
    pub(crate) fn view(&self) -> (Arc<Placement>, Done) {
        let control = self.control.lock();
        (control.planner.placement(), control.done)
    }

    /// What each of `tables` asks for now, in one hold of the lock: as few as should hold up others.
    pub(crate) fn asked(&self, tables: impl Iterator<Item = TableId>) -> Vec<Asked> {
        let control = self.control.lock();
        let now = control.time(self.clock.now());
        let asked = tables.map(|table| Asked {
            load: control.planner.load(table, now),
            traffic: control.planner.traffic(table, now),
        });
        asked.collect()
    }

    /// While it lives no counters of removed tables are put away.
    pub(crate) fn keep_counters(&self) -> MutexGuard<'_, ()> {
        self.counters.lock()
    }

    pub(crate) fn stop(&self) {
        self.control.lock().stop = true;
        self.wake.notify_all();
    }

    /// The balancer thread.
    pub(crate) fn run(&self, engine: &Engine, on_remap: Option<OnRemap>) {
        self.balance(engine, on_remap.as_ref());
        // Its captures are the caller's; one may be the last reference to the executor.
        contain(|| drop(on_remap));
    }

    fn balance(&self, engine: &Engine, on_remap: Option<&OnRemap>) {
        let mut next = now() + self.tick;
        loop {
            let (events, goes, notes) = {
                let mut control = self.control.lock();
                while !control.stop && control.events.is_empty() && now() < next {
                    control = self.wake.wait_until(control, next);
                }
                if control.stop {
                    return;
                }
                if now() >= next {
                    // A tick that was missed is not made up for.
                    next = (next + self.tick).max(now());
                    control.tick(engine, self.clock.now());
                }
                let goes = !control.removed.is_empty() || !control.replaced.is_empty();
                let events = std::mem::take(&mut control.events);
                (events, goes, control.workers.take_notes())
            };
            notes.log();
            let gone = match goes {
                true => {
                    let _counters = self.counters.lock();
                    self.control.lock().retire(engine)
                }
                false => Vec::new(),
            };
            // The tables' destructors are the caller's code: outside the lock, and contained.
            for listing in gone {
                contain(|| drop(listing));
            }
            for event in events {
                tracing::info!(version = event.version, "{event}");
                if let Some(on_remap) = on_remap {
                    contain(|| on_remap(&event));
                }
            }
        }
    }
}

impl Control {
    /// What the planner's clock shows at `at`.
    fn time(&self, at: Time) -> Time {
        self.held.unwrap_or(at).before(self.lost)
    }

    fn tick(&mut self, engine: &Engine, at: Time) {
        if self.workers.look() {
            self.staff(engine, at);
        }
        self.look_at_use(engine, at);
        if self.held.is_none()
            && let Some(remap) = self.planner.tick(self.time(at))
        {
            self.carry_out(remap, engine);
        }
    }

    /// Orders the workers to where they may run. First those come back that are wanted, then tables move to them, then
    /// those stand by that are not: at no moment has a table a home where nobody works and nobody will.
    fn staff(&mut self, engine: &Engine, now: Time) {
        let orders = self.workers.orders();
        let both = self.workers.at_work().zip(&orders.at_work);
        let with_the_old: Vec<bool> = both.map(|(at_work, &wanted)| at_work || wanted).collect();
        if !engine.scheduler.staff(&with_the_old, |_| 0) {
            return;
        }
        if let Some(remap) = self.planner.resize(self.time(now), &orders.strength) {
            self.carry_out(remap, engine);
        }
        engine.scheduler.staff(&orders.at_work, |task| {
            let header = task.header();
            engine.route(&header.entry, header.accepted, header.class)
        });
        self.workers.carry_out(orders, &engine.substitutes);
        let workers = engine.scheduler.groups.at_work();
        self.workers
            .note(move || tracing::info!(workers, "workers have been ordered anew"));
    }

    /// Records what tables used and asked for since this was last called. While the planner's clock stands nothing is
    /// recorded: all of it would count as used at one instant.
    fn look_at_use(&mut self, engine: &Engine, at: Time) {
        let now = self.time(at);
        let mut used = demand::drain(engine);
        self.missed.add_to(&mut used, engine);
        for (table, used) in used {
            engine.registry.use_more_shares(table);
            if self.held.is_none() {
                self.planner.record(table, now, used);
            }
        }
    }

    /// Publishes new homes.
    fn carry_out(&mut self, remap: Remap, engine: &Engine) {
        self.done.remaps += 1;
        let mut moves = Vec::with_capacity(remap.moves.len());
        for moved in remap.moves {
            // A table being added or removed just now is no move.
            let Some(entry) = engine.registry.find(moved.table) else {
                continue;
            };
            let (Some(from), Some(to)) = (moved.from, moved.to) else {
                continue;
            };
            entry.state.homes.store(to.clone());
            moves.push(TableMove {
                table: moved.table,
                name: Arc::clone(&entry.name),
                from,
                to,
            });
        }
        self.events.push(RemapEvent {
            version: remap.placement.version(),
            reason: remap.reason,
            moves,
            cold_bytes: remap.cold_bytes,
        });
    }

    /// Folds the counters of removed tables into the retired ones. Every task of a table, and every submit
    /// that has found it, holds its entry; when this is the last reference, nothing can be counted any more.
    /// Indexes that were replaced go as soon as nobody searches them; until then their tables are counted.
    /// Returns the tables and indexes for the caller to drop without the lock.
    fn retire(&mut self, engine: &Engine) -> Vec<Arc<Listing>> {
        let is_gone = |listing: &mut Arc<Listing>| {
            listing.has_no_users_and_is_the_last() || left_out(Step::RetireWaits)
        };
        let mut gone: Vec<_> = self.removed.extract_if(.., is_gone).collect();
        for listing in &gone {
            let entry = &listing.entry;
            for group in 0..engine.scheduler.groups.count() {
                engine.scheduler.groups.lock(group).queue.retire(entry.id);
            }
            engine.stats.retire(entry.id);
            self.missed.forget(entry.id);
            engine.registry.release(entry.id);
        }
        let is_unused = |listing: &mut Arc<Listing>| listing.has_no_users();
        gone.extend(self.replaced.extract_if(.., is_unused));
        gone
    }
}
