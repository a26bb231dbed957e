//! What a queue is told with a task besides its table, and how it follows the tasks that it hands out.

use std::time::Duration;

use chiplet_table::Class;

use super::flows::{Flows, NOWHERE, Place};
use super::service::Took;
use super::slots::Slot;
use crate::{TableId, Time, is_too_late};

/// On which terms a task waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// How urgent it is.
    pub class: Class,
    /// The table's weight, in `0.01..=100.0`.
    pub weight: f32,
    /// Tasks of the table that the queue may hold; `None`: as many as of any table.
    pub limit: Option<usize>,
    /// Queries that the task answers: more than 1 if it is part of a batch. Service times are learnt by query.
    pub queries: u32,
    /// Its deadline, if it is not to be begun where that cannot be met.
    pub expires: Option<Time>,
    /// The task goes on with work of which a part has been accepted before. A closed queue takes it while others wait
    /// there: whoever runs those runs it, too. With nobody else there it has to make way for nobody.
    pub goes_on: bool,
    /// Where the queue keeps what it knows of the table ([`Queue::place_of`](super::Queue::place_of)), as far as the
    /// caller knows: then the queue need not look the table up.
    pub place: Option<u32>,
}

/// When a task expires that is always begun.
pub(super) const NEVER: u64 = u64::MAX;

impl Terms {
    pub(super) fn expiry(&self) -> u64 {
        self.expires.map_or(NEVER, Time::as_nanos)
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            class: Class::Interactive,
            weight: 1.0,
            limit: None,
            queries: 1,
            expires: None,
            goes_on: false,
            place: None,
        }
    }
}

/// What a worker runs of one queue: task after task of one table, and how long the present one takes.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    table: TableId,
    /// Where the flow of that table was, if there was a task.
    pub(super) place: Place,
    pub(super) class: Class,
    pub(super) queries: u32,
    pub(super) expires: u64,
    /// How long the task was taken to last, in nanoseconds.
    pub(super) charged: u64,
    /// Tasks of the table that may follow.
    pub(super) left: u32,
    at: At,
    /// When the task came.
    came: u64,
    began: u64,
    ended: u64,
    /// The task was not begun because of its deadline.
    pub(super) missed: bool,
    /// Nanoseconds that others have given to the task, less those that it has waited for something else.
    besides: i64,
    /// How long the present task will take, if it has a deadline, others wait for it and that is known.
    pub(super) expected: Option<Duration>,
}

/// How far a worker is with the task that it took last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The queue knows all of it, or there is none.
    Nothing,
    Begun,
    Ended,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            table: TableId::default(),
            place: NOWHERE,
            class: Class::Interactive,
            queries: 0,
            expires: NEVER,
            charged: 0,
            left: 0,
            at: At::Nothing,
            came: 0,
            began: 0,
            ended: 0,
            missed: false,
            besides: 0,
            expected: None,
        }
    }
}

impl Run {
    /// Where the flow of the table is that the worker has run, unless that is forgotten.
    #[inline(always)]
    pub(super) fn last(&self, flows: &Flows) -> Place {
        match flows.list.get(self.place as usize) {
            Some(row) if row.table == self.table => self.place,
            _ => NOWHERE,
        }
    }

    /// Says that a task of `table`, whose flow is at `place`, which `came` then, has been taken at `now`, after one from
    /// `last`. `length` is how many of one table may follow each other.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        (table, place, last): (TableId, Place, Place),
        (queries, expires): (u32, u64),
        charged: u64,
        class: Class,
        length: u32,
        [came, now]: [u64; 2],
    ) {
        self.left = match place == last && self.left > 0 {
            true => self.left - 1,
            false => length.saturating_sub(1),
        };
        self.table = table;
        self.place = place;
        self.class = class;
        self.queries = queries;
        self.expires = expires;
        self.charged = charged;
        (self.came, self.began) = (came, now);
        (self.at, self.missed) = (At::Begun, false);
    }

    /// Whether the task that it takes at `now`, and that usually takes so long, is too late to begin, though it has not
    /// expired.
    pub(super) fn is_too_late(&self, now: Time, usual: u64) -> bool {
        let [waited, left] = [
            now.as_nanos().saturating_sub(self.came),
            self.expires.saturating_sub(now.as_nanos()),
        ];
        let [waited, left, usual] = [waited, left, usual].map(Duration::from_nanos);
        !left.is_zero() && is_too_late(waited, left, usual)
    }

    /// `task`, which was taken and not begun, as it waited.
    pub(super) fn slot<T>(&self, task: T) -> Slot<T> {
        Slot::new(task, self.came, (self.queries, self.expires), self.place)
    }

    /// Says that the task which was taken is not begun, because its deadline has passed or is too near. A task that is
    /// dead for another reason says nothing of its table.
    pub fn miss(&mut self) {
        self.missed = true;
    }

    /// Says that the task which was taken starts at `now`. What passed since it was taken, for the last task's end or
    /// another that turned out to be dead, is not its time. Without this it starts when it is taken.
    pub fn start(&mut self, now: Time) {
        self.began = now.as_nanos();
    }

    /// Says that what the worker was running ended at `now`. A query that was cut ends with the last unit that its
    /// worker ran of it.
    pub fn end(&mut self, now: Time) {
        self.ends(now, 0);
    }

    /// [`Run::end`] of a task to which others have given time besides (`helped`), and which has waited for something
    /// that takes no processor (`blocked`).
    pub fn end_shared(&mut self, now: Time, helped: Duration, blocked: Duration) {
        let besides = match helped == blocked {
            true => 0,
            false => helped.as_nanos() as i64 - blocked.as_nanos() as i64,
        };
        self.ends(now, besides);
    }

    #[inline]
    fn ends(&mut self, now: Time, besides: i64) {
        if self.at == At::Begun {
            (self.at, self.ended, self.besides) = (At::Ended, now.as_nanos(), besides);
        }
    }

    /// Takes the present task out, which ends elsewhere and later: whoever ends it says so with [`Run::end_shared`] on
    /// what is returned and hands that to [`Queue::end_late`](super::Queue::end_late).
    #[must_use]
    pub fn hand_over(&mut self) -> Self {
        let task = *self;
        self.at = At::Nothing;
        task
    }

    /// How long the present task will take, as far as is known, if it has a deadline and others wait meanwhile.
    pub fn expected(&self) -> Option<Duration> {
        self.expected.filter(|_| self.expires < NEVER)
    }

    /// Whether a task was taken whose end has not been told; once. With it what that took, unless it was not begun.
    #[inline]
    pub(super) fn outcome(&mut self) -> Option<Option<Took>> {
        let lasted = self.ended.saturating_sub(self.began);
        match std::mem::replace(&mut self.at, At::Nothing) {
            At::Nothing => None,
            At::Begun => Some(None),
            At::Ended => Some(Some(Took {
                spent: lasted.saturating_add_signed(self.besides),
                lasted,
                ended: Time::from_nanos(self.ended),
            })),
        }
    }
}
