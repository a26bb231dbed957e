//! Who runs what next: groups of workers, their queues, the steal ladder, and the wake-up handshake.
//!
//! A *group* is the set of workers that share one queue: all workers of a domain under `ccd-aware`, a single
//! worker under the strategies that know no domains. [`Hub::push`] accepts a task for a group and wakes
//! whoever may run it; [`Hub::next`] hands a worker its next task, or parks it. The order in which a worker
//! looks is the ladder of `chiplet_policy`: its own work, its siblings', another group's. `README.md` in this
//! folder states the handshake as numbered steps; the loom tests in `tests.rs` explore this very code.

mod inbox;
#[cfg(all(test, chiplet_loom))]
mod loom_tests;
mod sleep;
#[cfg(all(test, not(chiplet_loom)))]
mod tests;

use std::ops::Range;
use std::time::Instant;

use chiplet_policy::{DomainLoad, Rung, StealConfig, StealRule, TableId};
use chiplet_topology::DomainId;
use crossbeam_utils::CachePadded;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::sync::deque;
pub(crate) use inbox::{Discipline, Inbox, Refusal, Run};
use sleep::{Parker, SpareGroups};

/// A group as it is asked for.
pub(crate) struct GroupSpec {
    pub(crate) domain: DomainId,
    pub(crate) workers: Range<usize>,
    /// Every other group, nearest first.
    pub(crate) nearest: Vec<usize>,
}

/// What the hub decides by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) stealing: StealRule,
    /// Whether scan units may leave their domain: so in the strategies that know no domains.
    pub(crate) units_anywhere: bool,
    pub(crate) steal: StealConfig,
    pub(crate) discipline: Discipline,
}

struct Group<T> {
    domain: DomainId,
    workers: Range<usize>,
    nearest: Vec<usize>,
    /// Queue length from which an idle group may help this one.
    worth_crossing: u32,
    inbox: CachePadded<Mutex<Inbox<T>>>,
    /// The inbox's length, for looks without the lock. Written under it.
    queued: CachePadded<AtomicU32>,
}

struct Seat<U> {
    group: usize,
    parker: CachePadded<Parker>,
    /// It was woken to help another group and has not looked there yet. Whoever is diverted passes the call on.
    asked: AtomicBool,
    units: deque::Stealer<U>,
}

/// The part of a worker that only its own thread touches.
pub(crate) struct Local<U> {
    pub(crate) worker: usize,
    pub(crate) group: usize,
    units: deque::Worker<U>,
    run: Run,
    abroad: bool,
    /// Where the last look for a sibling's units began; rotates so that thieves spread.
    turn: usize,
    loads: Vec<DomainLoad>,
}

/// Something to run, and the rung of the ladder it came from.
pub(crate) enum Found<T, U> {
    Task(T, Rung),
    Unit(U, Rung),
}

/// The scheduler's shared state. `T` is a task, `U` a scan unit.
pub(crate) struct Hub<T, U> {
    rules: Rules,
    groups: Box<[Group<T>]>,
    seats: Box<[Seat<U>]>,
    spare: SpareGroups,
}

enum Rest<T, U> {
    Found(Found<T, U>),
    LookAgain,
    Stop,
}

impl<T, U> Hub<T, U> {
    /// A hub and one [`Local`] for each worker, in worker order. Groups cover the workers `0..n` in order.
    pub(crate) fn new(rules: Rules, specs: Vec<GroupSpec>) -> (Self, Vec<Local<U>>) {
        let mut seats = Vec::new();
        let mut locals = Vec::new();
        for (group, spec) in specs.iter().enumerate() {
            for worker in spec.workers.clone() {
                let units = deque::Worker::new_fifo();
                seats.push(Seat {
                    group,
                    parker: CachePadded::new(Parker::new()),
                    asked: AtomicBool::new(false),
                    units: units.stealer(),
                });
                locals.push(Local {
                    worker,
                    group,
                    units,
                    run: Run::default(),
                    abroad: false,
                    turn: worker,
                    loads: Vec::with_capacity(specs.len()),
                });
            }
        }
        let spare = SpareGroups::new(specs.len());
        let groups = specs
            .into_iter()
            .map(|spec| Group {
                worth_crossing: match rules.stealing {
                    StealRule::Never => u32::MAX,
                    StealRule::Anywhere => 1,
                    StealRule::Ladder => {
                        chiplet_policy::crossing_backlog(spec.workers.len() as u32, &rules.steal)
                    }
                },
                domain: spec.domain,
                workers: spec.workers,
                nearest: spec.nearest,
                inbox: CachePadded::new(Mutex::new(Inbox::new(rules.discipline))),
                queued: CachePadded::new(AtomicU32::new(0)),
            })
            .collect();
        (
            Self {
                rules,
                groups,
                seats: seats.into_boxed_slice(),
                spare,
            },
            locals,
        )
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn workers(&self) -> usize {
        self.seats.len()
    }

    pub(crate) fn domain_of(&self, group: usize) -> DomainId {
        self.groups[group].domain
    }

    pub(crate) fn group_of(&self, worker: usize) -> usize {
        self.seats[worker].group
    }

    /// Workers of `group` that are asleep now.
    pub(crate) fn sleeping(&self, group: usize) -> usize {
        self.groups[group].inbox.lock().sleepers.len()
    }

    /// The queue of `group`, for counters and for taking dead tasks out.
    pub(crate) fn inbox(&self, group: usize) -> &Mutex<Inbox<T>> {
        &self.groups[group].inbox
    }

    /// Accepts `task` for `group` and wakes a worker that may run it, or hands it back.
    pub(crate) fn push(
        &self,
        group: usize,
        table: TableId,
        at: Instant,
        task: T,
    ) -> Result<(), (Refusal, T)> {
        let home = &self.groups[group];
        let (sleeper, queued) = {
            let mut inbox = home.inbox.lock();
            inbox.push(table, at, task)?;
            self.publish_length(group, &inbox);
            let sleeper = inbox.sleepers.pop();
            self.refresh_spare(group, &mut inbox);
            (sleeper, inbox.queued() as u32)
        };
        match sleeper {
            Some(worker) => self.seats[worker].parker.unpark(),
            None if queued >= home.worth_crossing => self.call_help(group, 1),
            None => {}
        }
        Ok(())
    }

    /// Makes `units` stealable and wakes as many workers as could take one, all at once: a cascade of single
    /// wake-ups would start the last of them late.
    pub(crate) fn push_units(&self, local: &Local<U>, units: impl ExactSizeIterator<Item = U>) {
        let others = units.len().saturating_sub(1);
        for unit in units {
            local.units.push(unit);
        }
        let mut woken = Vec::new();
        {
            let mut inbox = self.groups[local.group].inbox.lock();
            let keep = inbox.sleepers.len().saturating_sub(others);
            woken.extend(inbox.sleepers.drain(keep..));
            self.refresh_spare(local.group, &mut inbox);
        }
        for &worker in &woken {
            self.seats[worker].parker.unpark();
        }
        if self.rules.units_anywhere && woken.len() < others {
            self.call_help(local.group, others - woken.len());
        }
    }

    /// Wakes up to `wanted` sleeping workers of other groups that have nothing of their own to do.
    fn call_help(&self, group: usize, wanted: usize) {
        // Pairs with the fence in `SpareGroups::insert`: either this load sees the group that has just become
        // spare, or that group's look at the queues sees what was pushed before this call.
        fence(Ordering::SeqCst);
        if self.spare.is_empty() {
            return;
        }
        let mut wanted = wanted;
        for &other in &self.groups[group].nearest {
            if wanted == 0 {
                return;
            }
            if !self.spare.contains(other) {
                continue;
            }
            wanted -= usize::from(self.call_helper(other));
        }
    }

    /// Wakes a sleeper of `group` to help elsewhere, if the group has workers to spare.
    fn call_helper(&self, group: usize) -> bool {
        let sleeper = {
            let mut inbox = self.groups[group].inbox.lock();
            let sleeper = if inbox.offered {
                inbox.sleepers.pop()
            } else {
                None
            };
            self.refresh_spare(group, &mut inbox);
            sleeper
        };
        let Some(worker) = sleeper else { return false };
        self.seats[worker].asked.store(true, Ordering::Release);
        self.seats[worker].parker.unpark();
        true
    }

    /// This worker was called to help another group and found work at home: calls somebody else in its place.
    fn pass_on(&self, local: &Local<U>) {
        let asked = &self.seats[local.worker].asked;
        if !asked.load(Ordering::Acquire) || !asked.swap(false, Ordering::AcqRel) {
            return;
        }
        if self.rules.units_anywhere && self.units_within(local, 0..self.seats.len()) {
            return self.call_help(local.group, 1);
        }
        let long = |group: &Group<T>| group.queued.load(Ordering::Acquire) >= group.worth_crossing;
        let needy =
            (0..self.groups.len()).find(|&other| other != local.group && long(&self.groups[other]));
        if let Some(needy) = needy {
            self.call_help(needy, 1);
        }
    }

    /// The next thing for this worker to run; parks while there is nothing it may run. `None` when the hub is
    /// closed and nothing is left.
    pub(crate) fn next(&self, local: &mut Local<U>) -> Option<Found<T, U>> {
        loop {
            if let Some(found) = self.next_near(local) {
                self.pass_on(local);
                return Some(found);
            }
            match self.rest(local) {
                Rest::Found(found) => return Some(found),
                Rest::LookAgain => {}
                Rest::Stop => return None,
            }
        }
    }

    /// The first two rungs: this worker's own and its siblings' work.
    fn next_near(&self, local: &mut Local<U>) -> Option<Found<T, U>> {
        if let Some(unit) = local.units.pop() {
            return Some(Found::Unit(unit, Rung::Own));
        }
        if let Some(found) = self.take_own(local) {
            return Some(found);
        }
        let unit = self.steal_units(local, self.groups[local.group].workers.clone())?;
        Some(Found::Unit(unit, Rung::Domain))
    }

    /// A scan unit from this worker's own deque, its siblings', or (topology-blind) anyone's; never parks.
    pub(crate) fn next_unit(&self, local: &mut Local<U>) -> Option<(U, Rung)> {
        if let Some(unit) = local.units.pop() {
            return Some((unit, Rung::Own));
        }
        if let Some(unit) = self.steal_units(local, self.groups[local.group].workers.clone()) {
            return Some((unit, Rung::Domain));
        }
        if self.rules.units_anywhere {
            self.steal_units_anywhere(local)
        } else {
            None
        }
    }

    fn take_own(&self, local: &mut Local<U>) -> Option<Found<T, U>> {
        let mut inbox = self.groups[local.group].inbox.lock();
        if local.abroad {
            local.abroad = false;
            inbox.abroad -= 1;
        }
        let taken = inbox.take(local.worker, &mut local.run)?;
        self.publish_length(local.group, &inbox);
        self.refresh_spare(local.group, &mut inbox);
        let rung = if taken.from_sibling {
            Rung::Domain
        } else {
            Rung::Own
        };
        Some(Found::Task(taken.task, rung))
    }

    fn steal_units(&self, local: &mut Local<U>, workers: Range<usize>) -> Option<U> {
        local.turn = local.turn.wrapping_add(1);
        let count = workers.len();
        for step in 0..count {
            let victim = workers.start + (local.turn + step) % count;
            if victim == local.worker {
                continue;
            }
            if let Some(unit) = self.steal_unit(victim) {
                return Some(unit);
            }
        }
        None
    }

    fn steal_unit(&self, victim: usize) -> Option<U> {
        loop {
            match self.seats[victim].units.steal() {
                deque::Steal::Success(unit) => return Some(unit),
                deque::Steal::Empty => return None,
                deque::Steal::Retry => {}
            }
        }
    }

    fn steal_units_anywhere(&self, local: &mut Local<U>) -> Option<(U, Rung)> {
        let own = self.groups[local.group].domain;
        local.turn = local.turn.wrapping_add(1);
        let count = self.seats.len();
        for step in 0..count {
            let victim = (local.turn + step) % count;
            if victim != local.worker
                && let Some(unit) = self.steal_unit(victim)
            {
                return Some((unit, self.rung(own, self.seats[victim].group)));
            }
        }
        None
    }

    fn rung(&self, own: DomainId, victim: usize) -> Rung {
        if self.groups[victim].domain == own {
            Rung::Domain
        } else {
            Rung::Remote
        }
    }

    /// The worker found nothing near: joins the sleepers, looks once more at all that others may have made
    /// available before they could see it there, and parks.
    fn rest(&self, local: &mut Local<U>) -> Rest<T, U> {
        let group = &self.groups[local.group];
        let (spare, closed) = {
            let mut inbox = group.inbox.lock();
            if inbox.queued() > 0 {
                return Rest::LookAgain;
            }
            let closed = inbox.is_closed();
            if !closed {
                inbox.sleepers.push(local.worker);
                self.refresh_spare(local.group, &mut inbox);
            }
            (inbox.offered || closed, closed)
        };
        if self.units_within(local, group.workers.clone()) {
            self.leave(local);
            return Rest::LookAgain;
        }
        if spare && self.crosses() {
            // It looks now, which answers any call to help.
            self.seats[local.worker]
                .asked
                .store(false, Ordering::Release);
            if let Some(rest) = self.cross(local, closed) {
                return rest;
            }
        }
        if closed {
            return Rest::Stop;
        }
        self.pass_on(local);
        self.seats[local.worker].parker.park();
        Rest::LookAgain
    }

    /// The third rung: another group's work, if it is worth the cold cache.
    fn cross(&self, local: &mut Local<U>, closed: bool) -> Option<Rest<T, U>> {
        if self.rules.units_anywhere && self.units_within(local, 0..self.seats.len()) {
            if !self.leave(local) && !closed {
                return Some(Rest::LookAgain);
            }
            return Some(match self.steal_units_anywhere(local) {
                Some((unit, rung)) => Rest::Found(Found::Unit(unit, rung)),
                None => Rest::LookAgain,
            });
        }
        let victim = self.choose_victim(local)?;
        // Called meanwhile for this group's own work: that comes first.
        if !self.leave(local) && !closed {
            return Some(Rest::LookAgain);
        }
        let task = {
            let mut inbox = self.groups[victim].inbox.lock();
            // Others may have shortened it since the look.
            let worth = inbox.queued() as u32 >= self.groups[victim].worth_crossing;
            let task = if worth { inbox.take_for_thief() } else { None };
            self.publish_length(victim, &inbox);
            task
        };
        let Some(task) = task else {
            return Some(Rest::LookAgain);
        };
        let own = &self.groups[local.group];
        {
            let mut inbox = own.inbox.lock();
            local.abroad = true;
            inbox.abroad += 1;
            self.refresh_spare(local.group, &mut inbox);
        }
        // Going abroad makes the group spare as going to sleep does, so it looks at all queues as `rest` does.
        if self.choose_victim(local).is_some() {
            self.call_helper(local.group);
        }
        Some(Rest::Found(Found::Task(
            task,
            self.rung(own.domain, victim),
        )))
    }

    fn choose_victim(&self, local: &mut Local<U>) -> Option<usize> {
        local.loads.clear();
        local
            .loads
            .extend(self.groups.iter().map(|group| DomainLoad {
                workers: group.workers.len() as u32,
                queued: group.queued.load(Ordering::Acquire),
                home_running: 0,
            }));
        // The policy speaks of domains; where every worker is a group of its own, a group stands for one.
        let nearest = self.groups[local.group]
            .nearest
            .iter()
            .map(|&group| DomainId(group as u32));
        chiplet_policy::choose_victim(
            DomainId(local.group as u32),
            &local.loads,
            nearest,
            self.rules.stealing,
            &self.rules.steal,
        )
        .map(|group| group.0 as usize)
    }

    /// Whether anything may ever leave its group.
    fn crosses(&self) -> bool {
        self.rules.stealing != StealRule::Never || self.rules.units_anywhere
    }

    fn units_within(&self, local: &Local<U>, workers: Range<usize>) -> bool {
        workers
            .into_iter()
            .any(|worker| worker != local.worker && !self.seats[worker].units.is_empty())
    }

    /// Takes this worker off the sleepers. False: somebody has called it meanwhile, and the wake-up token is
    /// or will be in its parker; it shortens a later park by one round.
    fn leave(&self, local: &Local<U>) -> bool {
        let mut inbox = self.groups[local.group].inbox.lock();
        let before = inbox.sleepers.len();
        inbox.sleepers.retain(|&worker| worker != local.worker);
        self.refresh_spare(local.group, &mut inbox);
        inbox.sleepers.len() < before
    }

    fn publish_length(&self, group: usize, inbox: &Inbox<T>) {
        self.groups[group]
            .queued
            .store(inbox.queued() as u32, Ordering::Release);
    }

    /// Keeps the group's bit in `spare` true to its inbox: a sleeper to call, nothing queued, and no worker on
    /// this group's own work (all asleep or abroad).
    fn refresh_spare(&self, group: usize, inbox: &mut Inbox<T>) {
        if !self.crosses() {
            return;
        }
        let offered = !inbox.sleepers.is_empty()
            && inbox.queued() == 0
            && inbox.sleepers.len() + inbox.abroad == self.groups[group].workers.len();
        if offered != inbox.offered {
            inbox.offered = offered;
            if offered {
                self.spare.insert(group)
            } else {
                self.spare.remove(group)
            }
        }
    }

    /// Takes every task out of `group`'s queue for which `dead` holds.
    pub(crate) fn extract(&self, group: usize, dead: impl FnMut(&T) -> bool) -> Vec<(TableId, T)> {
        let mut inbox = self.groups[group].inbox.lock();
        let out = inbox.extract(dead);
        self.publish_length(group, &inbox);
        out
    }

    /// Accepts nothing from now on and wakes everybody: workers finish what is queued, then get `None`.
    pub(crate) fn close(&self) {
        for group in &self.groups {
            let sleepers = {
                let mut inbox = group.inbox.lock();
                inbox.close();
                std::mem::take(&mut inbox.sleepers)
            };
            for worker in sleepers {
                self.seats[worker].parker.unpark();
            }
        }
    }

    /// Parks `worker` until [`Hub::unpark`]; for waits that are not about queued work.
    pub(crate) fn park(&self, worker: usize) {
        self.seats[worker].parker.park();
    }

    /// Ends a [`Hub::park`].
    pub(crate) fn unpark(&self, worker: usize) {
        self.seats[worker].parker.unpark();
    }
}
