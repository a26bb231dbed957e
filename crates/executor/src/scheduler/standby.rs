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

use super::duty::Cover;
use super::inbox::Inbox;
use super::{Group, Hub, Local, call};
use crate::sync::atomic::Ordering;
use crate::sync::{MutexGuard, Step, left_out};

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
        let mut inboxes: Vec<_> = self.groups.iter().map(|group| group.inbox.lock()).collect();
        if inboxes.iter().any(|inbox| inbox.queue.is_closed()) {
            return false;
        }
        let mut called = Vec::new();
        for (group, inbox) in self.groups.iter().zip(&mut inboxes) {
            for worker in group.workers.clone() {
                match (inbox.duty.holder(self.post(worker)), at_work[worker]) {
                    // A sleeper comes to learn that it is off.
                    (Some(holder), false) if inbox.send_off(holder) => called.push(holder),
                    (None, true) => {
                        let recalled = inbox.duty.recall(self.post(worker));
                        if !left_out(Step::RecallWakes) {
                            called.push(recalled);
                        }
                    }
                    _ => {}
                }
            }
            self.publish_strength(group, inbox);
        }
        self.clear_vacant(&mut inboxes, rehome);
        for (group, inbox) in inboxes.iter_mut().enumerate() {
            let idle = inbox.queue.len().saturating_sub(inbox.spinning);
            called.extend(inbox.wake(idle));
            let _ = self.publish(group, inbox, self.clock.now());
            self.refresh_spare(group, inbox);
        }
        drop(inboxes);
        for worker in called {
            self.seats[worker].parker.unpark();
        }
        for group in 0..self.groups.len() {
            if self.is_needy(group) {
                // A whole queue may have come at once, for which nobody has called yet.
                self.call_help(group, self.queued(group) as usize);
            }
        }
        if self.is_watched() {
            self.watch.arm();
        }
        true
    }

    fn publish_strength(&self, group: &Group<T, U>, inbox: &mut Inbox<T>) {
        let at_work = inbox.duty.at_work();
        inbox.queue.set_workers(at_work);
        let seen = &group.seen.at_work;
        seen.store(at_work as u32, Ordering::Release);
    }

    /// Moves what is queued where nobody works.
    fn clear_vacant(&self, inboxes: &mut [MutexGuard<'_, Inbox<T>>], rehome: impl Fn(&T) -> usize) {
        let count = inboxes.len();
        for from in 0..count {
            let keeps = !inboxes[from].queue.is_vacant() || left_out(Step::TasksMove);
            if keeps || inboxes[from].queue.is_empty() {
                continue;
            }
            for moved in inboxes[from].queue.move_out() {
                let wanted = rehome(&moved.task);
                let to = (0..count).map(|step| (wanted + step) % count);
                let to = to.into_iter().find(|&to| !inboxes[to].queue.is_vacant());
                match to {
                    Some(to) => inboxes[to].queue.adopt(moved),
                    None => unreachable!("at least one worker is at work"),
                }
            }
        }
    }

    /// Workers at work in all groups together.
    pub(crate) fn at_work(&self) -> usize {
        (0..self.groups.len())
            .map(|group| self.at_work_in(group))
            .sum()
    }

    /// Workers at work in `group`.
    pub(crate) fn at_work_in(&self, group: usize) -> usize {
        self.groups[group].seen.at_work.load(Ordering::Acquire) as usize
    }

    /// Whether this worker is not to take tasks.
    pub(super) fn is_off(&self, local: &Local<U>) -> bool {
        let inbox = self.groups[local.group].inbox.lock();
        inbox.duty.is_off(local.worker)
    }

    /// Parks this worker while it is to stand by. False: the hub has closed meanwhile.
    pub(super) fn stand_by(&self, local: &mut Local<U>) -> bool {
        let group = &self.groups[local.group];
        let (successor, spare, left) = {
            let mut inbox = group.inbox.lock();
            let relieves = !left_out(Step::StandbyRelieves)
                && inbox.duty.relieve(local.worker, self.post(local.worker));
            if relieves || !inbox.duty.is_off(local.worker) {
                return true;
            }
            inbox.duty.park(local.worker);
            // It may have been woken for a task, or have spun in place of a sleeper: somebody else sees to that.
            let wanted =
                inbox.queue.len() > inbox.spinning || self.offers_within(local, group.threads());
            let successor = if wanted && !left_out(Step::CallHandedOn) {
                inbox.wake_one()
            } else {
                None
            };
            self.refresh_spare(local.group, &mut inbox);
            let left = !wanted && inbox.is_left_to_others();
            (successor, inbox.offered, left)
        };
        if let Some(successor) = successor {
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
                let mut inbox = group.inbox.lock();
                let recalled = !inbox.duty.is_off(local.worker);
                if recalled || inbox.queue.is_closed() {
                    inbox.duty.leave(local.worker);
                    self.refresh_spare(local.group, &mut inbox);
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
            let mut inbox = group.inbox.lock();
            let cover = inbox.duty.block(local.worker, self.post(local.worker));
            if local.stealing {
                inbox.stealing -= 1;
            }
            if let Cover::Start(_) = cover {
                group.has_substitutes.store(true, Ordering::Release);
            }
            self.refresh_spare(local.group, &mut inbox);
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
        let group = &self.groups[local.group];
        let mut inbox = group.inbox.lock();
        inbox.duty.take_back(local.worker, substitute);
        self.refresh_spare(local.group, &mut inbox);
    }

    /// This worker goes on with its task.
    pub(crate) fn unblock(&self, local: &Local<U>) {
        let mut inbox = self.groups[local.group].inbox.lock();
        inbox.duty.unblock(local.worker);
        if local.stealing {
            inbox.stealing += 1;
        }
        self.refresh_spare(local.group, &mut inbox);
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
