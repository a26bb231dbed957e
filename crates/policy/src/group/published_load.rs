//! What groups may see of each other without asking.

use std::time::Duration;

use chiplet_table::Class;

use crate::queue::Pace;
use crate::{Neighbours, StealConfig, Time};

/// When work may leave its group; the same for all groups of an executor.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// The price of that.
    pub steal: StealConfig,
    /// How many groups there are.
    pub groups: usize,
}

impl Crossing {
    /// Whether anything may ever leave its group, so that groups show each other how they stand.
    #[inline]
    pub fn is_possible(&self) -> bool {
        self.groups > 1
    }

    /// Whether tasks may go from domain to domain at a price.
    #[inline]
    pub fn is_priced(&self) -> bool {
        self.is_possible() && self.steal.is_ever()
    }
}

/// How a group looks from outside. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishedLoad {
    /// What a task that comes now would wait for, as far as is known: by its table's [`Pace`], then by its [`Class`].
    pub work: [[u64; 2]; 2],
    /// What a cold cache would cost the next task, or the last one if none waits.
    pub price: u64,
    /// The next task, if one waits.
    pub next: Option<Next>,
    /// The queue is worth crossing for.
    pub overloaded: bool,
    /// There is an idle worker that may help others.
    pub spare: bool,
}

/// The task that is next in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Since when it waits.
    pub since: Time,
    /// Whether others should care: it is an interactive one whose table is not backlogged.
    pub fair: bool,
}

/// What of a group's [`PublishedLoad`] others have not been shown.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpublished {
    /// [`PublishedLoad::work`], [`PublishedLoad::price`] and [`PublishedLoad::next`].
    pub tasks: bool,
    /// [`PublishedLoad::overloaded`].
    pub overloaded: bool,
    /// [`PublishedLoad::spare`].
    pub spare: bool,
}

/// The groups of an executor as they see each other: a little old.
pub trait PublishedLoads {
    /// Tasks that wait in `group`.
    fn queued(&self, group: usize) -> u32;

    /// What a task of `class` that comes to `group` now would wait for, in nanoseconds.
    fn work(&self, group: usize, class: Class, pace: Pace) -> u64;

    /// Workers of `group` that are at work.
    fn at_work_in(&self, group: usize) -> usize;

    /// What a cold cache would cost the next task of `group`, or has cost the last.
    fn price(&self, group: usize) -> Duration;

    /// The task that is next in `group`.
    fn next(&self, group: usize) -> Option<Next>;

    /// Whether the queue of `group` is worth crossing for.
    fn is_overloaded(&self, group: usize) -> bool;

    /// Whether any queue is worth crossing for.
    fn is_any_overloaded(&self) -> bool;

    /// Whether `group` has an idle worker that may help others.
    fn is_spare(&self, group: usize) -> bool;

    /// How many groups there are.
    fn groups(&self) -> usize;

    /// Every other group, the nearest first ([`neighbours`](crate::neighbours)).
    fn nearest(&self, group: usize) -> &Neighbours;

    /// Whether nobody of `group` is at work.
    fn is_vacant(&self, group: usize) -> bool {
        self.at_work_in(group) == 0
    }

    /// How long a task of `class` that comes to `group` now would wait.
    #[inline]
    fn wait(&self, group: usize, class: Class, pace: Pace) -> Duration {
        let workers = self.at_work_in(group).max(1) as u64;
        Duration::from_nanos(self.work(group, class, pace) / workers)
    }
}
