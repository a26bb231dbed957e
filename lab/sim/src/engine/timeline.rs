//! Virtual time: what happens when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use chiplet_policy::Time;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A query comes.
    Arrive,
    /// A client of a table's own asks.
    Ask(usize),
    /// The deadline of the query in this place that has this number passes.
    Due(usize, u64),
    /// Things are counted from now on.
    Begin,
    /// A worker is through with what it does, or wakes up.
    Work(usize),
    /// The planner looks.
    Tick,
    /// The timed look at tasks that wait.
    Look,
}

/// Events to come, and the moment of the last one.
pub(super) struct Timeline {
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
    /// What orders the events of one moment, instead of the order in which they were made.
    order: Option<fn(Event) -> u64>,
}

impl Timeline {
    pub(super) fn new(order: Option<fn(Event) -> u64>) -> Self {
        Self {
            now: 0,
            events: BinaryHeap::new(),
            made: 0,
            order,
        }
    }

    /// Nanoseconds since the run began.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// It is `now`, before the next event.
    pub(super) fn pass(&mut self, now: u64) {
        self.now = now;
    }

    pub(super) fn at(&mut self, moment: u64, event: Event) {
        self.made += 1;
        let order = self.order.map_or(self.made, |order| order(event));
        self.events.push(Reverse((moment, order, event)));
    }

    pub(super) fn after(&mut self, nanos: u64, event: Event) {
        self.at(self.now + nanos, event);
    }

    /// When the next event happens.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.events.peek().map(|event| event.0.0)
    }

    /// The next event, if it happens by `longest`: it is its time now.
    pub(super) fn next(&mut self, longest: u64) -> Option<Event> {
        let Reverse((at, _, event)) = self.events.pop()?;
        if at > longest {
            return None;
        }
        self.now = at;
        Some(event)
    }
}
