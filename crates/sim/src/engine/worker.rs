//! What a worker does next.

use std::time::Duration;

use chiplet_policy::queue::Run;
use chiplet_policy::{Routing, Rung, StealRule, can_lend};

use super::{Doing, Engine, Event};

impl Engine<'_> {
    /// A worker is through with what it did, or awake.
    pub(super) fn work(&mut self, worker: usize) {
        match self.workers[worker].doing {
            Doing::Idle(_) => {}
            Doing::Waking => self.seek(worker),
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
            self.at(self.now + took, Event::Work(worker));
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
        let (item, row) = (query.item, query.row);
        self.balancer.used(item as usize, worker, took);
        self.meter.busy(worker, took);
        if let Some(row) = row.and_then(|row| self.meter.rows.get_mut(row as usize)) {
            row.busy += took;
        }
    }

    /// The query is done; `worker` is the one that answers it.
    pub(super) fn end_query(&mut self, worker: usize, query: usize) {
        let units = self.queries[query].units.take();
        if let Some(units) = units {
            self.last_units[self.queries[query].item as usize] = units.taken;
            // The run that it belongs to is its runner's, who has gone on unless that is this worker.
            if units.runner == worker {
                self.tell(worker, units.helped);
            }
        } else {
            self.tell(worker, 0);
        }
        for mate in std::mem::take(&mut self.queries[query].mates) {
            self.answered(mate);
        }
        self.answered(query);
    }

    /// Says to the queue that the worker's task has ended, for which others have given time besides.
    pub(super) fn tell(&mut self, worker: usize, helped: u64) {
        let (now, helped) = (self.time(), Duration::from_nanos(helped));
        let worker = &mut self.workers[worker];
        match &mut worker.away {
            Some((_, run)) if worker.stealing => run.tell_shared(now, helped, Duration::ZERO),
            _ => worker.run.tell_shared(now, helped, Duration::ZERO),
        }
    }

    /// Finds something to do, or goes to sleep.
    pub(super) fn seek(&mut self, worker: usize) {
        let group = self.workers[worker].group;
        let by_domain = self.splits_by_load();
        if !self.workers[worker].stealing
            && by_domain
            && let Some(query) = self.open_in(group)
            && self.join(worker, query)
        {
            return;
        }
        if self.relieve(worker) || self.take_own(worker) {
            return;
        }
        if by_domain
            && let Some(query) = self.open_in(group)
            && self.join(worker, query)
        {
            return;
        }
        self.rest(worker);
    }

    fn take_own(&mut self, worker: usize) -> bool {
        let group = self.workers[worker].group;
        if std::mem::take(&mut self.workers[worker].stealing) {
            self.groups[group].stealing -= 1;
            self.workers[worker].returns = true;
        }
        let now = self.time();
        let run = &mut self.workers[worker].run;
        let Some(query) = self.groups[group].queue.take(Some(worker), run, now) else {
            return false;
        };
        self.workers[worker].returns = false;
        self.workers[worker].lent = false;
        let needy = self.publish(group);
        self.refresh_spare(group);
        if needy {
            self.call_help(group, 1);
        }
        self.begin(worker, query, Rung::Own, group);
        true
    }

    /// Joins the sleepers; crosses if the group can do without the worker and it is worth it.
    fn rest(&mut self, worker: usize) {
        let group = self.workers[worker].group;
        self.workers[worker].doing = Doing::Idle(self.now);
        self.groups[group].sleepers.push(worker);
        self.refresh_spare(group);
        let state = &self.groups[group];
        let returns = std::mem::take(&mut self.workers[worker].returns);
        let lent = std::mem::take(&mut self.workers[worker].lent);
        let spare = state.offered;
        let goes = spare || lent || (returns && can_lend(&state.staff()));
        if !goes || !self.crosses() {
            return;
        }
        if self.offers_anywhere() && self.join_anywhere(worker) {
            return;
        }
        let Some(victim) = self.choose_victim(group) else {
            if spare && self.units_leave_domains() {
                self.join_anywhere(worker);
            }
            return;
        };
        self.leave_sleepers(worker);
        if !self.take_from(victim, worker) {
            self.sleep_again(worker);
        }
    }

    /// Takes part in a query that may be scanned anywhere, if there is one.
    fn join_anywhere(&mut self, worker: usize) -> bool {
        let Some(query) = self.open_anywhere() else {
            return false;
        };
        self.leave_sleepers(worker);
        let joined = self.join(worker, query);
        if !joined {
            self.sleep_again(worker);
        } else if self.splits_by_load() {
            self.go_away(worker);
        }
        joined
    }

    /// This worker runs another group's task now.
    pub(super) fn go_away(&mut self, worker: usize) {
        let group = self.workers[worker].group;
        if !std::mem::replace(&mut self.workers[worker].stealing, true) {
            self.groups[group].stealing += 1;
            self.refresh_spare(group);
        }
    }

    fn leave_sleepers(&mut self, worker: usize) {
        let group = self.workers[worker].group;
        self.groups[group].sleepers.retain(|&other| other != worker);
        self.refresh_spare(group);
    }

    fn sleep_again(&mut self, worker: usize) {
        let group = self.workers[worker].group;
        self.workers[worker].doing = Doing::Idle(self.now);
        self.groups[group].sleepers.push(worker);
        self.refresh_spare(group);
    }

    fn take_from(&mut self, victim: usize, worker: usize) -> bool {
        let _ = self.publish(victim);
        if self.scenario.strategy.stealing == StealRule::Ladder && !self.groups[victim].needy {
            return false;
        }
        let Some(query) = self.take_task(victim, worker) else {
            return false;
        };
        let group = self.workers[worker].group;
        self.go_away(worker);
        if self.choose_victim(group).is_some() && self.groups[group].offered {
            self.wake_one(group);
        }
        let same = self.groups[victim].domain == self.groups[group].domain;
        let rung = if same { Rung::Domain } else { Rung::Remote };
        self.begin(worker, query, rung, victim);
        true
    }

    /// The next task of another group's queue.
    pub(super) fn take_task(&mut self, victim: usize, worker: usize) -> Option<usize> {
        let now = self.time();
        let run = match &mut self.workers[worker].away {
            Some((group, run)) if *group == victim => run,
            away => &mut away.insert((victim, Run::default())).1,
        };
        let query = self.groups[victim].queue.take(None, run, now);
        let _ = self.publish(victim);
        query
    }

    /// Starts a query that was taken from `group`.
    pub(super) fn begin(&mut self, worker: usize, query: usize, rung: Rung, group: usize) {
        self.close_to_others(group, query);
        if self.clients.expire && self.passes_over(worker, query) {
            let took = self.hand_over(worker, self.groups[group].domain);
            self.go_on_looking(worker, took);
            return;
        }
        self.meter.take(rung);
        let state = &mut self.queries[query];
        state.started = self.now;
        self.meter.wait(self.now - state.arrived);
        for at in 0..self.queries[query].mates.len() {
            let mate = self.queries[query].mates[at];
            self.meter.wait(self.now - self.queries[mate].arrived);
        }
        let hand_over = self.hand_over(worker, self.groups[group].domain) + self.route_ns(query);
        self.workers[worker].doing = Doing::Query(query);
        self.meter.busy(worker, hand_over);
        let stalled = self.note_begun(worker, query);
        if stalled > 0 {
            self.busy(worker, query, stalled);
        }
        self.at(self.now + hand_over + stalled, Event::Work(worker));
    }

    /// What it takes to get a task from a queue of `domain`.
    pub(super) fn hand_over(&self, worker: usize, domain: usize) -> u64 {
        let machine = self.scenario.machine;
        let own = self.domains[self.workers[worker].domain];
        // Queries come from threads that may be anywhere, so what one rotates to is no nearer than what one steals.
        let from = match self.scenario.strategy.routing {
            Routing::Home => self.domains[domain],
            Routing::Rotate => self.domains[(self.workers[worker].domain + 1) % self.domains.len()],
        };
        let costs = &machine.costs;
        (costs.task_ns + costs.task_lines * machine.line_ns(own, from)) as u64
    }
}
