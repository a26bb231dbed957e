//! Workers that are not wanted for now, because the cpus they ran on may not be used or their task blocks: they stand
//! by.
//!
//! [`Scheduler::staff`] says who is at work. It holds every group's lock at once, so that whatever it changes is one
//! step to everybody else: a group that loses its last worker refuses tasks from that moment on (`Refusal::Vacant`),
//! and what it had queued is in other queues. A worker learns that it is to stand by when it next asks for a task; it
//! finishes what it runs and what its group shares out, hands on any call that it was woken for, and parks.
//!
//! A worker whose task blocks ([`Scheduler::block`]) stands by too, and a substitute takes its place. It has not to
//! come back: whoever has the place keeps it, and the other is the next substitute once its task has ended.

use chiplet_policy::group::PublishedLoads;
use chiplet_policy::queue::Moved;

use super::find_task::FindTask;
use super::groups::Held;
use super::{Cover, Local, Scheduler};
use crate::sync::{Step, left_out};

impl<T, U> Scheduler<T, U> {
    /// The workers for which `at_work` is true take tasks from now on, the others stand by. Tasks queued in a group of
    /// which nobody is left go to the group that `rehome` names for them, or the next with workers; they were accepted
    /// before and stay so, over any bound; if there is no memory for them, the process ends rather than lose them. At
    /// least one worker must be at work.
    ///
    /// False, and nothing has changed, if the scheduler is closed: its workers may have gone home already, and a task
    /// that is moved to them would wait for ever.
    pub(crate) fn staff(&self, at_work: &[bool], rehome: impl Fn(&T) -> usize) -> bool {
        debug_assert!(at_work.contains(&true), "somebody has to work");
        let mut states: Vec<_> = (0..self.groups.count())
            .map(|group| self.hold(group))
            .collect();
        if states.iter().any(|state| state.queue.is_closed()) {
            return false;
        }
        let mut called = Vec::new();
        for (group, state) in states.iter_mut().enumerate() {
            for worker in self.layout.workers_of(group) {
                self.prefetched.put_back(worker, &mut state.queue);
                let wanted = at_work[worker];
                let woken = state.order(self.layout.slot(worker), wanted);
                called.extend(woken.filter(|_| !wanted || !left_out(Step::RecallWakes)));
            }
            self.groups.show_at_work(group, state.ordered());
        }
        if !left_out(Step::TasksMove) {
            clear_vacant(&mut states, rehome);
        }
        for state in &mut states {
            called.extend(state.wake_for_all(self.clock.now()));
        }
        drop(states);
        for worker in called {
            self.parkers.unpark(worker);
        }
        for group in 0..self.groups.count() {
            if self.groups.is_overloaded(group) {
                // A whole queue may have come at once, for which nobody has called yet.
                self.call_help(group, self.groups.queued(group) as usize);
            }
        }
        if self.rules.crossing.is_priced() {
            self.monitor.arm();
        }
        true
    }

    /// This worker is about to wait for something that takes no processor: a substitute takes tasks in its place.
    pub(crate) fn block(&self, local: &Local<U>) -> Cover {
        let slot = self.layout.slot(local.worker);
        let away = local.steal_order.is_away();
        self.put_back(local.place, self.clock.now());
        let cover = self.hold(local.group).block(local.worker, slot, away);
        if let Cover::Found(Some(substitute)) = cover
            && !left_out(Step::BlockCallsSubstitute)
        {
            self.parkers.unpark(substitute);
        }
        cover
    }

    /// The substitute that [`Scheduler::block`] named could not be started.
    pub(crate) fn do_without(&self, local: &Local<U>, substitute: usize) {
        self.hold(local.group).do_without(local.worker, substitute);
    }

    /// This worker goes on with its task.
    pub(crate) fn unblock(&self, local: &Local<U>) {
        self.hold(local.group)
            .unblock(local.worker, local.steal_order.is_away());
    }
}

impl<T, U> FindTask<'_, T, U> {
    /// Parks this worker while it is to stand by. False: the scheduler has closed meanwhile.
    pub(super) fn stand_by(&mut self) -> bool {
        let (scheduler, worker, group) = (self.scheduler, self.local.worker, self.local.group);
        let (successor, spare) = {
            let mut state = scheduler.hold(group);
            let slot = scheduler.layout.slot(worker);
            let slot = slot.filter(|_| !left_out(Step::StandbyTakesPlace));
            let invited = scheduler.invitations.may_be_in(group);
            let Some(successor) = state.stand_by(worker, slot, invited) else {
                return true;
            };
            (successor, state.published_load().spare)
        };
        if !left_out(Step::CallHandedOn) {
            scheduler.see_to(group, successor);
        }
        self.pass_on();
        // Without this worker its siblings may all be asleep, which makes the group spare as `rest` does.
        if spare && scheduler.rules.crossing.is_possible() {
            scheduler.call_helper_if_needed(group);
        }
        loop {
            {
                let mut state = scheduler.hold(group);
                let recalled = !state.is_off(worker);
                if recalled || state.queue.is_closed() {
                    state.end_standby(worker);
                    self.local.now = scheduler.clock.now();
                    return recalled;
                }
            }
            scheduler.parkers.park(worker, None);
        }
    }
}

/// Moves what is queued where nobody works.
fn clear_vacant<T>(states: &mut [Held<'_, T>], rehome: impl Fn(&T) -> usize) {
    let count = states.len();
    let mut moves: Vec<Vec<Moved<T>>> = (0..count).map(|_| Vec::new()).collect();
    for from in 0..count {
        for moved in states[from].vacate() {
            let wanted = rehome(&moved.task);
            let mut to = (0..count).map(|step| (wanted + step) % count);
            let to = to.find(|&to| states[to].queue.workers() > 0);
            moves[to.expect("at least one worker is at work")].push(moved);
        }
    }
    for (state, moved) in states.iter_mut().zip(moves) {
        state.queue.adopt(moved);
    }
}
