//! Finding work: the steal order, and going to sleep at its end. The sleeping half of `README.md`.

use chiplet_policy::group::{Group, LOOK, PublishedLoads, Rest, Take};
use chiplet_policy::queue::{Queue, Run};
use chiplet_policy::steal_order::Attempt;
use chiplet_policy::{LeftHome, StealLevel, Time, steal_order};

use super::groups::shown;
use super::{Found, Invite, Local, Scheduler};
use crate::sync::{LINGERS, Step, left_out, now, pause};

/// What the first two levels of the steal order hold for a worker.
pub(super) enum Near<T, U> {
    Found(Found<T, U>),
    /// Nothing, because it is to stand by.
    OffDuty,
    Nothing,
}

/// What a worker's own queue holds for it.
pub(super) enum Own<T> {
    Task(T),
    Nothing,
    /// Something else is to be looked at first, or it is to stand by.
    NotYet,
}

/// What became of a worker that found nothing near.
pub(super) enum Resting<T, U> {
    Found(Found<T, U>),
    LookAgain,
    Park,
    Stop,
}

/// One worker that looks for its next task.
pub(super) struct FindTask<'a, T, U> {
    pub(super) scheduler: &'a Scheduler<T, U>,
    pub(super) local: &'a mut Local<U>,
}

impl<T, U: Invite> Scheduler<T, U> {
    /// The next thing for this worker to run; parks while there is nothing it may run. `None` when the scheduler is
    /// closed and nothing is left.
    #[inline]
    pub(crate) fn next(&self, local: &mut Local<U>) -> Option<Found<T, U>> {
        self.next_or(local, |finder| {
            finder.sleep();
            true
        })
    }

    /// As [`Scheduler::next`]; `parks` where there is nothing, or says that it does not.
    #[inline]
    pub(super) fn next_or(
        &self,
        local: &mut Local<U>,
        parks: impl Fn(&mut FindTask<'_, T, U>) -> bool,
    ) -> Option<Found<T, U>> {
        let mut finder = self.finder(local);
        if let Some(task) = finder.take_ahead(finder.local.place, Some(finder.local.worker)) {
            finder.local.found();
            return Some(Found::Task(task, StealLevel::Own));
        }
        match finder.next_own() {
            Own::Task(task) => Some(Found::Task(task, StealLevel::Own)),
            own => finder.next(matches!(own, Own::Nothing), parks),
        }
    }

    #[inline]
    pub(super) fn finder<'a>(&'a self, local: &'a mut Local<U>) -> FindTask<'a, T, U> {
        FindTask {
            scheduler: self,
            local,
        }
    }
}

impl<T, U: Invite> FindTask<'_, T, U> {
    /// A task of this worker's own group, as it mostly finds one at once: nothing has been started there, nobody has
    /// called it, and it is not time to look at another group.
    #[inline(always)]
    pub(super) fn next_own(&mut self) -> Own<T> {
        let Self { scheduler, local } = self;
        if local.postponed.is_some()
            || scheduler.invitations.may_be_in(local.group)
            || scheduler.parkers.is_called(local.worker)
            || !local.steal_order.begins_with_own(&scheduler.rules.crossing)
        {
            return Own::NotYet;
        }
        match self.take_own() {
            Near::Found(Found::Task(task, _)) => {
                self.local.found();
                Own::Task(task)
            }
            Near::OffDuty => Own::NotYet,
            _ => Own::Nothing,
        }
    }

    /// As [`Scheduler::next_or`]; it has `tried` its own queue just now.
    #[inline(never)]
    fn next(&mut self, mut tried: bool, parks: impl Fn(&mut Self) -> bool) -> Option<Found<T, U>> {
        loop {
            match self.next_near(std::mem::take(&mut tried)) {
                Near::Found(found) => {
                    self.pass_on();
                    self.local.found();
                    return Some(found);
                }
                Near::OffDuty => {
                    if !self.stand_by() {
                        return None;
                    }
                }
                Near::Nothing => match self.rest() {
                    Resting::Found(found) => {
                        self.local.found();
                        return Some(found);
                    }
                    Resting::LookAgain => {}
                    Resting::Park if parks(self) => {}
                    Resting::Park | Resting::Stop => return None,
                },
            }
        }
    }

    /// The first two levels: this worker's own and its siblings' work. It has `tried` its own queue just now.
    pub(super) fn next_near(&mut self, tried: bool) -> Near<T, U> {
        if let Some((invitation, level)) = self.local.postponed.take() {
            return self.take_before(invitation, level);
        }
        if !tried {
            self.local.steal_order.again();
        }
        let mut own_is_empty = tried;
        loop {
            if std::mem::take(&mut own_is_empty)
                && let Some(task) = self.take_from_sibling()
            {
                return Near::Found(Found::Task(task, StealLevel::Domain));
            }
            match self.attempt() {
                Attempt::Join => {
                    if let Some(invitation) = self.scheduler.invitations.take(self.local.group) {
                        self.scheduler.leave_task_to_others(self.local.group);
                        return Near::Found(Found::Invitation(invitation, StealLevel::Domain));
                    }
                }
                Attempt::StealWhileBusy(victim) => {
                    if let Some((task, level)) = self.steal_while_busy(victim) {
                        return Near::Found(Found::Task(task, level));
                    }
                }
                Attempt::Own => match self.take_own_at_last() {
                    Near::Nothing => own_is_empty = true,
                    near => return near,
                },
                Attempt::Spin => {
                    self.spin();
                    self.local.steal_order.again();
                }
                Attempt::Rest => return Near::Nothing,
                attempt => unreachable!("{attempt:?} comes after resting"),
            }
        }
    }

    #[inline]
    fn attempt(&mut self) -> Attempt {
        let helped = self.local.away.as_ref().map(|(group, _)| *group);
        let Self { scheduler, local } = self;
        let of = (local.group, helped);
        let joins = scheduler.invitations.may_be_in(local.group);
        let steal_order = &mut local.steal_order;
        steal_order.next(
            &scheduler.groups,
            &scheduler.rules.crossing,
            of,
            joins,
            local.now,
        )
    }

    /// A task of this worker's own group, for which it has left what `invitation` is for; or that, if somebody else has
    /// taken the task. While it runs the task others may take its place.
    fn take_before(&mut self, invitation: U, level: StealLevel) -> Near<T, U> {
        match self.take_own_at_last() {
            Near::Nothing => Near::Found(Found::Invitation(invitation, level)),
            near => {
                if !left_out(Step::PostponedInvites) {
                    self.scheduler.invite(self.local, invitation, 1, 1);
                }
                near
            }
        }
    }

    /// The next task that `worker` of this worker's group has taken ahead, if this `thread` did, should it say which.
    #[inline]
    pub(super) fn take_ahead(&mut self, worker: usize, thread: Option<usize>) -> Option<T> {
        let (task, run) = self.scheduler.prefetched.take(worker, thread)?;
        self.local.goes_on(run);
        Some(task)
    }

    /// A task that a sibling has taken ahead.
    fn take_from_sibling(&mut self) -> Option<T> {
        let mut siblings = self.scheduler.layout.workers_of(self.local.group);
        siblings.find_map(|sibling| self.take_ahead(sibling, None))
    }

    /// [`FindTask::take_own`], where that is not what is mostly done.
    #[inline(never)]
    fn take_own_at_last(&mut self) -> Near<T, U> {
        self.take_own()
    }

    #[inline(always)]
    fn take_own(&mut self) -> Near<T, U> {
        let Self { scheduler, local } = self;
        let returns = local.steal_order.returns();
        let mut state = scheduler.groups.lock(local.group);
        let before = shown(&state);
        for ended in local.ended.drain(..) {
            state.queue.end_late(ended, false);
        }
        let mut has_ahead = false;
        let (place, now) = ((local.place, local.worker), local.now);
        let ahead = |queue: &mut Queue<T>, run: &Run, most| {
            let prefetched = &scheduler.prefetched;
            has_ahead =
                scheduler.rules.prefetches && prefetched.fill(place, (queue, run), most, now);
        };
        let taken = state.take(local.worker, returns, &mut local.run, now, ahead);
        scheduler
            .groups
            .show(local.group, &scheduler.parkers, before, &mut state);
        drop(state);
        if has_ahead {
            scheduler.has_prefetched(local.place);
        }
        match taken {
            Take::OffDuty => Near::OffDuty,
            Take::Nothing => Near::Nothing,
            Take::Task { task, calls } => {
                if calls {
                    scheduler.call_help(local.group, 1);
                }
                Near::Found(Found::Task(task, StealLevel::Own))
            }
        }
    }

    /// The worker found nothing near: stays awake for a moment before it goes to sleep, unless that was in vain lately.
    /// A task that comes meanwhile starts at once and costs its submitter no system call. A worker that was woken
    /// always stays: whoever woke it has work, or will have it in a moment.
    ///
    /// It is counted, so that a push need not wake a sleeper for a task that this worker is about to see. When it stops
    /// looking it is not counted any more, and it looks at the queue once more after that.
    fn spin(&mut self) {
        let (scheduler, group) = (self.scheduler, self.local.group);
        let woken = std::mem::take(&mut self.local.woken);
        if !(woken || self.local.spin_budget.tries()) || !scheduler.groups.lock(group).spin() {
            return;
        }
        let came = (0..LINGERS).any(|_| {
            pause();
            scheduler.groups.queued(group) > 0 || scheduler.invitations.may_be_in(group)
        });
        self.local.spin_budget.note(came);
        if !left_out(Step::SpinEnds) {
            scheduler.groups.lock(group).stop_spinning();
        }
    }

    /// The worker found nothing near: joins the sleepers, looks once more at all that others may have made
    /// available before they could see it there, and is then to park.
    pub(super) fn rest(&mut self) -> Resting<T, U> {
        let closed = {
            let mut state = self.scheduler.hold(self.local.group);
            match state.rest(self.local.worker) {
                Rest::LookAgain => return Resting::LookAgain,
                Rest::Listed { helps, closed } => {
                    self.local.steal_order.lists(helps, closed);
                    closed
                }
            }
        };
        let siblings = self.scheduler.layout.workers_of(self.local.group);
        if (!left_out(Step::SweepBeforeParking)
            && self.scheduler.invitations.may_be_in(self.local.group))
            || (!left_out(Step::SweepOfSiblings) && self.scheduler.prefetched.may_be_with(siblings))
        {
            self.leave();
            return Resting::LookAgain;
        }
        loop {
            let tried = match self.attempt() {
                Attempt::JoinAway => self.join_spilled(closed),
                Attempt::Cross(victim) => Some(self.cross(victim, closed)),
                _ => break,
            };
            if let Some(rest) = tried {
                return rest;
            }
        }
        if closed {
            return match self.lingers() {
                true => Resting::LookAgain,
                false => Resting::Stop,
            };
        }
        self.pass_on();
        Resting::Park
    }

    /// Whether this worker has to stay though the scheduler is closed: something waits elsewhere, and nobody else makes
    /// looks by time any more. Waits a moment, until that may be worth crossing for or whoever empties a queue ends the
    /// wait ([`Held::show`](super::groups::Held::show)).
    fn lingers(&mut self) -> bool {
        let mut waiting = false;
        if self.scheduler.rules.crossing.is_priced() {
            for group in
                (0..self.scheduler.groups.count()).filter(|&group| group != self.local.group)
            {
                if self.scheduler.groups.queued(group) > 0 {
                    waiting = true;
                    self.scheduler
                        .hold(group)
                        .show_at(self.scheduler.clock.now());
                }
            }
        }
        if waiting && self.choose_victim().is_none() {
            let until = Some(now() + LOOK);
            self.scheduler.parkers.park(self.local.worker, until);
        }
        self.local.now = self.scheduler.clock.now();
        waiting
    }

    /// Parks, and is no sleeper any more when it returns: a token left by an earlier call ends the park without
    /// anybody having taken this worker off the list, and a worker that runs must not be on it.
    pub(super) fn sleep(&mut self) {
        self.scheduler.parkers.park(self.local.worker, None);
        self.wakes(self.scheduler.clock.now());
    }

    /// This worker has been asleep and is awake at `now`.
    pub(super) fn wakes(&mut self, now: Time) {
        self.local.now = now;
        self.local.steal_order.found();
        self.local.woken = true;
        if !left_out(Step::WakingLeavesList) {
            self.leave();
        }
    }

    /// The third level: another group's task, if it is worth the cold cache.
    fn cross(&mut self, victim: usize, closed: bool) -> Resting<T, U> {
        // Called meanwhile for this group's own work: that comes first.
        if !self.leave() && !closed {
            return Resting::LookAgain;
        }
        let is_worth = |state: &Group<T>| state.published_load().overloaded;
        let Some(task) = self.take_from(victim, is_worth) else {
            return Resting::LookAgain;
        };
        self.scheduler.parkers.take_call(self.local.worker);
        self.go_away();
        // Stealing makes the group spare as going to sleep does, so it looks at all queues as `rest` does.
        if self.choose_victim().is_some() {
            self.scheduler.call_helper(self.local.group);
        }
        let level = StealLevel::Away(LeftHome::StolenByIdle);
        Resting::Found(Found::Task(task, level))
    }

    /// Takes part in what another group has started and no cache keeps. Tasks that are worth crossing for come first:
    /// they have waited.
    fn join_spilled(&mut self, closed: bool) -> Option<Resting<T, U>> {
        let (scheduler, group) = (self.scheduler, self.local.group);
        let mut spilling = scheduler.groups.nearest(group).iter().copied();
        let first = spilling.find(|&other| scheduler.spills.may_be_in(other))?;
        if !self.leave() && !closed {
            return Some(Resting::LookAgain);
        }
        let mut spilling = std::iter::once(first).chain(spilling);
        let Some(invitation) = spilling.find_map(|other| scheduler.spills.take(other)) else {
            return Some(Resting::LookAgain);
        };
        scheduler.parkers.take_call(self.local.worker);
        self.go_away();
        let level = StealLevel::Away(LeftHome::StolenByIdle);
        Some(Resting::Found(Found::Invitation(invitation, level)))
    }

    /// This worker runs another group's task now.
    pub(super) fn go_away(&mut self) {
        if self.local.steal_order.goes_away() {
            self.scheduler.hold(self.local.group).go_away();
        }
    }

    /// Takes a task of another group, if that is still `worth` it: others may have shortened its queue since the look.
    /// One: a few expensive tasks are not worth moving by halves.
    pub(super) fn take_from(
        &mut self,
        victim: usize,
        worth: impl Fn(&Group<T>) -> bool,
    ) -> Option<T> {
        let mut state = self.scheduler.hold(victim);
        // What it is worth is judged by what others see.
        state.show_at(self.local.now);
        state.show();
        if !worth(&state) {
            return None;
        }
        let run = match &mut self.local.away {
            Some((group, run)) if *group == victim => run,
            away => &mut away.insert((victim, Run::default())).1,
        };
        state.give(run, self.local.now)
    }
}

impl<T, U> FindTask<'_, T, U> {
    /// This worker was called to help another group and found work at home, or nothing: calls somebody else in its
    /// place, if there is still need.
    pub(super) fn pass_on(&self) {
        let (scheduler, group) = (self.scheduler, self.local.group);
        if left_out(Step::CallPassedOn) || !scheduler.parkers.take_call(self.local.worker) {
            return;
        }
        let needs =
            |other| scheduler.groups.is_overloaded(other) || scheduler.spills.may_be_in(other);
        let mut others = (0..scheduler.groups.count()).filter(|&other| other != group);
        if let Some(overloaded) = others.find(|&other| needs(other)) {
            scheduler.call_help(overloaded, 1);
        }
    }

    fn choose_victim(&self) -> Option<usize> {
        steal_order::victim(&self.scheduler.groups, self.local.group)
    }

    /// Takes this worker off the sleepers, if it is there. False: it was not, because somebody has called it meanwhile,
    /// and the wake-up token is or will be in its parker, where it shortens a later park by one round; or because the
    /// scheduler is closed, and nobody sleeps any more.
    fn leave(&mut self) -> bool {
        if !self.local.steal_order.leaves() {
            return false;
        }
        self.scheduler
            .hold(self.local.group)
            .leave(self.local.worker)
    }
}
