//! Workers that are not wanted for now, because the cpus they ran on may not be used or their task blocks: they stand
//! by.
//!
//! [`Hub::staff`] says who is at work. It holds every group's lock at once, so that whatever it changes is one step to
//! everybody else: a group that loses its last worker refuses tasks from that moment on (`Refusal::Vacant`), and what
//! it had queued is in other queues. A worker learns that it is to stand by when it next asks for a task; it finishes
//! what it runs and what lies on its own deque, hands on any call that it was woken for, and parks.
//!
//! A worker whose task blocks ([`Hub::block`]) stands by too, and a substitute takes its place. It has not to come back:
//! whoever has the place keeps it, and the other is the next substitute once its task has ended.

use chiplet_policy::group::{Faces, Ordered};

use super::faces::Held;
use super::{Cover, Hub, Local, call};
use crate::sync::atomic::Ordering;
use crate::sync::{Step, left_out};

impl<T, U> Hub<T, U> {
    /// The workers for which `at_work` is true take tasks from now on, the others stand by. Tasks queued in a group of
    /// which nobody is left go to the group that `rehome` names for them, or the next with workers; they were accepted
    /// before and stay so, over any bound; if there is no memory for them, the process ends rather than lose them. At least
    /// one worker must be at work.
    ///
    /// False, and nothing has changed, if the hub is closed: its workers may have gone home already, and a task that is
    /// moved to them would wait for ever.
    pub(crate) fn staff(&self, at_work: &[bool], rehome: impl Fn(&T) -> usize) -> bool {
        debug_assert!(at_work.contains(&true), "somebody has to work");
        let mut states: Vec<_> = (0..self.groups.len())
            .map(|group| self.hold(group))
            .collect();
        if states.iter().any(|state| state.queue.is_closed()) {
            return false;
        }
        let mut called = Vec::new();
        for (group, state) in self.groups.iter().zip(&mut states) {
            for worker in group.workers.clone() {
                match state.order(self.post(worker), at_work[worker]) {
                    // A sleeper comes to learn that it is off.
                    Some(Ordered::SentOff(holder)) => called.push(holder),
                    Some(Ordered::Recalled(holder)) if !left_out(Step::RecallWakes) => {
                        called.push(holder);
                    }
                    _ => {}
                }
            }
            group.seen.set_at_work(state.ordered());
        }
        if !left_out(Step::TasksMove) {
            clear_vacant(&mut states, rehome);
        }
        for state in &mut states {
            called.extend(state.wake_for_all(self.clock.now()));
        }
        drop(states);
        for worker in called {
            self.seats[worker].parker.unpark();
        }
        for group in 0..self.groups.len() {
            if self.is_needy(group) {
                // A whole queue may have come at once, for which nobody has called yet.
                self.call_help(group, self.queued(group) as usize);
            }
        }
        if self.rules.crossing.is_priced() {
            self.watch.arm();
        }
        true
    }

    /// Workers at work in all groups together.
    pub(crate) fn at_work(&self) -> usize {
        (0..self.groups.len())
            .map(|group| self.at_work_in(group))
            .sum()
    }

    /// Workers at work in `group`.
    pub(crate) fn at_work_in(&self, group: usize) -> usize {
        self.groups[group].seen.at_work()
    }

    /// Whether this worker is not to take tasks.
    pub(super) fn is_off(&self, local: &Local<U>) -> bool {
        let state = self.groups[local.group].state.lock();
        state.is_off(local.worker)
    }

    /// Parks this worker while it is to stand by. False: the hub has closed meanwhile.
    pub(super) fn stand_by(&self, local: &mut Local<U>) -> bool {
        let group = &self.groups[local.group];
        let (successor, spare, left) = {
            let mut state = self.hold(local.group);
            let takes_post = !left_out(Step::StandbyRelieves)
                && state.take_post(local.worker, self.post(local.worker));
            if takes_post || !state.is_off(local.worker) {
                return true;
            }
            let invited = self.invitations_within(local, group.threads());
            let (successor, left) = state.stand_by(local.worker, invited);
            (successor, state.face().spare, left)
        };
        if let Some(successor) = successor
            && !left_out(Step::CallHandedOn)
        {
            self.seats[successor].parker.unpark();
        }
        if left {
            self.leave_to_spinning();
        }
        self.pass_on(local);
        // Without this worker its siblings may all be asleep, which makes the group spare as `rest` does.
        if spare && self.crosses() {
            self.call_helper_if_needed(local.group);
        }
        loop {
            {
                let mut state = self.hold(local.group);
                let recalled = !state.is_off(local.worker);
                if recalled || state.queue.is_closed() {
                    state.end_standby(local.worker);
                    local.now = self.clock.now();
                    return recalled;
                }
            }
            self.seats[local.worker].parker.park();
        }
    }

    /// This worker is about to wait for something that takes no processor: a substitute takes tasks in its place.
    pub(crate) fn block(&self, local: &Local<U>) -> Cover {
        let group = &self.groups[local.group];
        let cover = {
            let mut state = self.hold(local.group);
            let cover = state.block(
                local.worker,
                self.post(local.worker),
                local.ladder.is_away(),
            );
            if let Cover::Start(_) = cover {
                group.has_substitutes.store(true, Ordering::Release);
            }
            cover
        };
        if let Cover::Found {
            unpark: Some(substitute),
        } = cover
            && !left_out(Step::BlockCallsSubstitute)
        {
            self.seats[substitute].parker.unpark();
        }
        cover
    }

    /// The substitute that [`Hub::block`] named could not be started.
    pub(crate) fn do_without(&self, local: &Local<U>, substitute: usize) {
        self.hold(local.group).do_without(local.worker, substitute);
    }

    /// This worker goes on with its task.
    pub(crate) fn unblock(&self, local: &Local<U>) {
        self.hold(local.group)
            .unblock(local.worker, local.ladder.is_away());
    }

    /// The worker for which `thread` takes tasks: for itself, or as a substitute.
    pub(crate) fn stands_in_for(&self, thread: usize) -> usize {
        match thread.checked_sub(self.workers) {
            None => thread,
            Some(substitute) => substitute / self.rules.substitutes,
        }
    }

    /// The threads that may fill the same place as `thread`, itself among them.
    fn post(&self, thread: usize) -> impl Iterator<Item = usize> + Clone + use<T, U> {
        let worker = self.stands_in_for(thread);
        let each = self.rules.substitutes;
        let first = self.workers + worker * each;
        std::iter::once(worker).chain(first..first + each)
    }

    /// Wakes a sleeper of `group` if another group's work is worth crossing for.
    fn call_helper_if_needed(&self, group: usize) {
        if (0..self.groups.len()).any(|other| other != group && self.is_needy(other)) {
            self.call_helper(group, call::HELP);
        }
    }
}

/// Moves what is queued where nobody works.
fn clear_vacant<T, U>(states: &mut [Held<'_, T, U>], rehome: impl Fn(&T) -> usize) {
    let count = states.len();
    for from in 0..count {
        for moved in states[from].vacate() {
            let wanted = rehome(&moved.task);
            let mut to = (0..count).map(|step| (wanted + step) % count);
            match to.find(|&to| !states[to].queue.is_vacant()) {
                Some(to) => states[to].queue.adopt(moved),
                None => unreachable!("at least one worker is at work"),
            }
        }
    }
}
