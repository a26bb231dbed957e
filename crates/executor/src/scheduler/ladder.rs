//! Finding work: the steal ladder, and going to sleep at its end. The sleeping half of `README.md`.

use chiplet_policy::group::{Faces, Group, LOOK, Rest, Take};
use chiplet_policy::ladder::Attempt;
use chiplet_policy::queue::Run;
use chiplet_policy::{Rung, Time, ladder};

use super::{Found, Hub, Invite, Local, call};
use crate::sync::atomic::Ordering;
use crate::sync::{PAUSES, Step, left_out, now, pause};

/// A spinning worker looks at the other groups in every eighth round: their counters are on lines that those write.
const LOOK_AWAY: u32 = 8;

/// A worker that was woken stays awake this much longer: a coarse search takes some 10 to 50 us.
const WOKEN_PAUSES: u32 = 4;

/// What the first two rungs of the ladder hold for a worker.
pub(super) enum Near<T, U> {
    Found(Found<T, U>),
    /// Nothing, because it is to stand by.
    OffDuty,
    Nothing,
}

/// What became of a worker that found nothing near.
pub(super) enum Resting<T, U> {
    Found(Found<T, U>),
    LookAgain,
    Park,
    Stop,
}

impl<T, U: Invite> Hub<T, U> {
    /// The next thing for this worker to run; parks while there is nothing it may run. `None` when the hub is
    /// closed and nothing is left.
    pub(crate) fn next(&self, local: &mut Local<U>) -> Option<Found<T, U>> {
        loop {
            match self.next_near(local) {
                Near::Found(found) => {
                    self.pass_on(local);
                    local.found();
                    return Some(found);
                }
                Near::OffDuty => {
                    if !self.stand_by(local) {
                        return None;
                    }
                }
                Near::Nothing => match self.rest(local) {
                    Resting::Found(found) => {
                        local.found();
                        return Some(found);
                    }
                    Resting::LookAgain => {}
                    Resting::Park => self.sleep(local),
                    Resting::Stop => return None,
                },
            }
        }
    }

    /// The first two rungs: this worker's own and its siblings' work.
    pub(super) fn next_near(&self, local: &mut Local<U>) -> Near<T, U> {
        if let Some((invitation, rung)) = local.postponed.take() {
            return self.take_before(local, invitation, rung);
        }
        if let Some(invitation) = self.own_invitation(local) {
            return Near::Found(Found::Invitation(invitation, Rung::Own));
        }
        local.ladder.again();
        loop {
            match self.attempt(local) {
                Attempt::Join => {
                    if let Some(invitation) = self.siblings_invitation(local) {
                        self.leave_task_to_others(local.group);
                        return Near::Found(Found::Invitation(invitation, Rung::Domain));
                    }
                }
                Attempt::Relieve(victim) => {
                    if let Some((task, rung)) = self.relieve(local, victim) {
                        return Near::Found(Found::Task(task, rung));
                    }
                }
                Attempt::Own => match self.take_own(local) {
                    Near::Nothing => {}
                    near => return near,
                },
                Attempt::Spin => {
                    self.spin(local);
                    local.ladder.again();
                }
                Attempt::Rest => return Near::Nothing,
                attempt => unreachable!("{attempt:?} comes after resting"),
            }
        }
    }

    #[inline]
    fn attempt(&self, local: &mut Local<U>) -> Attempt {
        let helped = local.away.as_ref().map(|(group, _)| *group);
        let (of, joins) = ((local.group, helped), self.may_join(local.group));
        let crossing = &self.rules.crossing;
        local.ladder.next(self, crossing, of, joins, local.now)
    }

    /// A task of this worker's own group, for which it has left what `invitation` is for; or that, if somebody else has taken
    /// the task. While it runs the task others may take its place.
    fn take_before(&self, local: &mut Local<U>, invitation: U, rung: Rung) -> Near<T, U> {
        match self.take_own(local) {
            Near::Nothing => Near::Found(Found::Invitation(invitation, rung)),
            near => {
                if !left_out(Step::PostponedInvites) {
                    self.invite(local, std::iter::once(invitation), 1);
                }
                near
            }
        }
    }

    fn take_own(&self, local: &mut Local<U>) -> Near<T, U> {
        let (task, calls) = {
            let mut state = self.hold(local.group);
            let returns = local.ladder.returns();
            match state.take(local.worker, returns, &mut local.run, local.now) {
                Take::OffDuty => return Near::OffDuty,
                Take::Nothing => return Near::Nothing,
                Take::Task { task, calls } => {
                    local.ladder.stays();
                    (task, calls)
                }
            }
        };
        if calls {
            self.call_help(local.group, 1);
        }
        Near::Found(Found::Task(task, Rung::Own))
    }

    /// The worker found nothing near: stays awake for a moment before it goes to sleep. A task that comes meanwhile starts at
    /// once and costs its submitter no system call.
    ///
    /// It is counted, so that a push need not wake a sleeper for a task that this worker is about to see. When it stops
    /// looking it is not counted any more, and it looks at the queue once more after that.
    fn spin(&self, local: &mut Local<U>) {
        let group = &self.groups[local.group];
        if !group.state.lock().spin() {
            return;
        }
        for round in 0..std::mem::replace(&mut local.pauses, PAUSES) {
            pause(round);
            if self.queued(local.group) > 0
                || self.invitations_within(local, group.threads())
                || (round % LOOK_AWAY == LOOK_AWAY - 1
                    && self.crosses()
                    && self.choose_victim(local).is_some())
            {
                break;
            }
        }
        if !left_out(Step::SpinEnds) {
            group.state.lock().stop_spinning();
        }
    }

    /// The worker found nothing near: joins the sleepers, looks once more at all that others may have made
    /// available before they could see it there, and is then to park.
    pub(super) fn rest(&self, local: &mut Local<U>) -> Resting<T, U> {
        let closed = {
            let mut state = self.hold(local.group);
            let call = self.seats[local.worker].call.load(Ordering::Acquire);
            let returned = local.ladder.has_returned();
            match state.rest(local.worker, returned, call == call::OVERDUE) {
                Rest::LookAgain => return Resting::LookAgain,
                Rest::Listed {
                    goes,
                    spares,
                    closed,
                } => {
                    local.ladder.lists(goes, spares, closed);
                    closed
                }
            }
        };
        let siblings = self.groups[local.group].threads();
        if !left_out(Step::SweepBeforeParking) && self.invitations_within(local, siblings) {
            self.leave(local);
            return Resting::LookAgain;
        }
        loop {
            let tried = match self.attempt(local) {
                Attempt::JoinAway => self.join_spilled(local, closed),
                Attempt::Cross(victim) => Some(self.cross(local, victim, closed)),
                _ => break,
            };
            if let Some(rest) = tried {
                return rest;
            }
        }
        if closed {
            return match self.lingers(local) {
                true => Resting::LookAgain,
                false => Resting::Stop,
            };
        }
        self.pass_on(local);
        Resting::Park
    }

    /// Whether this worker has to stay though the hub is closed: something waits elsewhere, and nobody else makes looks by
    /// time any more. Waits a moment, until that may be worth crossing for or whoever empties a queue ends the wait
    /// ([`Hub::show`]).
    fn lingers(&self, local: &mut Local<U>) -> bool {
        let mut waiting = false;
        if self.rules.crossing.is_priced() {
            for group in (0..self.groups.len()).filter(|&group| group != local.group) {
                if self.queued(group) > 0 {
                    waiting = true;
                    self.hold(group).show_at(self.clock.now());
                }
            }
        }
        if waiting && self.choose_victim(local).is_none() {
            let until = now() + LOOK;
            self.seats[local.worker].parker.park_until(until);
        }
        local.now = self.clock.now();
        waiting
    }

    /// Parks, and is no sleeper any more when it returns: a token left by an earlier call ends the park without
    /// anybody having taken this worker off the list, and a worker that runs must not be on it.
    pub(super) fn sleep(&self, local: &mut Local<U>) {
        self.seats[local.worker].parker.park();
        self.wakes(local, self.clock.now());
    }

    /// This worker has been asleep and is awake at `now`.
    pub(super) fn wakes(&self, local: &mut Local<U>, now: Time) {
        local.now = now;
        // Whoever woke it has work, or will have it in a moment: a query that is about to be cut.
        local.ladder.wakes();
        local.pauses = PAUSES * WOKEN_PAUSES;
        if !left_out(Step::WakingLeavesList) {
            self.leave(local);
        }
    }

    /// The third rung: another group's task, if it is worth the cold cache.
    fn cross(&self, local: &mut Local<U>, victim: usize, closed: bool) -> Resting<T, U> {
        // Called meanwhile for this group's own work: that comes first.
        if !self.leave(local) && !closed {
            return Resting::LookAgain;
        }
        let needy = |_: &Local<U>, state: &Group<T>| state.face().needy;
        let Some(task) = self.take_from(victim, local, needy) else {
            return Resting::LookAgain;
        };
        self.answer_call(local);
        self.go_away(local);
        // Stealing makes the group spare as going to sleep does, so it looks at all queues as `rest` does.
        if self.choose_victim(local).is_some() {
            self.call_helper(local.group, call::HELP);
        }
        let own = self.groups[local.group].domain;
        Resting::Found(Found::Task(task, self.rung(own, victim)))
    }

    /// Takes part in what another group has started and no cache keeps. Tasks that are worth crossing for come first: they
    /// have waited.
    fn join_spilled(&self, local: &mut Local<U>, closed: bool) -> Option<Resting<T, U>> {
        if !self.is_spilled_for(local.group) {
            return None;
        }
        if !self.leave(local) && !closed {
            return Some(Resting::LookAgain);
        }
        let Some((invitation, rung)) = self.spilled_invitation(local) else {
            return Some(Resting::LookAgain);
        };
        self.answer_call(local);
        self.go_away(local);
        Some(Resting::Found(Found::Invitation(invitation, rung)))
    }

    /// This worker runs another group's task now.
    pub(super) fn go_away(&self, local: &mut Local<U>) {
        if local.ladder.goes_away() {
            self.hold(local.group).go_away();
        }
    }

    /// Takes a task of another group, if that is still `worth` it: others may have shortened its queue since the look. One:
    /// a few expensive tasks are not worth moving by halves.
    pub(super) fn take_from(
        &self,
        victim: usize,
        local: &mut Local<U>,
        worth: impl Fn(&Local<U>, &Group<T>) -> bool,
    ) -> Option<T> {
        let mut state = self.hold(victim);
        // What it is worth is judged by what others see.
        state.show_at(local.now);
        state.show();
        if !worth(local, &state) {
            return None;
        }
        let run = match &mut local.away {
            Some((group, run)) if *group == victim => run,
            away => &mut away.insert((victim, Run::default())).1,
        };
        state.give(run, local.now)
    }
}

impl<T, U> Hub<T, U> {
    fn choose_victim(&self, local: &Local<U>) -> Option<usize> {
        ladder::victim(self, local.group)
    }

    /// Whether anything may ever leave its group.
    pub(super) fn crosses(&self) -> bool {
        self.rules.crossing.is_possible()
    }

    /// Takes this worker off the sleepers, if it is there. False: it was not, because somebody has called it meanwhile,
    /// and the wake-up token is or will be in its parker, where it shortens a later park by one round; or because the
    /// hub is closed, and nobody sleeps any more.
    fn leave(&self, local: &mut Local<U>) -> bool {
        if !local.ladder.leaves() {
            return false;
        }
        self.hold(local.group).leave(local.worker)
    }
}
