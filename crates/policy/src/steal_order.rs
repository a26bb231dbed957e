//! What a worker that is free does next: the steal order, level by level, and whom it helps.
//!
//! A driver asks for the next [`Attempt`], makes it, and asks again if it finds nothing. It says what came of it, where
//! that matters to what follows: [`StealOrder::found`], [`StealOrder::goes_away`], [`StealOrder::lists`].

use crate::group::{Crossing, PublishedLoads};
use chiplet_table::Class;

use crate::queue::Pace;
use crate::route::LONG_WAIT;
use crate::{Time, is_worth_stealing_while_busy};

/// A busy worker looks at one other group's queue before every eighth task: that costs a cache miss.
const LOOK_BEHIND: u32 = 8;

/// What a worker that is free tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// To take part in what a sibling has started, if something is left of it for one more. It came before any task
    /// that waits, and ends sooner.
    Join,
    /// To take the next task of this group, whose queue has fallen behind the own group's, though that is not empty.
    StealWhileBusy(usize),
    /// To take the next task of its own group ([`Group::take`](crate::group::Group::take)),
    /// [returning](StealOrder::returns) if it was away.
    Own,
    /// To stay awake for a moment ([`Group::spin`](crate::group::Group::spin)): a task that comes meanwhile starts at
    /// once.
    Spin,
    /// To join the sleepers ([`Group::rest`](crate::group::Group::rest)).
    Rest,
    /// To take part in what another group has started.
    JoinAway,
    /// To take a task of this group.
    Cross(usize),
    /// To sleep.
    Park,
}

/// Where a worker stands in the steal order.
#[derive(Clone, Copy, Debug, Default)]
pub struct StealOrder {
    stage: Stage,
    /// It runs another group's task, or has not looked at home since.
    away: bool,
    /// It has stayed awake for a while since it last found something: next it sleeps.
    spun: bool,
    /// It has joined the sleepers and not left them itself; it may have been taken off.
    listed: bool,
    looks: Looks,
}

/// What it tries next, if the attempt before has found nothing.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Join,
    StealWhileBusy,
    Own,
    JoinAgain,
    Spin,
    Rest,
    /// It is listed among the sleepers, and may help other groups.
    Listed,
    Park,
}

impl StealOrder {
    /// What to try next. `helped` is the group whose task the worker has run last besides its `own`; `joins` says
    /// whether siblings may have started something.
    #[inline]
    pub fn next(
        &mut self,
        loads: &impl PublishedLoads,
        crossing: &Crossing,
        (own, helped): (usize, Option<usize>),
        joins: bool,
        now: Time,
    ) -> Attempt {
        loop {
            match self.stage {
                Stage::Join => {
                    self.stage = Stage::StealWhileBusy;
                    // Whoever comes back from another group's task is counted as away until it has looked at its own
                    // queue.
                    if joins && !self.is_away() {
                        return Attempt::Join;
                    }
                }
                Stage::StealWhileBusy => {
                    self.stage = Stage::Own;
                    let helped = helped.filter(|_| self.is_away());
                    let looks = self.looks.next(loads, crossing, own, helped);
                    if let Some(group) = looks
                        && is_behind(loads, own, group, now)
                    {
                        return Attempt::StealWhileBusy(group);
                    }
                }
                Stage::Own => {
                    self.stage = Stage::JoinAgain;
                    return Attempt::Own;
                }
                Stage::JoinAgain => {
                    self.stage = Stage::Spin;
                    if joins {
                        return Attempt::Join;
                    }
                }
                Stage::Spin => {
                    self.stage = Stage::Rest;
                    let spun = std::mem::replace(&mut self.spun, true);
                    // Work elsewhere that is worth crossing for is not to be waited for.
                    if !spun && victim(loads, own).is_none() {
                        return Attempt::Spin;
                    }
                }
                Stage::Rest => {
                    self.stage = Stage::Park;
                    return Attempt::Rest;
                }
                Stage::Listed => {
                    self.stage = Stage::Park;
                    // Tasks that are worth crossing for come before what others have started: they have waited.
                    return victim(loads, own).map_or(Attempt::JoinAway, Attempt::Cross);
                }
                Stage::Park => return Attempt::Park,
            }
        }
    }

    /// Whether a worker that begins anew, where nothing has been started, tries its own queue first, as it mostly does:
    /// if it is not time to look at another group. Then it has tried that as [`StealOrder::next`] would have said.
    #[inline]
    pub fn begins_with_own(&mut self, crossing: &Crossing) -> bool {
        if self.is_away() || (crossing.is_priced() && !self.looks.are_not_due()) {
            return false;
        }
        self.stage = Stage::JoinAgain;
        true
    }

    /// The worker begins at the lowest level again.
    #[inline]
    pub fn again(&mut self) {
        self.stage = Stage::Join;
    }

    /// The worker has something to run, or has been woken for it, and may stay awake for a moment after it.
    #[inline]
    pub fn found(&mut self) {
        self.spun = false;
        self.again();
    }

    /// The worker looks at its own queue. True if it comes back from another group's task.
    #[inline]
    pub fn returns(&mut self) -> bool {
        std::mem::take(&mut self.away)
    }

    /// The worker runs another group's task now. True if it did not before: its group is told.
    pub fn goes_away(&mut self) -> bool {
        !std::mem::replace(&mut self.away, true)
    }

    /// Whether the worker runs another group's task, or has not looked at home since.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// The worker has joined the sleepers unless the queue is `closed`; it may help other groups if it `helps`.
    pub fn lists(&mut self, helps: bool, closed: bool) {
        self.listed = !closed;
        self.stage = match helps {
            true => Stage::Listed,
            false => Stage::Park,
        };
    }

    /// The worker leaves the sleepers. True if it had joined them: its group is told.
    pub fn leaves(&mut self) -> bool {
        std::mem::take(&mut self.listed)
    }
}

/// The group from which an idle worker of `own` should take a task, if there is any: of those that are worth crossing
/// for the one where the last task would wait longest, and of equals the nearest.
pub fn victim(loads: &impl PublishedLoads, own: usize) -> Option<usize> {
    if !loads.is_any_overloaded() {
        return None;
    }
    let nearest = loads.nearest(own).iter().copied();
    let overloaded = nearest.filter(|&group| loads.is_overloaded(group));
    // Of queues with nothing but bulk tasks, the nearest.
    let wait = |&group: &usize| loads.wait(group, Class::Interactive, Pace::Backlogged);
    overloaded.min_by_key(|group| std::cmp::Reverse(wait(group)))
}

/// Calls up to `wanted` workers to the help of `group`, of the [nearest](PublishedLoads::nearest) groups that have some
/// to spare. `call` wakes one of a group. One group may have several, so it is asked until it lends none.
pub fn call_helpers<C, F: PublishedLoads>(
    caller: &mut C,
    loads: impl Fn(&C) -> &F,
    group: usize,
    wanted: usize,
    call: impl Fn(&mut C, usize) -> bool,
) {
    let (mut called, mut at) = (0, 0);
    while called < wanted {
        let seen = loads(caller);
        let mut others = seen.nearest(group).iter().copied().enumerate().skip(at);
        let Some((next, other)) = others.find(|&(_, other)| seen.is_spare(other)) else {
            break;
        };
        at = next;
        match call(caller, other) {
            true => called += 1,
            false => at += 1,
        }
    }
}

/// A busy worker's looks at other groups' queues.
///
/// Where nobody is idle nobody crosses. What waits at a group whose workers have stopped, because the system runs
/// something else on their cores or their tasks take much longer than usual, would wait longer than anything elsewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Looks(u32);

impl Looks {
    /// Counts a task before which no look is due.
    #[inline]
    fn are_not_due(&mut self) -> bool {
        let next = self.0.wrapping_add(1);
        let not_due = !next.is_multiple_of(LOOK_BEHIND);
        if not_due {
            self.0 = next;
        }
        not_due
    }

    /// The group to look at before the next task, if it is time to: once a worker has found one behind it looks each
    /// time, until that has caught up. `helped` is the group whose task it has just run, if that is not its `own`.
    #[inline]
    fn next(
        &mut self,
        loads: &impl PublishedLoads,
        crossing: &Crossing,
        own: usize,
        helped: Option<usize>,
    ) -> Option<usize> {
        if !crossing.is_priced() {
            return None;
        }
        self.0 = self.0.wrapping_add(1);
        let nearest = loads.nearest(own);
        match helped {
            Some(group) => Some(group),
            None if self.0.is_multiple_of(LOOK_BEHIND) => {
                Some(nearest[(self.0 / LOOK_BEHIND) as usize % nearest.len()])
            }
            None => None,
        }
    }
}

/// Whether the queue of `other` has fallen behind that of `own` at `now`, and neither is empty.
pub fn is_behind(loads: &impl PublishedLoads, own: usize, other: usize, now: Time) -> bool {
    let (Some(mine), Some(next)) = (loads.next(own), loads.next(other)) else {
        return false;
    };
    // Bulk work, and what gives way to others here, gives way to theirs.
    let own_lag = if mine.fair {
        now.since(mine.since)
    } else {
        std::time::Duration::ZERO
    };
    let lag = now.since(next.since);
    next.fair && lag >= LONG_WAIT && is_worth_stealing_while_busy(own_lag, lag, loads.price(other))
}
