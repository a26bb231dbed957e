//! Making work available: accept it, then wake whoever may run it. The waking half of `README.md`.

use chiplet_policy::group::PublishedLoads;
use chiplet_policy::queue::Underway;
use chiplet_policy::{TableId, Time, steal_order};

use super::groups::shown;
use super::{Invite, Local, Pace, Refusal, Scheduler, Terms};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Step, left_out};

impl<T, U> Scheduler<T, U> {
    /// Accepts `task`, which came at `at`, for `group` and wakes a worker that may run it, or hands it back. Says how
    /// fast the table's tasks come, and where the queue keeps the table unless `terms` do.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        group: usize,
        table: TableId,
        terms: &Terms,
        task: T,
        at: Time,
    ) -> Result<(Pace, Option<u32>), (Refusal, T)> {
        let mut state = self.groups.lock(group);
        let before = shown(&state);
        let pushed = state.push(table, terms, task, at);
        self.groups.show(group, &self.parkers, before, &mut state);
        drop(state);
        let pushed = pushed?;
        if let Some(worker) = pushed.wake
            && !left_out(Step::PushWakes)
        {
            self.parkers.unpark(worker);
        }
        if pushed.left {
            self.leave_to_spinning();
        }
        self.seek_help(group, pushed.unseen);
        Ok((pushed.pace, pushed.place))
    }

    /// Accepts all of `tasks`, each with its queries, which came at `at`, for `group`, or hands all of them back. As
    /// many workers are woken as if they had been pushed one by one, but at once: under one lock.
    pub(crate) fn push_all(
        &self,
        group: usize,
        table: TableId,
        terms: &Terms,
        tasks: Vec<(T, u32)>,
        at: Time,
    ) -> Result<Pace, (Refusal, Vec<(T, u32)>)> {
        let pushed = self.hold(group).push_all(table, terms, tasks, at)?;
        if !left_out(Step::PushAllWakes) {
            for worker in pushed.wake {
                self.parkers.unpark(worker);
            }
        }
        if pushed.left {
            self.leave_to_spinning();
        }
        self.seek_help(group, pushed.unseen);
        Ok(pushed.pace)
    }

    /// A task is left to a worker that spins while others of its group sleep. The system may run something else on that
    /// one's core for some time, so the timed look sees whether it comes.
    pub(super) fn leave_to_spinning(&self) {
        if !left_out(Step::SpinnersTaskArms) {
            self.monitor.arm();
        }
    }

    /// `worker` has taken tasks ahead, which other groups do not see: the timed look sees whether it is held up.
    pub(super) fn has_prefetched(&self, worker: usize) {
        if left_out(Step::ShownBeforeUnlock) {
            self.prefetched.show(worker);
        }
        if !left_out(Step::PrefetchedArms) {
            self.monitor.arm();
        }
    }

    /// So many tasks were pushed to `group` that none of its workers will see soon: calls other groups' workers if the
    /// queue is worth crossing for, and has the timed look see whether it becomes so.
    pub(super) fn seek_help(&self, group: usize, unseen: usize) {
        if unseen == 0 {
            return;
        }
        if self.groups.is_overloaded(group) {
            self.call_help(group, unseen);
        }
        if self.rules.crossing.is_priced() {
            self.monitor.arm();
        }
    }

    /// Wakes up to `wanted` sleeping workers of other groups that can spare them.
    pub(super) fn call_help(&self, group: usize, wanted: usize) {
        // Pairs with the fence in `GroupSet::insert`: either this load sees the group that has just become
        // spare, or that group's look at the queues sees what was pushed before this call.
        fence(Ordering::SeqCst);
        if !self.groups.is_any_spare() {
            return;
        }
        let mut scheduler = self;
        let call = |scheduler: &mut &Self, other| scheduler.call_helper(other);
        steal_order::call_helpers(
            &mut scheduler,
            |scheduler| &scheduler.groups,
            group,
            wanted,
            call,
        );
    }

    /// Wakes a sleeper of `group` to help elsewhere, if the group can spare it.
    pub(super) fn call_helper(&self, group: usize) -> bool {
        let sleeper = {
            let mut state = self.hold(group);
            let sleeper = state.lend();
            // Under the lock: the worker may be awake already, and next asks for work of its own.
            if let Some(worker) = sleeper {
                self.parkers.call(worker);
            }
            sleeper
        };
        let Some(worker) = sleeper else { return false };
        self.parkers.unpark(worker);
        true
    }

    /// Wakes a sleeper of `group` if another group's work is worth crossing for.
    pub(super) fn call_helper_if_needed(&self, group: usize) {
        if steal_order::victim(&self.groups, group).is_some() {
            self.call_helper(group);
        }
    }

    /// Lets `places` siblings take part in `invitation`, and wakes up to `wanted` workers that may, all at once: a
    /// cascade of single wake-ups would start the last of them late.
    pub(crate) fn invite(&self, local: &Local<U>, invitation: U, places: usize, wanted: usize) {
        self.invitations
            .add(local.group, local.worker, invitation, places);
        if !left_out(Step::InvitationWakes) {
            self.wake_several(local.group, wanted, usize::MAX);
        }
    }

    /// Wakes up to `wanted` sleepers of `group`, all at once, unless more than `at_most` tasks wait, for which they are
    /// woken anyway; returns how many that were. A submitter calls it when there will be invitations in a moment:
    /// waking takes longer than that.
    pub(crate) fn wake_several(&self, group: usize, wanted: usize, at_most: usize) -> usize {
        let woken = self.hold(group).wake_several(wanted, at_most);
        for &worker in &woken {
            self.parkers.unpark(worker);
        }
        woken.len()
    }

    /// A worker of `group` joins what another has started, though a task waits that a push may have left to it: it was
    /// looking at the queue then, or had been woken. Somebody else sees to that task, as if it came only now.
    pub(super) fn leave_task_to_others(&self, group: usize) {
        if self.groups.queued(group) == 0 || left_out(Step::JoiningHandsOn) {
            return;
        }
        let successor = self.hold(group).hand_on();
        self.see_to(group, successor);
    }

    /// A task of `group`, or an invitation, has lost the worker that was to take it: `successor` says whom to wake, or
    /// else whether it is left to others that are awake ([`Group::hand_on`]).
    pub(super) fn see_to(&self, group: usize, successor: Result<Option<usize>, bool>) {
        match successor {
            Ok(Some(worker)) => self.parkers.unpark(worker),
            Ok(None) => self.seek_help(group, 1),
            Err(true) => self.leave_to_spinning(),
            Err(false) => {}
        }
    }

    /// Whether a task of this worker's own group goes before another piece of `task`, in which it takes part.
    pub(crate) fn gives_way(&self, local: &Local<U>, task: &Underway) -> bool {
        self.groups.queued(local.group) > 0 && {
            let now = self.clock.now();
            let state = self.groups.lock(local.group);
            state.queue.goes_before(task, now)
        }
    }

    /// A task of this worker's own group waits.
    pub(crate) fn is_wanted_at_home(&self, local: &Local<U>) -> bool {
        self.groups.queued(local.group) > 0
    }

    /// Takes back what this worker has spilled, or what is left of it.
    pub(crate) fn withdraw(&self, local: &Local<U>) {
        if !left_out(Step::SpillTakenBack) {
            self.spills.withdraw(local.group, local.worker);
        }
    }
}

impl<T, U: Invite> Scheduler<T, U> {
    /// Lets `places` workers of other groups take part in `invitation`, and wakes as many of those that their groups
    /// can spare. The same worker has to [`withdraw`](Scheduler::withdraw) it.
    pub(crate) fn spill(&self, local: &Local<U>, invitation: U, places: usize) {
        if places == 0 || self.groups.count() == 1 {
            return;
        }
        self.spills
            .add(local.group, local.worker, invitation, places);
        if !left_out(Step::SpillCalls) {
            self.call_help(local.group, places);
        }
    }
}
