//! Short tasks that a worker takes ahead.

use std::time::Duration;

use chiplet_table::Class;

use crate::group::{Crossing, Group, Rest, Take};
use crate::queue::{Discipline, Effort, Run, Terms};
use crate::{StealConfig, TableId, Time};

fn table(slot: u32) -> TableId {
    TableId {
        slot,
        generation: 0,
    }
}

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1_000)
}

/// A group of so many workers that knows: tasks of table 0 take 3 us, those of table 1 take 30. They have come at once.
struct Known {
    group: Group<u32>,
    run: Run,
}

impl Known {
    fn new(workers: usize) -> Self {
        let crossing = Crossing {
            steal: StealConfig::default(),
            groups: 1,
        };
        let group = Group::new(crossing, Discipline::for_workers(workers), 0..workers);
        let mut known = Self {
            group,
            run: Run::default(),
        };
        for (slot, micros) in [(0, 3), (1, 30)] {
            known.push(slot, 0, &Terms::default());
            known.take();
            known.run.end(at(micros));
        }
        assert!(matches!(
            known.group.take(0, false, &mut known.run, at(0)),
            Take::Nothing
        ));
        known
    }

    fn push(&mut self, slot: u32, task: u32, terms: &Terms) {
        let pushed = self.group.push(table(slot), terms, task, at(task.into()));
        assert!(pushed.is_ok());
    }

    /// Pushes tasks of table 0.
    fn push_short(&mut self, tasks: std::ops::Range<u32>) {
        for task in tasks {
            self.push(0, task, &Terms::default());
        }
    }

    fn take(&mut self) -> u32 {
        match self.group.take(0, false, &mut self.run, at(0)) {
            Take::Task { task, .. } => task,
            nothing => panic!("{nothing:?}"),
        }
    }

    fn take_ahead(&mut self) -> Vec<(u32, Run)> {
        let mut ahead = Vec::new();
        let most = self.group.part_ahead(&self.run);
        let keep = |task, run| ahead.push((task, run));
        self.group.prefetch(&self.run, most, at(0), keep);
        ahead
    }

    /// What is taken ahead after the first task that waits.
    fn ahead(&mut self) -> Vec<u32> {
        self.take();
        let ahead = self.take_ahead();
        ahead.iter().map(|&(task, _)| task).collect()
    }
}

#[test]
fn tasks_are_taken_ahead_as_they_came_while_all_are_short_together() {
    let mut known = Known::new(1);
    known.push_short(0..10);
    assert_eq!(known.ahead(), [1, 2]);
    // One that is not short is a worker's only one, and others go ahead up to it.
    let mut known = Known::new(1);
    known.push(1, 0, &Terms::default());
    known.push_short(1..3);
    known.push(1, 3, &Terms::default());
    known.push_short(4..6);
    assert_eq!(known.ahead(), []);
    assert_eq!(known.ahead(), [2]);
    assert_eq!(known.ahead(), []);
}

#[test]
fn a_worker_takes_its_part_ahead_and_none_while_a_sibling_is_idle() {
    let mut known = Known::new(2);
    known.push_short(0..4);
    assert_eq!(known.ahead(), [1]);
    assert_eq!(known.ahead(), [], "one of one is more than a half");
    let mut known = Known::new(2);
    assert!(matches!(
        known.group.rest(1, false, false),
        Rest::Listed { .. }
    ));
    known.push_short(0..12);
    assert_eq!(known.ahead(), []);
}

#[test]
fn nothing_is_taken_ahead_that_is_unknown_has_a_deadline_or_waits_beside_bulk() {
    let bulk = Terms {
        class: Class::Bulk,
        ..Terms::default()
    };
    let limited = Terms {
        effort: Some(Effort::new(Duration::from_millis(5), 1, false)),
        ..Terms::default()
    };
    for (slot, terms) in [(2, &Terms::default()), (0, &limited), (0, &bulk)] {
        let mut known = Known::new(1);
        known.push_short(0..1);
        known.push(slot, 1, terms);
        assert_eq!(known.ahead(), [], "{terms:?}");
        assert_eq!(known.group.queue.len(), 1);
    }
}

#[test]
fn what_is_put_back_is_served_by_its_age_and_learnt_once() {
    let mut known = Known::new(1);
    known.push_short(0..6);
    known.take();
    let ahead = known.take_ahead();
    let waited = known.group.queue.len();
    assert_eq!(known.group.put_back(ahead, at(9)), [0; 0]);
    assert_eq!(known.group.queue.len(), waited + 2);
    let served: Vec<u32> = (0..5).map(|_| known.take()).collect();
    assert_eq!(served, [1, 2, 3, 4, 5]);
    assert_eq!(known.group.queue.intake_mut(table(0)).accepted, 7);
}
