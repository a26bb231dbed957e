//! Short tasks that a worker takes ahead.

use chiplet_table::Class;

use crate::group::{Crossing, Group, Rest, Take};
use crate::queue::{Discipline, Pace, Queue, Run, Terms};
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
            known
                .group
                .take(0, false, &mut known.run, at(0), |_, _, _| ()),
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
        self.take_with(|_, _, _| ())
    }

    fn take_with(&mut self, ahead: impl FnOnce(&mut Queue<u32>, &Run, usize)) -> u32 {
        match self.group.take(0, false, &mut self.run, at(0), ahead) {
            Take::Task { task, .. } => task,
            nothing => panic!("{nothing:?}"),
        }
    }

    /// What is taken ahead after the first task that waits.
    fn ahead(&mut self) -> Vec<(u32, Run)> {
        let mut ahead = Vec::new();
        self.take_with(|queue, run, most| {
            queue.prefetch(run, most, at(0), |task, run| ahead.push((task, run)));
        });
        ahead
    }

    #[track_caller]
    fn takes_ahead(&mut self, expected: &[u32]) {
        let ahead = self.ahead().into_iter().map(|(task, _)| task);
        assert_eq!(ahead.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn tasks_are_taken_ahead_as_they_came_while_all_are_short_together() {
    let mut known = Known::new(1);
    known.push_short(0..10);
    known.takes_ahead(&[1, 2]);
    // One that is not short is a worker's only one, and others go ahead up to it.
    let mut known = Known::new(1);
    known.push(1, 0, &Terms::default());
    known.push_short(1..3);
    known.push(1, 3, &Terms::default());
    known.push_short(4..6);
    known.takes_ahead(&[]);
    known.takes_ahead(&[2]);
    known.takes_ahead(&[]);
}

#[test]
fn a_worker_takes_its_part_ahead_and_none_while_a_sibling_is_idle() {
    let mut known = Known::new(2);
    known.push_short(0..4);
    known.takes_ahead(&[1]);
    known.takes_ahead(&[]);
    let mut known = Known::new(2);
    assert!(matches!(known.group.rest(1), Rest::Listed { .. }));
    known.push_short(0..12);
    known.takes_ahead(&[]);
}

#[test]
fn nothing_is_taken_ahead_that_is_unknown_has_a_deadline_or_waits_beside_bulk() {
    let bulk = Terms {
        class: Class::Bulk,
        ..Terms::default()
    };
    let limited = Terms {
        expires: Some(at(5_000)),
        ..Terms::default()
    };
    for (slot, terms) in [(2, &Terms::default()), (0, &limited), (0, &bulk)] {
        let mut known = Known::new(1);
        known.push_short(0..1);
        known.push(slot, 1, terms);
        known.takes_ahead(&[]);
        assert_eq!(known.group.queue.len(), 1, "{terms:?}");
    }
    // Nor beside a first one that is unknown, though tables here have short tasks.
    let mut known = Known::new(1);
    for _ in 0..50 {
        known.push_short(0..1);
        known.take();
        known.run.end(at(1));
    }
    known.push(2, 0, &Terms::default());
    known.push_short(1..3);
    known.takes_ahead(&[]);
}

#[test]
fn nothing_is_taken_ahead_once_the_queue_is_closed() {
    let mut known = Known::new(1);
    known.push_short(0..4);
    let _ = known.group.close(true);
    known.takes_ahead(&[]);
}

#[test]
fn what_is_put_back_goes_before_all_that_came_later() {
    let mut known = Known::new(1);
    known.push_short(0..6);
    let ahead = known.ahead();
    // These came when task 2 did.
    for task in [7, 8] {
        let pushed = known.group.push(table(0), &Terms::default(), task, at(2));
        assert!(pushed.is_ok());
    }
    for (task, run) in ahead.into_iter().rev() {
        assert!(known.group.queue.put_back(task, &run).is_ok());
    }
    let served: Vec<u32> = (0..7).map(|_| known.take()).collect();
    assert_eq!(served, [1, 2, 3, 4, 5, 7, 8]);
    assert!(known.group.queue.is_empty());
    assert_eq!(known.group.queue.outlook(at(9)).work, [[0; 2]; 2]);
    assert_eq!(known.group.queue.intake_mut(table(0)).accepted, 9);
}

#[test]
fn what_is_put_back_into_a_backlogged_flow_waits_with_that() {
    let mut known = Known::new(1);
    known.push(2, 0, &Terms::default());
    known.take();
    known.run.end(at(1_000));
    known.push_short(0..3);
    let ahead = known.ahead();
    // More than a burst of the first waits, and far more than of the other.
    let batch = Terms {
        queries: 1_000,
        ..Terms::default()
    };
    for task in 3..23 {
        known.push(2, task, &Terms::default());
    }
    let pace = |known: &mut Known| {
        let pushed = known.group.push(table(0), &batch, 1_000, at(1_000));
        pushed.unwrap().pace
    };
    assert!((0..150).any(|_| pace(&mut known) == Pace::Backlogged));
    for (task, run) in ahead.into_iter().rev() {
        assert!(known.group.queue.put_back(task, &run).is_ok());
    }
    let waiting = known.group.queue.len();
    let served: Vec<u32> = (0..waiting).map(|_| known.take()).collect();
    let mut of_it = served.iter().filter(|task| !(3..23).contains(*task));
    assert!(of_it.by_ref().take(2).eq(&[1, 2]), "{served:?}");
    assert!(of_it.all(|&task| task == 1_000), "{served:?}");
    assert_eq!(known.group.queue.outlook(at(2_000)).work, [[0; 2]; 2]);
}
