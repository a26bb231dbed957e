//! The scheduler on one thread and in virtual time: what it decides of a log, beside a simulator.
//!
//! Workers are the scheduler's own [`Local`]s and run its own code. A worker that parks is asleep until its token is
//! there; nobody spins, since nothing comes while one operation is under way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use chiplet_policy::group::LOOK;
use chiplet_policy::replay::{Decision, Event, Log, wake_time};
use chiplet_policy::route;
use chiplet_policy::{StealConfig, TableId, Time};
use chiplet_table::Class;
use chiplet_topology::Topology;

use super::find_task::Resting;
use super::{Crossing, Discipline, Found, GroupSpec, Invite, Local, Pace, Rules, Scheduler, Terms};

/// Nothing is shared out.
#[derive(Clone)]
enum Never {}

impl Invite for Never {
    fn is_open(&self) -> bool {
        match *self {}
    }
}

struct Replay<'a> {
    log: &'a Log,
    scheduler: Scheduler<usize, Never>,
    locals: Vec<Local<Never>>,
    asleep: Vec<bool>,
    paces: Vec<Pace>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    looking: bool,
    now: Time,
    decisions: Vec<Decision>,
}

/// What the scheduler decides of the tasks of `log` on `machine`, with the settings that an executor has by default.
pub fn replay(log: &Log, machine: &Topology) -> Vec<Decision> {
    let domains = machine.domains().iter();
    let domains: Vec<_> = domains
        .map(|domain| (domain.id, domain.cores.len()))
        .collect();
    let specs = GroupSpec::all(machine, &domains);
    let largest = specs.iter().map(|spec| spec.workers.len()).max();
    let rules = Rules {
        // The simulator takes them one by one.
        prefetches: false,
        crossing: Crossing {
            steal: StealConfig::default(),
            groups: specs.len(),
        },
        discipline: Discipline::for_workers(largest.unwrap_or(1)),
        substitutes: 0,
        processors: 0,
    };
    let (scheduler, locals) = Scheduler::new(rules, specs);
    let mut replay = Replay {
        asleep: vec![true; locals.len()],
        paces: vec![Pace::Within; log.homes.len()],
        events: BinaryHeap::new(),
        looking: false,
        now: Time::ZERO,
        decisions: Vec::new(),
        log,
        scheduler,
        locals,
    };
    for worker in (0..replay.locals.len()).rev() {
        let rest = replay.scheduler.finder(&mut replay.locals[worker]).rest();
        assert!(matches!(rest, Resting::Park), "nothing has come yet");
    }
    for (task, arrival) in log.arrivals.iter().enumerate() {
        replay.at(arrival.at, Event::Arrive(task));
    }
    while let Some(Reverse((at, event))) = replay.events.pop() {
        replay.now = at;
        match event {
            Event::Arrive(task) => replay.arrive(task),
            Event::Work(worker) => replay.work(worker),
            Event::Look => replay.look(),
        }
        replay.notice();
    }
    replay.decisions
}

impl Replay<'_> {
    fn at(&mut self, time: Time, event: Event) {
        self.events.push(Reverse((time, event)));
    }

    fn arrive(&mut self, task: usize) {
        let at = self.now;
        let table = self.log.arrivals[task].table;
        let home = self.log.homes[table];
        let of = (table_id(table), Class::Interactive, self.paces[table]);
        let evened = route::evens_out(&self.scheduler.groups, self.scheduler.crossing(), home, of);
        let scheduler = &self.scheduler;
        let push = |(): &mut (), group, _, task| {
            let pushed = scheduler.push(group, of.0, &Terms::default(), task, at);
            pushed.map(|(pace, _)| pace)
        };
        let placed = route::choose(
            &mut (),
            scheduler.groups.count(),
            (home, evened),
            task,
            |()| home,
            |(), home| route::nearest_spare(&scheduler.groups, scheduler.crossing(), home),
            (push, push),
        );
        match placed {
            Ok(Some(pace)) => self.paces[table] = pace,
            Ok(None) => {}
            Err(unplaced) => {
                let full = unplaced.refusal.is_for_places();
                self.scheduler.refuse(unplaced.home, (of.0, of.1), 1, full);
                self.decisions.push(Decision::Refused { task });
            }
        }
    }

    /// A worker has ended its task, or is awake.
    fn work(&mut self, worker: usize) {
        let (now, local) = (self.now, &mut self.locals[worker]);
        match std::mem::take(&mut self.asleep[worker]) {
            true => self.scheduler.finder(local).wakes(now),
            false => local.end_task(now, Duration::ZERO, Duration::ZERO),
        }
        match self.scheduler.next_or(&mut self.locals[worker], |_| false) {
            Some(found) => self.begin(worker, found),
            None => self.asleep[worker] = true,
        }
    }

    fn begin(&mut self, worker: usize, found: Found<usize, Never>) {
        let Found::Task(task, level) = found;
        self.decisions.push(Decision::Begun {
            task,
            at: self.now,
            worker,
            level,
        });
        self.at(self.now + self.log.arrivals[task].took, Event::Work(worker));
    }

    fn look(&mut self) {
        self.looking = self.scheduler.look(self.now, |_| ());
        match self.looking {
            true => self.at(self.now + LOOK, Event::Look),
            false => self.scheduler.disarm(),
        }
    }

    /// Workers that have been woken come, and so does the timed look.
    fn notice(&mut self) {
        for worker in 0..self.locals.len() {
            if self.scheduler.parkers.take_token(worker) {
                self.at(self.now + wake_time(worker), Event::Work(worker));
            }
        }
        if self.scheduler.monitor.is_armed() && !self.looking {
            self.looking = true;
            self.at(self.now + LOOK, Event::Look);
        }
    }
}

fn table_id(table: usize) -> TableId {
    TableId {
        slot: table as u32,
        generation: 0,
    }
}
