//! Workers that share a queue, and what others see of it; as the executor's `scheduler` does it, less the races.

use std::cmp::Reverse;
use std::ops::Range;
use std::time::Duration;

use chiplet_policy::queue::{Discipline, Pace, Queue};
use chiplet_policy::{
    Class, Staff, StealRule, can_lend, can_spare, choose_victim, is_worth_crossing,
};

use super::scan::Shared;
use super::{Doing, Engine, Event};

/// Between two timed looks.
const LOOK: u64 = 2_000_000;

/// A worker that has been idle for less is awake still.
const AWAKE: u64 = 10_000;

pub(super) struct Group {
    pub(super) domain: usize,
    pub(super) workers: Range<usize>,
    /// Every other group, nearest first.
    pub(super) nearest: Vec<usize>,
    pub(super) queue: Queue<usize>,
    pub(super) sleepers: Vec<usize>,
    /// Workers that run another group's task.
    pub(super) stealing: usize,
    /// A sleeper that it can do without, and nothing queued.
    pub(super) offered: bool,
    /// Its queue is worth crossing for.
    pub(super) needy: bool,
    /// How long a task of each class that comes now would wait, if its table asks for its share, and if it asks for more.
    pub(super) waits: [[Duration; 2]; 2],
    /// What a cold cache would cost the next task.
    pub(super) price: Duration,
    /// Queries with units that its workers may take.
    pub(super) open: Vec<Shared>,
    /// It has refused a task since it was last searched for dead ones.
    pub(super) refused: bool,
}

impl Group {
    pub(super) fn new(domain: usize, workers: Range<usize>, discipline: Discipline) -> Self {
        Self {
            domain,
            nearest: Vec::new(),
            queue: Queue::new(discipline, workers.len()),
            sleepers: workers.clone().rev().collect(),
            workers,
            stealing: 0,
            offered: false,
            needy: false,
            waits: [[Duration::ZERO; 2]; 2],
            price: Duration::ZERO,
            open: Vec::new(),
            refused: false,
        }
    }

    /// How long a task of `class` that comes now would wait.
    pub(super) fn wait(&self, class: Class, pace: Pace) -> Duration {
        self.waits[pace as usize][class as usize]
    }

    pub(super) fn staff(&self) -> Staff {
        let (workers, idle) = (self.workers.len(), self.sleepers.len());
        Staff {
            workers: workers as u32,
            idle: idle as u32,
            at_home: (workers - idle - self.stealing) as u32,
        }
    }
}

impl Engine<'_> {
    fn stealing(&self) -> StealRule {
        self.scenario.strategy.stealing
    }

    /// Whether tasks may go from domain to domain at a price.
    pub(super) fn is_watched(&self) -> bool {
        let payable = self.scenario.settings.steal.cold_factor != f64::INFINITY;
        self.stealing() == StealRule::Ladder && self.groups.len() > 1 && payable
    }

    /// Whether anything may ever leave its group.
    pub(super) fn crosses(&self) -> bool {
        self.groups.len() > 1 && (self.stealing() != StealRule::Never || self.offers_anywhere())
    }

    /// Shows the others what has become of the queue. True if it has become worth crossing for.
    pub(super) fn publish(&mut self, group: usize) -> bool {
        if self.stealing() != StealRule::Ladder || self.groups.len() == 1 {
            return false;
        }
        let now = self.time();
        let config = &self.scenario.settings.steal;
        let group = &mut self.groups[group];
        let before = group.needy;
        if group.queue.is_empty() {
            (group.needy, group.waits) = (false, [[Duration::ZERO; 2]; 2]);
        } else {
            let outlook = group.queue.outlook(now);
            group.needy = is_worth_crossing(&outlook.backlog, config);
            group.waits = [outlook.waits, outlook.waits_over];
            group.price = config.price(&outlook.backlog);
        }
        group.needy && !before
    }

    pub(super) fn refresh_spare(&mut self, group: usize) {
        if self.crosses() {
            let group = &mut self.groups[group];
            group.offered = group.queue.is_empty() && can_spare(&group.staff());
        }
    }

    /// Whether an idle worker of another group may take a task of this one.
    pub(super) fn is_needy(&self, group: usize) -> bool {
        match self.stealing() {
            StealRule::Never => false,
            StealRule::Anywhere => !self.groups[group].queue.is_empty(),
            StealRule::Ladder => self.groups[group].needy,
        }
    }

    pub(super) fn choose_victim(&self, of: usize) -> Option<usize> {
        let groups = &self.groups;
        match self.stealing() {
            StealRule::Never => None,
            StealRule::Anywhere => (0..groups.len())
                .filter(|&group| group != of && !groups[group].queue.is_empty())
                .max_by_key(|&group| (groups[group].queue.len(), Reverse(group))),
            StealRule::Ladder => {
                let needy = groups[of]
                    .nearest
                    .iter()
                    .filter(|&&group| groups[group].needy);
                let wait = |group: usize| groups[group].wait(Class::Interactive, Pace::OverShare);
                choose_victim(needy.map(|&group| (group, wait(group))))
            }
        }
    }

    /// Wakes a sleeper of `group`, the one that slept shortest.
    pub(super) fn wake_one(&mut self, group: usize) -> bool {
        let Some(worker) = self.groups[group].sleepers.pop() else {
            return false;
        };
        let Doing::Idle(since) = self.workers[worker].doing else {
            unreachable!("sleepers are idle")
        };
        self.workers[worker].doing = Doing::Waking;
        let asleep = self.now - since > AWAKE;
        let costs = &self.scenario.machine.costs;
        let after = match asleep {
            true => costs.wake_ns,
            false => costs.line_same_ns,
        };
        self.at(self.now + after as u64, Event::Work(worker));
        self.refresh_spare(group);
        true
    }

    /// Wakes up to `wanted` sleeping workers of other groups that can spare them; returns how many that were.
    pub(super) fn call_help(&mut self, group: usize, wanted: usize) -> usize {
        let mut called = 0;
        for at in 0..self.groups[group].nearest.len() {
            let other = self.groups[group].nearest[at];
            while called < wanted && self.groups[other].offered && self.wake_one(other) {
                called += 1;
            }
            if called == wanted {
                break;
            }
        }
        called
    }

    /// Tasks wait that nobody of the group will see soon.
    pub(super) fn seek_help(&mut self, group: usize) {
        if self.is_needy(group) {
            self.call_help(group, 1);
        }
        if self.is_watched() {
            self.look_soon();
        }
    }

    /// Has the timed look come.
    pub(super) fn look_soon(&mut self) {
        if !self.looking {
            self.looking = true;
            self.at(self.now + LOOK, Event::Look);
        }
    }

    /// The timed look: calls for help for every queue that is worth crossing for by now.
    pub(super) fn look(&mut self) {
        let mut waiting = false;
        for group in 0..self.groups.len() {
            if std::mem::take(&mut self.groups[group].refused) {
                self.purge(group);
            }
            if self.groups[group].queue.is_empty() {
                continue;
            }
            waiting = true;
            let _ = self.publish(group);
            let now = self.time();
            let state = &mut self.groups[group];
            let wanted = if state.needy { state.queue.len() } else { 0 };
            let overdue = state.queue.backlog(now).age >= self.scenario.settings.steal.max_wait;
            let mut called = match wanted {
                0 => 0,
                wanted => self.call_help(group, wanted),
            };
            if !overdue {
                continue;
            }
            for at in 0..self.groups[group].nearest.len() {
                if called >= wanted {
                    break;
                }
                let other = self.groups[group].nearest[at];
                let lends =
                    self.groups[other].queue.is_empty() && can_lend(&self.groups[other].staff());
                let sleeper = self.groups[other].sleepers.last().copied();
                if lends
                    && let Some(worker) = sleeper
                    && self.wake_one(other)
                {
                    self.workers[worker].lent = true;
                    called += 1;
                }
            }
        }
        self.looking = waiting;
        if waiting {
            self.at(self.now + LOOK, Event::Look);
        }
    }
}
