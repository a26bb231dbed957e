//! In which order a queue serves, what it refuses, and what it knows of what waits.

use std::time::Duration;

use chiplet_table::Class;
use proptest::prelude::*;

use crate::queue::{Discipline, Pace, Queue, Refusal, Run, Terms};
use crate::{TableId, Time};

const fn table(slot: u32) -> TableId {
    TableId {
        slot,
        generation: 0,
    }
}

const PLAIN: Discipline = Discipline {
    run_length: 1,
    reorder: 0.2,
    limit: 100,
    table_limit: 100,
    bulk_weight: Discipline::BULK_WEIGHT,
};

const RUNS: Discipline = Discipline {
    run_length: 16,
    ..PLAIN
};

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A queue served by some workers, and a clock.
struct Bench {
    queue: Queue<u32>,
    runs: Vec<Run>,
    now: Time,
}

impl Bench {
    fn new(discipline: Discipline, workers: usize) -> Self {
        Self {
            queue: Queue::new(discipline, workers),
            runs: vec![Run::default(); workers],
            now: Time::ZERO,
        }
    }

    fn push(&mut self, slot: u32, task: u32) {
        self.queue
            .push(table(slot), &Terms::default(), task, self.now)
            .unwrap();
    }

    /// Worker 0 takes the next task, which takes this long.
    fn run(&mut self, lasting: Duration) -> Option<u32> {
        self.run_on(0, lasting)
    }

    fn run_on(&mut self, worker: usize, lasting: Duration) -> Option<u32> {
        let run = &mut self.runs[worker];
        let task = self.queue.take(false, run, self.now)?;
        self.now += lasting;
        run.end(self.now);
        Some(task)
    }

    fn drain(&mut self, lasting: Duration) -> Vec<u32> {
        std::iter::from_fn(|| self.run(lasting)).collect()
    }
}

#[test]
fn without_runs_tasks_start_in_the_order_in_which_they_came() {
    let mut bench = Bench::new(PLAIN, 1);
    for (task, slot) in [0, 1, 0, 2, 1, 0].into_iter().enumerate() {
        bench.push(slot, task as u32);
        bench.now += micros(1);
    }
    assert_eq!(bench.drain(micros(50)), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_run_takes_what_is_nearly_as_old_and_leaves_what_is_not() {
    let mut bench = Bench::new(RUNS, 1);
    // Table 0 at 0, 10 and 60 us, table 1 at 2 us.
    for (at, slot) in [(0, 0), (2, 1), (10, 0), (60, 0)] {
        bench.now = Time::ZERO + micros(at);
        bench.push(slot, at as u32);
    }
    bench.now = Time::ZERO + micros(100);
    // At 150 us the task of table 1 has waited for 148; a fifth of that younger is what came until 31 us.
    assert_eq!(bench.drain(micros(50)), [0, 10, 2, 60]);
}

#[test]
fn a_run_has_an_end() {
    let mut bench = Bench::new(
        Discipline {
            run_length: 3,
            ..RUNS
        },
        1,
    );
    for task in 0..6 {
        bench.push(0, task);
        bench.push(1, 10 + task);
    }
    bench.now += micros(100);
    assert_eq!(
        bench.drain(micros(50)),
        [0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15]
    );
}

#[test]
fn a_table_that_asks_for_little_hardly_waits_for_one_that_floods() {
    const QUERY: Duration = Duration::from_millis(2);
    let mut bench = Bench::new(PLAIN, 1);
    // A sender that has 40 tasks of table 0 waiting at all times.
    for task in 0..40 {
        bench.push(0, task);
    }
    for task in 40..300 {
        assert!(bench.run(QUERY).is_some());
        bench.push(0, task);
    }
    for (slot, task) in [(1, 1_000), (2, 2_000), (1, 1_001)] {
        bench.push(slot, task);
        bench.now += micros(1);
    }
    let order: Vec<_> = (0..3).filter_map(|_| bench.run(QUERY)).collect();
    assert_eq!(order, [1_000, 2_000, 1_001]);
    assert_eq!(bench.run(QUERY), Some(260), "nothing else waits");
}

#[test]
fn a_tables_first_task_does_not_wait_for_bursts_of_others_however_many_those_are() {
    const QUERY: Duration = Duration::from_millis(2);
    let long = Discipline {
        limit: 1_000,
        table_limit: 1_000,
        ..PLAIN
    };
    for ahead in [0, 1, 2] {
        let mut bench = Bench::new(long, 1);
        (0..6).for_each(|slot| bench.push(slot, 0));
        assert_eq!(bench.drain(QUERY).len(), 6);
        // Before them a task each of others that ask for little.
        (4..4 + ahead).for_each(|slot| bench.push(slot, 2_000 + slot));
        (0..120).for_each(|task| bench.push(task % 3, task));
        bench.now += micros(1);
        bench.push(3, 1_000);
        let mut first = Vec::new();
        while first.len() < 1 + 2 * ahead as usize {
            first.extend(bench.run(QUERY));
            // Whoever comes sees what is in front.
            if first.len() <= ahead as usize {
                bench.push(5, 3_000);
            }
        }
        assert!(first.contains(&1_000), "{ahead} ahead: {first:?}");
        assert_eq!(bench.drain(QUERY).len(), 120);
    }
}

#[test]
fn who_comes_or_is_moved_here_does_not_wait_for_a_table_that_has_flooded_alone() {
    const QUERY: Duration = Duration::from_millis(2);
    for (class, is_moved) in [
        (Class::Interactive, false),
        (Class::Interactive, true),
        (Class::Bulk, false),
        (Class::Bulk, true),
    ] {
        let mut bench = Bench::new(PLAIN, 1);
        let terms = Terms {
            class,
            ..Terms::default()
        };
        let push = |bench: &mut Bench, task| {
            let pushed = bench.queue.push(table(0), &terms, task, bench.now);
            assert!(pushed.is_ok());
        };
        // What a task took is learnt when the next one is taken.
        for _ in 0..2 {
            push(&mut bench, 0);
            assert_eq!(bench.run(QUERY), Some(0));
        }
        (0..70).for_each(|task| push(&mut bench, task));
        bench.now += micros(10);
        if is_moved {
            let mut gone = Bench::new(PLAIN, 1);
            gone.now = bench.now;
            gone.push(1, 1_000);
            bench.queue.adopt(gone.queue.move_out());
        } else {
            bench.push(1, 1_000);
        }
        let first: Vec<_> = (0..2).filter_map(|_| bench.run(QUERY)).collect();
        let told = format!("{class:?}, moved: {is_moved}, {first:?}");
        assert!(first.contains(&1_000), "{told}");
    }
}

#[test]
fn a_submitter_that_was_held_up_does_not_make_its_table_one_that_floods() {
    let mut bench = Bench::new(PLAIN, 1);
    bench.push(0, 0);
    assert_eq!(bench.run(micros(100)), Some(0));
    let read = bench.now;
    bench.now += Duration::from_millis(30);
    for task in 1..3 {
        bench.push(0, task);
        bench.push(1, 10 + task);
    }
    // It read the clock 30 ms ago, and gets on only now.
    let pace = bench.queue.push(table(0), &Terms::default(), 3, read);
    assert_eq!(pace, Ok(Pace::Within));
    bench.push(1, 13);
    assert_eq!(bench.drain(micros(100)), [1, 11, 2, 12, 3, 13]);
}

#[test]
fn tables_of_one_long_task_each_are_served_as_they_come() {
    let mut bench = Bench::new(PLAIN, 1);
    for _ in 0..3 {
        for slot in 0..5 {
            bench.push(slot, slot);
            bench.now += micros(1);
        }
        assert_eq!(bench.drain(Duration::from_millis(50)), [0, 1, 2, 3, 4]);
        bench.now += Duration::from_secs(1);
    }
}

#[test]
fn a_table_that_flooded_has_its_share_again_soon_after() {
    const QUERY: Duration = Duration::from_millis(2);
    let mut bench = Bench::new(PLAIN, 1);
    bench.push(0, 0);
    for _ in 0..10_000 {
        bench.run(QUERY);
        bench.push(0, 0);
    }
    bench.run(QUERY);
    // Its tasks are ordered a second late at most, whatever it asked for.
    bench.now += Duration::from_millis(1_100);
    bench.push(0, 1);
    bench.push(1, 2);
    assert_eq!(bench.drain(QUERY), [1, 2]);
}

#[test]
fn bounds_are_exact_and_a_refused_task_comes_back() {
    let mut bench = Bench::new(
        Discipline {
            limit: 3,
            table_limit: 2,
            ..RUNS
        },
        1,
    );
    let now = bench.now;
    bench.push(0, 1);
    bench.push(0, 2);
    let queue = &mut bench.queue;
    assert_eq!(
        queue.push(table(0), &Terms::default(), 3, now),
        Err((Refusal::TableFull, 3))
    );
    queue.push(table(1), &Terms::default(), 4, now).unwrap();
    assert_eq!(
        queue.push(table(1), &Terms::default(), 5, now),
        Err((Refusal::GroupFull, 5))
    );
    assert_eq!(queue.take(false, &mut Run::default(), now), Some(1));
    queue.push(table(2), &Terms::default(), 5, now).unwrap();
    queue.close(true);
    assert_eq!(
        queue.push(table(1), &Terms::default(), 6, now),
        Err((Refusal::Closed, 6))
    );
}

#[test]
fn a_queue_that_nobody_serves_refuses() {
    let mut bench = Bench::new(RUNS, 1);
    bench.queue.set_workers(0);
    let refused = bench.queue.push(table(0), &Terms::default(), 1, bench.now);
    assert_eq!(refused, Err((Refusal::Vacant, 1)));
}

#[test]
fn a_search_for_the_dead_looks_at_so_many_a_turn_and_keeps_the_order_of_the_living() {
    // All wait in order of arrival, or as tables that fill more than half of the queue.
    for limit in [10_000, 1_000] {
        let mut bench = Bench::new(
            Discipline {
                limit,
                table_limit: limit,
                ..PLAIN
            },
            1,
        );
        (0..600).for_each(|task| bench.push(task % 7 % 3, task));
        let mut turns = 0;
        let mut found = 0;
        loop {
            let mut looked = 0;
            let (dead, is_through) = bench.queue.search(50, |task| {
                looked += 1;
                task % 2 == 0
            });
            assert!(looked <= 50);
            assert!(dead.iter().all(|(_, task)| task % 2 == 0));
            found += dead.len();
            turns += 1;
            if is_through {
                break;
            }
        }
        assert_eq!((found, bench.queue.len()), (300, 300));
        assert!((12..=14).contains(&turns), "{turns}");
        // It begins anew, with what has come since.
        bench.push(0, 1_000);
        let again: Vec<_> = (0..turns)
            .flat_map(|_| bench.queue.search(50, |task| task % 2 == 0).0)
            .collect();
        assert_eq!(again, [(table(0), 1_000)]);
        let living = bench.drain(micros(0));
        assert_eq!(living.len(), 300);
        for slot in 0..3 {
            let of_one = living.iter().filter(|&task| task % 7 % 3 == slot);
            assert!(of_one.is_sorted(), "table {slot}");
        }
    }
}

#[test]
fn all_that_waits_can_be_taken_out_whatever_a_search_has_looked_at() {
    let mut bench = Bench::new(RUNS, 1);
    for (slot, task) in [(0, 1), (1, 2), (0, 3), (1, 4)] {
        bench.push(slot, task);
    }
    let queue = &mut bench.queue;
    assert_eq!(queue.search(2, |_| false), (Vec::new(), false));
    let all = queue.extract(|_| true);
    let expected = [(0, 1), (1, 2), (0, 3), (1, 4)];
    assert_eq!(all, expected.map(|(slot, task)| (table(slot), task)));
    assert_eq!(queue.len(), 0);
}

#[test]
fn a_search_takes_as_long_as_what_waits_and_not_as_what_once_did() {
    let wide = Discipline {
        limit: 20_000,
        table_limit: 20_000,
        ..RUNS
    };
    let mut bench = Bench::new(wide, 1);
    (0..10_000).for_each(|task| bench.push(0, task));
    for left in [50, 0] {
        while bench.queue.len() > left {
            assert!(bench.run(micros(1)).is_some());
        }
        assert!((0..2).any(|_| bench.queue.search(1_000, |_| false).1));
        // The next one goes on where this ends, though nothing of that may be left.
        assert_eq!(bench.queue.search(10, |_| false).0, []);
    }
    bench.push(0, 1);
    let found = (0..3).find_map(|_| bench.queue.search(1_000, |_| true).0.pop());
    assert_eq!(found, Some((table(0), 1)));
}

#[test]
fn time_after_a_task_that_had_ended_in_the_queue_is_nobodys_service() {
    let mut bench = Bench::new(RUNS, 1);
    bench.push(0, 1);
    assert!(bench.run(micros(100)).is_some());
    // Cancelled while it waited: nobody says when it ended. The worker sleeps, then scans a unit for a sibling.
    bench.push(0, 2);
    let (queue, run) = (&mut bench.queue, &mut bench.runs[0]);
    assert!(queue.take(false, run, bench.now).is_some());
    assert!(queue.take(false, run, bench.now).is_none());
    bench.now += Duration::from_secs(60);
    run.end(bench.now);
    bench.push(0, 3);
    assert!(bench.run(micros(100)).is_some());
    bench.push(0, 4);
    assert_eq!(bench.queue.backlog(bench.now).service, 100_000);
}

/// Until then what waits counts as no work, and after it whoever comes is sent elsewhere, as the wait is long.
#[test]
fn a_flood_is_known_as_soon_as_one_of_its_tasks_has_ended_though_no_other_comes() {
    let wide = Discipline {
        limit: 1_000,
        table_limit: 1_000,
        ..PLAIN
    };
    let mut bench = Bench::new(wide, 1);
    (0..300).for_each(|task| bench.push(0, task));
    bench.push(1, 300);
    assert_eq!(bench.run(micros(2_000)), Some(0));
    assert_eq!(bench.run(micros(2_000)), Some(300));
    let wait = |pace| {
        bench
            .queue
            .outlook(bench.now)
            .wait(Class::Interactive, pace)
    };
    assert_eq!(wait(Pace::Within), Duration::ZERO);
    assert_eq!(wait(Pace::Backlogged), micros(299 * 2_000));
}

#[test]
fn the_backlog_is_known_in_time() {
    let mut bench = Bench::new(RUNS, 1);
    bench.push(0, 1);
    assert_eq!(bench.queue.backlog(bench.now).service, 0);
    bench.run(micros(300));
    for task in 2..6 {
        bench.push(0, task);
        bench.now += micros(10);
    }
    let mut thief = Run::default();
    assert_eq!(bench.queue.take(true, &mut thief, bench.now), Some(2));
    bench.now += micros(600);
    thief.end(bench.now);
    assert_eq!(bench.queue.take(true, &mut thief, bench.now), Some(3));
    let backlog = bench.queue.backlog(bench.now);
    // The worker's own task was learnt of only when it took the next.
    assert_eq!(backlog.service, 0);
    bench.push(0, 6);
    assert_eq!(bench.run(micros(0)), Some(4));
    let backlog = bench.queue.backlog(bench.now);
    assert_eq!((backlog.queued, backlog.workers), (2, 1));
    assert_eq!(backlog.service, 300_000);
    assert_eq!(backlog.work, 600_000);
    assert_eq!(backlog.age, 610_000);
}

#[test]
fn what_a_cold_cache_costs_is_known_after_some_tasks_of_any_table() {
    let mut bench = Bench::new(RUNS, 1);
    for table in 0..2 {
        bench.push(table, 1);
        bench.run(micros(300));
    }
    // What the worker ran last is learnt with its next task.
    bench.push(0, 2);
    bench.run(micros(300));
    let mut thief = Run::default();
    for task in 0..9 {
        assert_eq!(bench.queue.backlog(bench.now).cold, None);
        bench.push(0, 10 + task);
        assert!(bench.queue.take(true, &mut thief, bench.now).is_some());
        bench.now += micros(600);
        thief.end(bench.now);
    }
    // Of another table nothing is known but what is known of all.
    bench.push(1, 2);
    assert!(bench.queue.take(true, &mut thief, bench.now).is_some());
    bench.push(1, 3);
    assert_eq!(
        bench.queue.backlog(bench.now).cold,
        Some(2 * crate::UNIT_FACTOR)
    );
}

proptest! {
    /// However tables and workers mix: every task is taken once, in order within its table, and before an older one
    /// only if it has waited nearly as long.
    #[test]
    fn every_task_is_taken_once_and_none_far_out_of_turn(
        steps in prop::collection::vec((0_u32..5, 0_usize..4, 0_u64..40), 1..80),
        run_length in 1_u32..20,
        reorder in 0.0..0.9,
    ) {
        let mut bench = Bench::new(Discipline { run_length, reorder, ..PLAIN }, 3);
        let mut thief = Run::default();
        let mut waiting: Vec<(u32, u32, Time)> = Vec::new();
        let mut pushed = 0;
        let mut taken = 0;
        let mut step = 0;
        while step < steps.len() || !waiting.is_empty() {
            let (slot, takes, passes) = *steps.get(step).unwrap_or(&(0, 3, 1));
            if step < steps.len() {
                bench.push(slot, pushed);
                waiting.push((slot, pushed, bench.now));
                pushed += 1;
            }
            step += 1;
            for worker in 0..takes {
                let (now, queue) = (bench.now, &mut bench.queue);
                // No time is told, so no table has more than its share.
                let task = match worker {
                    2 => queue.take(true, &mut thief, now),
                    _ => queue.take(false, &mut bench.runs[worker], now),
                };
                let Some(task) = task else { continue };
                let place = waiting.iter().position(|&(_, other, _)| other == task);
                let (slot, _, at) = waiting.remove(place.expect("it waits, once"));
                taken += 1;
                prop_assert!(waiting.iter().all(|&(table, other, _)| table != slot || other > task));
                for &(_, _, older) in waiting.iter().filter(|waits| waits.2 < at) {
                    let age = now.since(older).as_secs_f64();
                    let ahead = at.since(older).as_secs_f64();
                    prop_assert!(ahead <= age * reorder + 1e-8);
                    prop_assert!(run_length > 1);
                }
            }
            bench.now += micros(passes);
        }
        prop_assert_eq!(taken, pushed);
        prop_assert_eq!(bench.queue.len(), 0);
    }
}

#[test]
fn a_task_that_moves_to_another_group_keeps_its_age() {
    let mut gone = Bench::new(PLAIN, 1);
    gone.push(1, 10);
    let mut other = Bench::new(PLAIN, 1);
    other.now = gone.now + micros(5_000);
    other.push(2, 20);
    other.now += micros(5_000);
    other.queue.adopt(gone.queue.move_out());
    // It came first of all, and so it is served.
    assert_eq!(other.run(micros(10)), Some(10));
    assert_eq!(other.run(micros(10)), Some(20));
}

#[test]
fn a_batch_stays_on_the_side_of_its_share_on_which_it_began() {
    // Long before its last part it is a flood beside another table; all of it had memory before.
    let mut bench = Bench::new(PLAIN, 1);
    (0..2).for_each(|_| {
        bench.push(0, 0);
        assert!(bench.run(Duration::from_millis(2)).is_some());
    });
    bench.push(1, 0);
    let parts = (1..=60).map(|task| (task, 1)).collect();
    let pace = bench
        .queue
        .push_all(table(0), &Terms::default(), parts, bench.now);
    assert_eq!(pace, Ok(Pace::Backlogged));
    let served = bench.drain(micros(10));
    assert_eq!(served, (0..=60).collect::<Vec<_>>());
}
