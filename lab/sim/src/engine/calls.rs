//! Who is woken and called for what. The decisions are `chiplet_policy::group`'s; here they become events.

use chiplet_policy::group::{LOOK, PublishedLoads};
use chiplet_policy::{Time, steal_order};

use super::timeline::Event;
use super::{Doing, Engine};

/// A worker that has been idle for less is awake still.
const AWAKE: u64 = 10_000;

impl Engine<'_> {
    /// Wakes a worker that its group has taken off the sleepers.
    pub(super) fn wake(&mut self, worker: usize) {
        let Doing::Idle(since) = self.workers[worker].doing else {
            unreachable!("sleepers are idle")
        };
        self.workers[worker].doing = Doing::Waking;
        let asleep = self.timeline.now() - since > AWAKE;
        let costs = &self.scenario.machine.costs;
        let after = match asleep {
            true => costs.wake_ns,
            false => costs.line_same_ns,
        };
        let after = self.replayed_wake(worker).unwrap_or(after as u64);
        self.timeline.after(after, Event::Work(worker));
    }

    /// Wakes up to `wanted` sleepers of a group, unless more than `at_most` tasks wait; returns how many those were.
    pub(super) fn wake_several(&mut self, group: usize, wanted: usize, at_most: usize) -> usize {
        let woken = self.groups[group].state.wake_several(wanted, at_most);
        woken.iter().for_each(|&worker| self.wake(worker));
        woken.len()
    }

    /// Wakes a sleeper of a group to help elsewhere, if the group can spare it.
    pub(super) fn call_helper(&mut self, group: usize) -> bool {
        let sleeper = self.groups[group].state.lend();
        let Some(worker) = sleeper else { return false };
        self.workers[worker].called = true;
        self.wake(worker);
        true
    }

    /// Wakes up to `wanted` sleeping workers of other groups that can spare them.
    pub(super) fn call_help(&mut self, group: usize, wanted: usize) {
        let call = |engine: &mut Self, other| engine.call_helper(other);
        steal_order::call_helpers(self, |engine| &engine.groups, group, wanted, call);
    }

    /// A worker that was called to help another group has found work at home, or nothing: somebody else is called in
    /// its place, if there is still need.
    pub(super) fn pass_on(&mut self, worker: usize) {
        if !std::mem::take(&mut self.workers[worker].called) {
            return;
        }
        let own = self.workers[worker].group;
        let mut others = (0..self.groups.groups()).filter(|&other| other != own);
        if let Some(overloaded) = others.find(|&other| self.groups.is_overloaded(other)) {
            self.call_help(overloaded, 1);
        }
    }

    /// Tasks wait that nobody of the group will see soon.
    pub(super) fn seek_help(&mut self, group: usize, unseen: usize) {
        if unseen == 0 {
            return;
        }
        if self.groups.is_overloaded(group) {
            self.call_help(group, unseen);
        }
        if self.crossing.is_priced() {
            self.look_soon();
        }
    }

    /// Has the timed look come.
    pub(super) fn look_soon(&mut self) {
        if !self.looking {
            self.looking = true;
            self.timeline.after(LOOK.as_nanos() as u64, Event::Look);
        }
    }

    /// The timed look: calls for help for every queue that is worth crossing for by now.
    pub(super) fn look(&mut self) {
        let (now, mut waiting) = (self.timeline.time(), false);
        for group in 0..self.groups.groups() {
            if self.groups[group].state.queue.is_empty() {
                continue;
            }
            waiting = true;
            self.look_at(group, now);
        }
        self.looking = waiting;
        if waiting {
            self.timeline.after(LOOK.as_nanos() as u64, Event::Look);
        }
    }

    fn look_at(&mut self, group: usize, now: Time) {
        let looked = self.groups[group].state.look(now);
        if let Some(worker) = looked.wake {
            self.wake(worker);
        }
        if looked.wanted > 0 {
            self.call_help(group, looked.wanted);
        }
        if looked.searches {
            self.purge(group);
        }
    }
}
