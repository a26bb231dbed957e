//! What a worker does next.

use std::time::Duration;

use chiplet_baselines::Routing;
use chiplet_policy::group::{PublishedLoads, Rest, Take};
use chiplet_policy::queue::Run;
use chiplet_policy::steal_order::Attempt;
use chiplet_policy::{LeftHome, StealLevel, steal_order};

use super::timeline::Event;
use super::{Doing, Engine};

impl Engine<'_> {
    /// A worker is through with what it did, or awake.
    pub(super) fn work(&mut self, worker: usize) {
        match self.workers[worker].doing {
            Doing::Idle(_) => {}
            Doing::Waking => {
                self.workers[worker].steal_order.found();
                self.leave_sleepers(worker);
                self.seek(worker);
            }
            Doing::Query(query) => self.go_on(worker, query),
            Doing::Unit(query) => self.end_unit(worker, query),
            Doing::Barrier(query) => {
                self.end_query(worker, query);
                self.seek(worker);
            }
        }
    }

    /// A segment of a query is done.
    fn go_on(&mut self, worker: usize, query: usize) {
        if let Some(took) = self.next_segment(worker, query) {
            self.busy(worker, query, took);
            self.timeline.after(took, Event::Work(worker));
        } else if self.has_units(query) {
            self.share_out(worker, query);
        } else {
            self.end_query(worker, query);
            self.seek(worker);
        }
    }

    /// Counts time that a worker gives to a query.
    pub(super) fn busy(&mut self, worker: usize, query: usize, took: u64) {
        let query = &mut self.queries[query];
        query.busy += took;
        let (table, row) = (query.table, query.row);
        self.balancer.used(table as usize, took);
        self.meter.busy(worker, took);
        if let Some(row) = row.and_then(|row| self.meter.rows.get_mut(row as usize)) {
            row.busy += took;
        }
    }

    /// The query is done; `worker` is the one that answers it.
    pub(super) fn end_query(&mut self, worker: usize, query: usize) {
        let units = self.queries[query].units.take();
        if let Some(units) = units {
            let table = self.queries[query].table as usize;
            self.known[table].units = units.taken;
            // The run that it belongs to is its runner's, who has gone on unless that is this worker.
            if units.runner == worker {
                self.end_task(worker, units.helped);
            }
        } else {
            self.end_task(worker, 0);
        }
        self.answered(query);
    }

    /// Says to the queue that the worker's task has ended, for which others have given time besides.
    pub(super) fn end_task(&mut self, worker: usize, helped: u64) {
        let (now, helped) = (self.timeline.time(), Duration::from_nanos(helped));
        let worker = &mut self.workers[worker];
        match &mut worker.away {
            Some((_, run)) if worker.steal_order.is_away() => {
                run.end_shared(now, helped, Duration::ZERO)
            }
            _ => worker.run.end_shared(now, helped, Duration::ZERO),
        }
    }

    /// Finds something to do, or goes to sleep.
    pub(super) fn seek(&mut self, worker: usize) {
        let group = self.workers[worker].group;
        self.workers[worker].steal_order.again();
        loop {
            let (now, joins) = (self.timeline.time(), !self.groups[group].open.is_empty());
            let state = &mut self.workers[worker];
            let of = (group, state.away.as_ref().map(|(group, _)| *group));
            let (steal_order, groups) = (&mut state.steal_order, &self.groups);
            let attempt = steal_order.next(groups, &self.crossing, of, joins, now);
            let found = match attempt {
                Attempt::Join => self.join_sibling(worker),
                // Whoever knows no domains takes from others when it is idle.
                Attempt::StealWhileBusy(_) if self.is_blind() => false,
                Attempt::StealWhileBusy(victim) => self.steal_while_busy(worker, victim),
                Attempt::Own => {
                    self.take_own(worker)
                        || (self.splits_over_all() && self.join_away(worker) == Some(true))
                }
                // No time passes.
                Attempt::Spin => {
                    self.workers[worker].steal_order.again();
                    false
                }
                Attempt::Rest => {
                    self.rest(worker);
                    false
                }
                Attempt::JoinAway => match self.join_away(worker) {
                    Some(false) => {
                        self.workers[worker].steal_order.again();
                        false
                    }
                    joined => joined.is_some(),
                },
                Attempt::Cross(victim) => {
                    self.leave_sleepers(worker);
                    let taken = self.take_from(victim, worker);
                    if !taken {
                        self.workers[worker].steal_order.again();
                    }
                    taken
                }
                Attempt::Park => return self.pass_on(worker),
            };
            if found {
                self.workers[worker].steal_order.found();
                // Of no effect if it has found work elsewhere.
                return self.pass_on(worker);
            }
        }
    }

    fn join_sibling(&mut self, worker: usize) -> bool {
        let group = self.workers[worker].group;
        let open = self.splits_by_load().then(|| self.open_in(group)).flatten();
        let joined = open.is_some_and(|query| self.join(worker, query));
        if joined {
            self.leave_task_to_others(group);
        }
        joined
    }

    /// A worker does something else though a task of its group waits, which a push may have left to it.
    pub(super) fn leave_task_to_others(&mut self, group: usize) {
        if self.groups[group].state.queue.is_empty() {
            return;
        }
        match self.groups[group].state.hand_on() {
            Ok(Some(worker)) => self.wake(worker),
            Ok(None) => self.seek_help(group, 1),
            Err(_) => {}
        }
    }

    fn take_own(&mut self, worker: usize) -> bool {
        let now = self.timeline.time();
        let state = &mut self.workers[worker];
        let group = state.group;
        let returns = state.steal_order.returns();
        let taken =
            self.groups[group]
                .state
                .take(worker, returns, &mut state.run, now, |_, _, _| ());
        let Take::Task { task, calls } = taken else {
            return false;
        };
        if calls {
            self.call_help(group, 1);
        }
        self.begin(worker, task, StealLevel::Own, group);
        true
    }

    /// Joins the sleepers.
    fn rest(&mut self, worker: usize) {
        let state = &mut self.workers[worker];
        match self.groups[state.group].state.rest(worker) {
            Rest::LookAgain => state.steal_order.again(),
            Rest::Listed { helps, closed } => {
                state.steal_order.lists(helps, closed);
                state.doing = Doing::Idle(self.timeline.now());
            }
        }
    }

    /// Takes part in a query that may be scanned anywhere. `None`: there is none.
    fn join_away(&mut self, worker: usize) -> Option<bool> {
        let query = self.units_leave_domains().then(|| self.open_anywhere());
        let query = query.flatten()?;
        self.leave_sleepers(worker);
        let joined = self.join(worker, query);
        if joined {
            self.workers[worker].called = false;
            if self.splits_by_load() {
                self.go_away(worker);
            }
        }
        Some(joined)
    }

    /// This worker runs another group's task now.
    pub(super) fn go_away(&mut self, worker: usize) {
        let group = self.workers[worker].group;
        if self.workers[worker].steal_order.goes_away() {
            self.groups[group].state.go_away();
        }
    }

    fn leave_sleepers(&mut self, worker: usize) {
        if self.workers[worker].steal_order.leaves() {
            let group = self.workers[worker].group;
            self.groups[group].state.leave(worker);
        }
    }

    fn take_from(&mut self, victim: usize, worker: usize) -> bool {
        let now = self.timeline.time();
        self.groups[victim].state.show_at(now);
        let group = self.workers[worker].group;
        if !self.groups.is_overloaded(victim) {
            return false;
        }
        let Some(query) = self.take_task(victim, worker) else {
            return false;
        };
        self.go_away(worker);
        self.workers[worker].called = false;
        if steal_order::victim(&self.groups, group).is_some() {
            self.call_helper(group);
        }
        let same = self.groups[victim].domain == self.groups[group].domain;
        let level = if same {
            StealLevel::Domain
        } else {
            StealLevel::Away(LeftHome::StolenByIdle)
        };
        self.begin(worker, query, level, victim);
        true
    }

    /// The next task of another group's queue.
    pub(super) fn take_task(&mut self, victim: usize, worker: usize) -> Option<usize> {
        let now = self.timeline.time();
        let run = match &mut self.workers[worker].away {
            Some((group, run)) if *group == victim => run,
            away => &mut away.insert((victim, Run::default())).1,
        };
        self.groups[victim].state.give(run, now)
    }

    /// Starts a query that was taken from `group`.
    pub(super) fn begin(&mut self, worker: usize, query: usize, level: StealLevel, group: usize) {
        if self.clients.expire && self.passes_over(worker, query) {
            let took = self.hand_over(worker, self.groups[group].domain);
            self.go_on_looking(worker, took);
            return;
        }
        self.meter.take(level);
        self.note_decided(worker, query, level);
        let state = &mut self.queries[query];
        state.started = self.timeline.now();
        self.meter.wait(self.timeline.now() - state.arrived);
        let hand_over = self.hand_over(worker, self.groups[group].domain);
        self.workers[worker].doing = Doing::Query(query);
        self.meter.busy(worker, hand_over);
        let stalled = self.note_begun(worker, query);
        if stalled > 0 {
            self.busy(worker, query, stalled);
        }
        self.timeline
            .after(hand_over + stalled, Event::Work(worker));
    }

    /// Whether the strategy knows no domains.
    fn is_blind(&self) -> bool {
        self.scenario.strategy.routing == Routing::Rotate
    }

    /// What it takes to get a task from a queue of `domain`.
    pub(super) fn hand_over(&self, worker: usize, domain: usize) -> u64 {
        let machine = self.scenario.machine;
        let own = self.domains[self.workers[worker].domain];
        // Queries come from threads that may be anywhere, so what one rotates to is no nearer than what one steals.
        let from = match self.is_blind() {
            false => self.domains[domain],
            true => self.domains[(self.workers[worker].domain + 1) % self.domains.len()],
        };
        let costs = &machine.costs;
        (costs.task_ns + costs.task_lines * machine.line_ns(own, from)) as u64
    }
}
