//! The part of a worker that only its own thread touches.

use std::time::Duration;

use chiplet_policy::queue::Run;
use chiplet_policy::steal_order::StealOrder;
use chiplet_policy::{StealLevel, Time};

/// Times that are left out in a row, or forgiven, at most.
const MOST: i32 = 8;

/// How often a thread without work, or without its answer, stays awake for a moment before it sleeps.
///
/// After a time in vain it leaves out as many as have been in vain in a row. Each time that was not in vain before
/// those forgives one of them. So where nothing ever comes in time, it stays awake a ninth of the times. Where
/// something comes again, that is found out soon. Where something mostly comes, a few times in vain change nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpinBudget {
    /// Times in vain in a row; of times not in vain the negative.
    in_vain: i32,
    left_out: i32,
}

impl SpinBudget {
    /// Whether to stay awake this time.
    pub(super) fn tries(&mut self) -> bool {
        let tries = self.left_out <= 0;
        self.left_out -= i32::from(!tries);
        tries
    }

    /// It has stayed awake, and what it waited for `came`.
    pub(super) fn note(&mut self, came: bool) {
        self.in_vain = match came {
            true => (self.in_vain.min(0) - 1).max(-MOST),
            false => (self.in_vain + 1).min(MOST),
        };
        self.left_out = self.in_vain;
    }
}

/// The part of a worker that only its own thread touches.
pub(crate) struct Local<U> {
    pub(crate) worker: usize,
    /// The worker itself, or the one for which it stands in.
    pub(super) place: usize,
    pub(crate) group: usize,
    pub(super) run: Run,
    /// Tasks of its group that have ended, and of which the queue does not know yet.
    pub(super) ended: Vec<Run>,
    /// An invitation that it gave way with, and the level that it came from: there is more to do.
    pub(super) postponed: Option<(U, StealLevel)>,
    /// The group that it last took a task from besides its own, and what it ran of it.
    pub(super) away: Option<(usize, Run)>,
    /// A recent time: when the last task ended or the last park did. Spares asking the clock for each take.
    pub(crate) now: Time,
    /// It has been woken, and found nothing to run since.
    pub(super) woken: bool,
    pub(super) spin_budget: SpinBudget,
    pub(super) steal_order: StealOrder,
}

impl<U> Local<U> {
    pub(super) fn new((worker, place): (usize, usize), group: usize, now: Time) -> Self {
        Self {
            worker,
            place,
            group,
            postponed: None,
            run: Run::default(),
            ended: Vec::new(),
            away: None,
            now,
            woken: false,
            spin_budget: SpinBudget::default(),
            steal_order: StealOrder::default(),
        }
    }

    /// It has something to run, and may spin again after it.
    pub(super) fn found(&mut self) {
        self.steal_order.found();
        self.woken = false;
    }

    /// It runs a task of its group that had been taken ahead by `run`.
    #[inline]
    pub(super) fn goes_on(&mut self, run: Run) {
        let ended = std::mem::replace(&mut self.run, run);
        self.ended.push(ended);
    }

    /// Says that it is `now`: when a task has ended, to which others have given time besides (`helped`), and which has
    /// waited for something else meanwhile (`blocked`).
    #[inline]
    pub(crate) fn end_task(&mut self, now: Time, helped: Duration, blocked: Duration) {
        self.now = now;
        self.present().end_shared(now, helped, blocked);
    }

    /// Says that it is `now`, when this worker has done its part of a task in which others still take part, and has
    /// waited for something else meanwhile (`blocked`). Whoever leaves that last says what it took:
    /// [`Scheduler::end_late`](super::Scheduler::end_late).
    pub(crate) fn hand_over(&mut self, now: Time, blocked: Duration) -> Late {
        self.now = now;
        let away = self.away.as_ref().filter(|_| self.steal_order.is_away());
        Late {
            group: away.map_or(self.group, |(group, _)| *group),
            away: away.is_some(),
            run: self.present().hand_over(),
            ended: now,
            blocked,
        }
    }

    /// What it runs of the group that its task is from.
    #[inline]
    pub(crate) fn present(&mut self) -> &mut Run {
        match &mut self.away {
            Some((_, run)) if self.steal_order.is_away() => run,
            _ => &mut self.run,
        }
    }

    /// Keeps an invitation for after the task that goes before it.
    pub(crate) fn postpone(&mut self, invitation: U, level: StealLevel) {
        debug_assert!(self.postponed.is_none(), "one thing is done at a time");
        self.postponed = Some((invitation, level));
    }

    /// How long the task that it has taken will take, as far as is known, if others wait meanwhile.
    pub(crate) fn expected(&mut self) -> Option<Duration> {
        self.present().expected()
    }
}

/// A task of which its worker has done its part, until the last of those who help leaves it.
pub(crate) struct Late {
    /// The group whose queue it was taken from, and whether by a worker of another.
    pub(super) group: usize,
    pub(super) away: bool,
    pub(super) run: Run,
    /// When its worker had done its part.
    pub(super) ended: Time,
    pub(super) blocked: Duration,
}

#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
impl Default for Late {
    /// Of no queue.
    fn default() -> Self {
        Self {
            group: 0,
            away: false,
            run: Run::default(),
            ended: Time::ZERO,
            blocked: Duration::ZERO,
        }
    }
}

/// Something to run, and the level of the steal order it came from.
pub(crate) enum Found<T, U> {
    Task(T, StealLevel),
    Invitation(U, StealLevel),
}
