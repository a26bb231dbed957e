//! Rules that take a task from home know whether they take it to another socket.

use std::time::Duration;

use chiplet_policy::group::{Crossing, Group, Next, PublishedLoad, PublishedLoads, Take};
use chiplet_policy::queue::{Discipline, Pace, Run, Terms};
use chiplet_policy::{Neighbours, StealConfig, TableId, Time, route, steal_order};
use chiplet_table::Class;

use crate::common::table;

const SERVICE: Duration = Duration::from_micros(100);

/// Groups of one idle worker each, two to a socket, as they see each other.
struct Sockets {
    groups: Vec<Group<u32>>,
    nearest: Vec<Neighbours>,
    crossing: Crossing,
    now: Time,
}

impl Sockets {
    fn new() -> Self {
        let crossing = Crossing {
            steal: StealConfig::default(),
            groups: 4,
        };
        let group = |group: usize| {
            let workers = group..group + 1;
            let mut state = Group::new(crossing, Discipline::for_workers(1), workers);
            let _ = state.rest(group);
            let _ = state.unpublished();
            state
        };
        let others = |group: usize| {
            let other = group ^ 1;
            let far = (0..4).filter(|&of| of / 2 != group / 2);
            Neighbours::new(std::iter::once(other).chain(far).collect(), 1)
        };
        let mut all = Self {
            groups: (0..4).map(group).collect(),
            nearest: (0..4).map(others).collect(),
            crossing,
            now: Time::from_millis(1),
        };
        all.learns(0);
        all
    }

    /// The group is busy, and knows what a task of table 0 takes.
    fn learns(&mut self, group: usize) {
        self.push_to(group, table(0), Class::Interactive, 1);
        let mut run = Run::default();
        assert!(matches!(
            self.groups[group].take(group, false, &mut run, self.now, |_, _, _| ()),
            Take::Task { .. }
        ));
        self.now += SERVICE;
        run.end(self.now);
        let _ = self.groups[group].take(group, false, &mut run, self.now, |_, _, _| ());
    }

    fn push(&mut self, of: TableId, class: Class, tasks: u32) {
        self.push_to(0, of, class, tasks);
    }

    fn push_to(&mut self, group: usize, of: TableId, class: Class, tasks: u32) {
        let terms = Terms {
            class,
            ..Terms::default()
        };
        for task in 0..tasks {
            assert!(self.groups[group].push(of, &terms, task, self.now).is_ok());
        }
    }

    fn after(&mut self, time: Duration) {
        self.now += time;
        let _ = self.groups[0].look(self.now);
    }

    fn load(&self, group: usize) -> &PublishedLoad {
        self.groups[group].published_load()
    }

    /// The workers that would help group 0: its neighbour's, and one of the other socket's.
    fn help(&self) -> [bool; 2] {
        [1, 2].map(|own| steal_order::victim(self, own) == Some(0))
    }
}

impl PublishedLoads for Sockets {
    fn queued(&self, group: usize) -> u32 {
        self.groups[group].queue.len() as u32
    }

    fn work(&self, group: usize, class: Class, pace: Pace) -> u64 {
        self.load(group).work[pace as usize][class as usize]
    }

    fn at_work_in(&self, group: usize) -> usize {
        self.groups[group].queue.workers()
    }

    fn price(&self, group: usize) -> Duration {
        Duration::from_nanos(self.load(group).price)
    }

    fn next(&self, group: usize) -> Option<Next> {
        self.load(group).next
    }

    fn is_overloaded(&self, group: usize) -> bool {
        self.load(group).overloaded
    }

    fn is_any_overloaded(&self) -> bool {
        self.groups
            .iter()
            .any(|group| group.published_load().overloaded)
    }

    fn is_spare(&self, group: usize) -> bool {
        self.load(group).spare
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn nearest(&self, group: usize) -> &Neighbours {
        &self.nearest[group]
    }
}

#[test]
fn another_socket_helps_at_the_same_price() {
    // A cold cache costs one service time.
    for (tasks, helps) in [(1, false), (2, true)] {
        let mut sockets = Sockets::new();
        sockets.push(table(0), Class::Interactive, tasks);
        sockets.after(Duration::ZERO);
        assert_eq!(sockets.help(), [helps; 2], "{tasks} tasks");
    }
}

#[test]
fn the_longest_wait_is_helped_first_and_of_equals_the_nearest() {
    for (tasks, victim) in [([9, 9], 1), ([9, 10], 2), ([10, 9], 1)] {
        let mut sockets = Sockets::new();
        for (group, tasks) in (1..).zip(tasks) {
            sockets.learns(group);
            sockets.push_to(group, table(0), Class::Interactive, tasks);
            let _ = sockets.groups[group].look(sockets.now);
        }
        assert_eq!(steal_order::victim(&sockets, 0), Some(victim));
    }
}

#[test]
fn what_has_waited_too_long_is_taken_from_wherever_somebody_idles() {
    for class in [Class::Interactive, Class::Bulk] {
        let mut sockets = Sockets::new();
        sockets.push(table(0), class, 1);
        sockets.after(Duration::from_micros(3_900));
        assert_eq!(sockets.help(), [false, false], "{class:?}");
        sockets.after(Duration::from_micros(200));
        assert_eq!(sockets.help(), [true, true], "{class:?}");
    }
}

#[test]
fn bulk_work_and_tables_that_nothing_is_known_of_are_helped_far_too() {
    let mut sockets = Sockets::new();
    sockets.push(table(0), Class::Bulk, 9);
    sockets.after(Duration::ZERO);
    assert_eq!(sockets.help(), [true, true]);
    let mut sockets = Sockets::new();
    sockets.push(table(7), Class::Interactive, 9);
    sockets.after(Duration::ZERO);
    assert_eq!(sockets.help(), [true, true]);
}

#[test]
fn the_nearest_are_called_first() {
    let called = |sockets: &Sockets| {
        let mut called = Vec::new();
        let mut caller = &mut called;
        let call = |called: &mut &mut Vec<usize>, other: usize| {
            let is_new = !called.contains(&other);
            if is_new {
                called.push(other);
            }
            is_new
        };
        steal_order::call_helpers(&mut caller, |_| sockets, 0, 9, call);
        called
    };
    let mut sockets = Sockets::new();
    sockets.push(table(0), Class::Interactive, 3);
    sockets.after(Duration::ZERO);
    assert_eq!(called(&sockets), [1, 2, 3]);
}

#[test]
fn queues_are_evened_out_within_a_socket() {
    let mut sockets = Sockets::new();
    sockets.push(table(0), Class::Interactive, 60);
    sockets.after(Duration::ZERO);
    for slot in 0..20 {
        let of = (table(slot), Class::Interactive, Pace::Within);
        let other = route::evens_out(&sockets, &sockets.crossing, 0, of);
        assert_eq!(other, Some(1), "table {slot}");
    }
    // Where a socket has one domain, another one is all there is, at its price.
    sockets.nearest[0] = Neighbours::new(vec![2, 3], 0);
    let of = (table(0), Class::Interactive, Pace::Within);
    assert!(route::evens_out(&sockets, &sockets.crossing, 0, of).is_some());
}
