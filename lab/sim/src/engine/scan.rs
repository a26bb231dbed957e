//! The probes of a query that several workers scan.

use chiplet_baselines::{Splitting, Stealing};
use chiplet_policy::{Hands, LeftHome, StealLevel};

use super::timeline::Event;
use super::units::{Cursor, Shared};
use super::{Doing, Engine};

impl Engine<'_> {
    /// Whether units are cut by load, and a worker takes one after the other.
    pub(super) fn splits_by_load(&self) -> bool {
        self.scenario.strategy.splitting.is_by_load()
    }

    /// Whether units may be taken by workers of other domains.
    pub(super) fn units_leave_domains(&self) -> bool {
        self.splits_over_all() || self.scenario.strategy.splitting == Splitting::Spill
    }

    /// Whether each list is a unit for any worker of the machine.
    pub(super) fn splits_over_all(&self) -> bool {
        self.scenario.strategy.splitting == Splitting::AllCores
    }

    /// Whether a query's units may go to workers that other domains can spare.
    fn spills(&self, group: usize, query: usize) -> bool {
        let tables = &self.scenario.prepared.workload.tables;
        let bytes = tables[self.queries[query].table as usize].bytes();
        let domains = self.scenario.machine.topology.domains();
        let cache = domains[self.groups[group].domain].cache_bytes;
        self.scenario.strategy.splitting == Splitting::Spill
            && self.scenario.settings.split.is_stream(bytes, cache)
    }

    pub(super) fn has_units(&self, query: usize) -> bool {
        self.queries[query].units.is_some()
    }

    /// Whether one more worker is welcome.
    fn is_open(&self, shared: Shared) -> bool {
        let query = &self.queries[shared.query];
        let Some(units) = query
            .units
            .as_ref()
            .filter(|_| query.serial == shared.serial)
        else {
            return false;
        };
        units.next < units.visits.len()
    }

    /// A query of the group that one more worker may join.
    pub(super) fn open_in(&mut self, group: usize) -> Option<usize> {
        while let Some(&shared) = self.groups[group].open.first() {
            if self.is_open(shared) {
                return Some(shared.query);
            }
            self.groups[group].open.remove(0);
        }
        None
    }

    pub(super) fn open_anywhere(&mut self) -> Option<usize> {
        while let Some(&shared) = self.open.first() {
            if self.is_open(shared) {
                return Some(shared.query);
            }
            self.open.remove(0);
        }
        None
    }

    /// The coarse search is done: takes the first unit, and invites others to the rest.
    pub(super) fn share_out(&mut self, worker: usize, query: usize) {
        if !self.take_unit(worker, query, true) {
            self.end_query(worker, query);
            self.seek(worker);
            return;
        }
        let shared = Shared {
            query,
            serial: self.queries[query].serial,
        };
        if !self.is_open(shared) {
            return;
        }
        let group = self.workers[worker].group;
        let left = self.queries[query]
            .units
            .as_ref()
            .map_or(0, |units| units.left);
        match self.scenario.strategy.splitting {
            Splitting::Never => {}
            Splitting::Domain | Splitting::Spill => {
                self.groups[group].open.push(shared);
                let siblings = self.groups[group].workers.len() - 1;
                let split = &self.scenario.settings.split;
                let most = split.invitations(left, self.workers.len() - 1);
                let wanted = most.min(siblings);
                let woken = self.wake_several(group, wanted, usize::MAX);
                if self.spills(group, query) {
                    self.open.push(shared);
                    self.call_help(group, most - woken);
                }
            }
            Splitting::AllCores => {
                self.open.push(shared);
                let units = self.queries[query].units.as_ref();
                let lists = units.map_or(0, |units| units.visits.len() - units.next);
                self.call_help(group, lists.min(self.workers.len() - 1));
            }
        }
    }

    /// A free worker takes part in a query that somebody else has started.
    pub(super) fn join(&mut self, worker: usize, query: usize) -> bool {
        self.take_unit(worker, query, true)
    }

    /// Takes the next unit of a query, if there is one, for a worker that comes or is inside.
    fn take_unit(&mut self, worker: usize, query: usize, enters: bool) -> bool {
        let group = self.workers[worker].group;
        let state = &self.groups[group];
        let hands = (state.state.idle(), state.state.queue.len());
        let splitting = self.scenario.strategy.splitting;
        let (team, all) = (state.workers.len(), self.workers.len());
        let Some(units) = &mut self.queries[query].units else {
            return false;
        };
        let rest = &units.visits[units.next..];
        if rest.is_empty() {
            return false;
        }
        let hands = Hands {
            inside: units.inside + usize::from(enters),
            idle: hands.0,
            waiting: hands.1,
        };
        let costs = rest.iter().map(|visit| visit.bytes);
        let split = &self.scenario.settings.split;
        let count = match splitting {
            Splitting::AllCores if all > 1 => 1,
            Splitting::Domain | Splitting::Spill => {
                split.next_unit(costs, units.left, &hands, team)
            }
            Splitting::AllCores | Splitting::Never => rest.len(),
        };
        let unit = units.next..units.next + count.clamp(1, rest.len());
        let bytes: u128 = rest[..unit.len()]
            .iter()
            .map(|visit| u128::from(visit.bytes))
            .sum();
        units.left -= bytes;
        units.next = unit.end;
        units.inside += usize::from(enters);
        units.taken += 1;
        let runner = units.runner;
        let from = self.workers[runner].domain;
        let own = self.workers[worker].domain;
        let level = match (worker == runner, from == own) {
            (true, _) => StealLevel::Own,
            (false, true) => StealLevel::Domain,
            (false, false) => StealLevel::Away(LeftHome::StolenByIdle),
        };
        if worker != runner || !enters {
            self.meter.take(level);
        }
        let mut before = 0;
        if enters && worker != runner {
            let machine = self.scenario.machine;
            let line = machine.line_ns(self.domains[own], self.domains[from]);
            before = (machine.costs.task_lines * line) as u64;
        }
        let state = &mut self.workers[worker];
        state.doing = Doing::Unit(query);
        state.cursor = Cursor {
            visit: unit.start,
            end: unit.end,
            offset: 0,
        };
        self.scan_on(worker, query, before);
        true
    }

    /// Scans the next part of a worker's unit; false if nothing is left of it.
    fn scan_on(&mut self, worker: usize, query: usize, before: u64) -> bool {
        let Some(took) = self.scan(worker, query) else {
            return false;
        };
        let took = took + before;
        if let Some(units) = &mut self.queries[query].units
            && worker != units.runner
        {
            units.helped += took;
        }
        self.busy(worker, query, took);
        self.timeline.after(took, Event::Work(worker));
        true
    }

    /// Whether a worker that helps another domain has a task at home.
    fn is_wanted_home(&self, worker: usize, query: usize) -> bool {
        let Some(units) = &self.queries[query].units else {
            return false;
        };
        let (own, from) = (self.workers[worker].group, self.workers[units.runner].group);
        self.splits_by_load() && own != from && !self.groups[own].state.queue.is_empty()
    }

    /// A unit is done: the next one, or leave.
    pub(super) fn end_unit(&mut self, worker: usize, query: usize) {
        if self.scan_on(worker, query, 0)
            || (!self.is_wanted_home(worker, query) && self.take_unit(worker, query, false))
        {
            return;
        }
        let fork_join =
            self.splits_over_all() && self.scenario.strategy.stealing == Stealing::Never;
        let Some(units) = &mut self.queries[query].units else {
            unreachable!("a query keeps its units until the last worker has left")
        };
        units.inside -= 1;
        let (last, runner) = (units.inside == 0, units.runner);
        match (last, worker == runner) {
            (true, false) if units.at_barrier => {
                let line = self.scenario.machine.line_ns(
                    self.domains[self.workers[worker].domain],
                    self.domains[self.workers[runner].domain],
                );
                self.timeline.after(line as u64, Event::Work(runner));
            }
            (true, _) => self.end_query(worker, query),
            (false, true) if fork_join => {
                units.at_barrier = true;
                self.workers[worker].doing = Doing::Barrier(query);
                return;
            }
            (false, true) => {
                // What others have given by now; the queue learns no more of it.
                let helped = units.helped;
                self.end_task(worker, helped);
            }
            (false, false) => {}
        }
        self.seek(worker);
    }
}
