//! How long bulk work gives way, what it is expected to take, and that nothing is lost where classes and weights mix.

use std::time::Duration;

use proptest::prelude::*;

use super::simulation::{DISCIPLINE, MILLI, SECOND, Simulation, source};
use crate::queue::{Discipline, Queue, Run, Terms};
use crate::{TableId, Time};
use chiplet_table::Class;

/// A millisecond.
const NANOS: u64 = 1_000_000;

#[test]
fn bulk_work_gives_way_and_gets_what_is_left() {
    let interactive = source(1.0, 0.3);
    let bulk = source(1.0, 0.65).bulk();
    let mut simulation = Simulation::new(1, &[interactive, bulk]);
    simulation.run_until(5 * SECOND);
    let served = simulation.run_until(15 * SECOND);
    let longest = served[0].longest();
    assert!(longest <= 2 * MILLI, "the bulk task that runs: {longest:?}");
    let time = served[1].time.as_secs_f64();
    assert!((time / 6.5 - 1.0).abs() < 0.02, "{time} s of bulk work");
}

#[test]
fn a_flood_of_bulk_work_hardly_delays_an_interactive_table() {
    let interactive = source(1.0, 0.05).from(3 * MILLI);
    let flood = source(1.0, 5.0).bulk();
    let mut simulation = Simulation::new(1, &[interactive, flood]);
    simulation.run_until(5 * SECOND);
    let served = simulation.run_until(35 * SECOND);
    let longest = served[0].longest();
    assert!(longest <= 6 * MILLI, "{longest:?}");
    assert!(served[1].time > 28 * SECOND, "nobody idles");
}

#[test]
fn bulk_work_gets_the_part_of_a_table_of_its_weight_while_interactive_tasks_wait() {
    for (weight, part) in [
        (1.0 / 16.0, 1.0 / 33.0),
        (0.5, 0.2),
        (1.0, 1.0 / 3.0),
        (0.0, 0.0),
    ] {
        let discipline = Discipline {
            bulk_weight: weight,
            ..DISCIPLINE
        };
        // Two interactive tables that keep tasks waiting, and bulk ones.
        let keeps = source(1.0, 1.0).keeping(20);
        let sources = [keeps, keeps, keeps.bulk(), keeps.bulk()];
        let mut simulation = Simulation::with(discipline, 2, &sources);
        simulation.run_until(2 * SECOND);
        let served = simulation.run_until(12 * SECOND);
        let [one, other, bulk, more] = [0, 1, 2, 3].map(|at: usize| served[at].time.as_secs_f64());
        let got = (bulk + more) / 20.0;
        assert!((got - part).abs() < 0.01, "weight {weight}: {got}");
        assert!(one + other + bulk + more > 19.9, "nobody idles");
    }
}

#[test]
fn a_lone_bulk_task_soon_has_its_turn_and_then_pays_for_it() {
    // A table that keeps tasks waiting, and one client of bulk work.
    let sources = [
        source(1.0, 1.0).keeping(20),
        source(1.0, 1.0).bulk().keeping(1),
    ];
    let mut simulation = Simulation::new(1, &sources);
    simulation.run_until(SECOND);
    let served = simulation.run_until(11 * SECOND);
    let part = served[1].time.as_secs_f64() / 10.0;
    assert!((0.05..0.065).contains(&part), "{part}");
    // 17 tasks of 2 ms each.
    assert!(
        served[1].longest() < 40 * MILLI,
        "{:?}",
        served[1].longest()
    );
}

#[test]
fn a_weight_says_nothing_of_tables_of_the_other_class() {
    // Two interactive tables and a bulk one that all ask for too much.
    let served = |bulk: f32| {
        let [one, tenth] = [1.0, 0.1].map(|weight| source(weight, 3.0));
        let mut simulation = Simulation::new(1, &[one, tenth, source(bulk, 3.0).bulk()]);
        simulation.run_until(5 * SECOND);
        let served = simulation.run_until(25 * SECOND);
        [0, 1, 2].map(|slot| served[slot].time)
    };
    let alike = served(1.0);
    assert!(alike.iter().all(|time| *time > SECOND / 10), "{alike:?}");
    let ratio = alike[0].div_duration_f64(alike[1]);
    assert!((9.0..=11.0).contains(&ratio), "{alike:?}");
    for weight in [0.01, 100.0] {
        assert_eq!(served(weight), alike, "{weight}");
    }
}

#[test]
fn an_interactive_task_is_not_expected_to_wait_for_bulk_work() {
    let mut queue: Queue<u32> = Queue::new(DISCIPLINE, 2);
    let mut run = Run::default();
    let bulk = Terms {
        class: Class::Bulk,
        ..Terms::default()
    };
    let table = Simulation::table;
    // Both tables take 2 ms in both classes, as is learnt from one task each.
    let mut now = Time::ZERO;
    for (slot, terms) in [(0, Terms::default()), (1, bulk)] {
        queue.push(table(slot), &terms, 0, now).unwrap();
        assert!(queue.take(false, &mut run, now).is_some());
        now += 2 * MILLI;
        run.end(now);
    }
    assert!(queue.take(false, &mut run, now).is_none());
    let came = now;
    for task in 0..50 {
        queue.push(table(1), &bulk, task, now).unwrap();
    }
    let outlook = queue.outlook(now);
    // Of a flood that is; another table's bulk task goes before it.
    assert_eq!(outlook.work, [[0; 2], [0, 100 * NANOS]]);
    let backlog = outlook.backlog;
    assert_eq!((backlog.queued, backlog.work), (50, 100 * NANOS));
    // With interactive tasks in front, those alone are what others see.
    now += 10 * MILLI;
    for task in 0..4 {
        let terms = Terms::default();
        queue.push(table(0), &terms, 100 + task, now).unwrap();
    }
    now += MILLI;
    let outlook = queue.outlook(now);
    assert_eq!(outlook.work, [[8 * NANOS; 2], [8 * NANOS, 108 * NANOS]]);
    let backlog = outlook.backlog;
    assert_eq!((backlog.queued, backlog.work), (4, 8 * NANOS));
    assert_eq!((backlog.age, backlog.service), (NANOS, 2 * NANOS));
    // One of bulk work has its turn, which that pays for.
    let mut order = Vec::new();
    while order.len() < 5 {
        order.push(queue.take(false, &mut run, now).unwrap());
        run.end(now + 2 * MILLI);
    }
    assert_eq!(order, [100, 0, 101, 102, 103]);
    now = came + 25 * MILLI;
    let outlook = queue.outlook(now);
    assert_eq!(
        (outlook.backlog.age, outlook.backlog.age),
        (25 * NANOS, 25 * NANOS)
    );
}

#[test]
fn a_table_has_one_limit_for_both_classes_and_its_own_if_it_has_one() {
    let mut queue: Queue<u32> = Queue::new(DISCIPLINE, 1);
    let limit = Some(2);
    let terms = |class| Terms {
        class,
        limit,
        ..Terms::default()
    };
    let [interactive, bulk] = Class::ALL.map(terms);
    let table = Simulation::table(0);
    queue.push(table, &interactive, 1, Time::ZERO).unwrap();
    queue.push(table, &bulk, 2, Time::ZERO).unwrap();
    for terms in [interactive, bulk] {
        assert!(queue.push(table, &terms, 3, Time::ZERO).is_err());
    }
    queue.push(table, &Terms::default(), 3, Time::ZERO).unwrap();
    queue.count_shed(table, Class::Bulk, 2);
    let mut read = Vec::new();
    assert_eq!(queue.intake_part(0, 10, &mut read), None);
    let intake: Vec<_> = read.into_iter().map(|(_, intake, _)| intake).collect();
    let sum = |of: fn(&crate::queue::Intake) -> u64| intake.iter().map(of).sum::<u64>();
    assert_eq!(sum(|intake| intake.accepted), 3);
    assert_eq!(sum(|intake| intake.shed), 2);
    assert_eq!(queue.move_out().len(), 3);
    queue.retire(table);
    assert_eq!((queue.retired().accepted, queue.retired().shed), (3, 2));
}

#[test]
fn what_was_asked_for_in_vain_counts_as_what_was_asked_for_takes() {
    let mut queue: Queue<u32> = Queue::new(DISCIPLINE, 1);
    let table = Simulation::table(0);
    queue.count_shed(table, Class::Interactive, 5);
    assert_eq!(queue.in_vain(), 0, "nobody knows what it takes");
    let limited = Terms {
        expires: Some(Time::from_secs(3_600)),
        ..Terms::default()
    };
    let (mut run, mut now) = (Run::default(), Time::ZERO);
    for _ in 0..50 {
        queue.push(table, &limited, 0, now).unwrap();
        queue.take(false, &mut run, now).unwrap();
        now += MILLI / 2;
        run.end(now);
    }
    queue.take(false, &mut run, now);
    let fresh =
        |queue: &mut Queue<u32>, before: u64| Duration::from_nanos(queue.in_vain() - before);
    let before = queue.in_vain();
    queue.count_expired(table, Class::Interactive, 10);
    assert_eq!(fresh(&mut queue, before), 5 * MILLI);
    // Found out by a worker that has taken it.
    let before = queue.in_vain();
    queue.push(table, &limited, 0, now).unwrap();
    queue.take(false, &mut run, now).unwrap();
    run.miss();
    queue.take(false, &mut run, now);
    assert_eq!(fresh(&mut queue, before), MILLI / 2);
    let before = queue.in_vain();
    queue.count_shed(table, Class::Interactive, 10);
    assert_eq!(fresh(&mut queue, before), 5 * MILLI);
}

proptest! {
    /// Tables come and go, and what the queue keeps for one that is gone serves the next: each task is still taken
    /// once, and none of a table that was removed.
    #[test]
    fn removed_tables_leave_nothing_behind(
        steps in prop::collection::vec((0_usize..8, 0_u32..4, any::<bool>(), 0_u64..2_000), 1..200),
    ) {
        let mut queue = Queue::new(Discipline { limit: 500, table_limit: 500, ..DISCIPLINE }, 1);
        let mut generations = [1_u32; 4];
        let (mut run, mut now, mut waiting) = (Run::default(), Time::ZERO, Vec::new());
        for (task, (step, slot, bulk, micros)) in steps.into_iter().enumerate() {
            now += Duration::from_micros(micros);
            let generation = &mut generations[slot as usize];
            let table = TableId { slot, generation: *generation };
            match step {
                0 => {
                    let of_it = |task: &usize| waiting.contains(&(table, *task));
                    let gone = queue.extract(of_it).len();
                    let before = waiting.len();
                    waiting.retain(|&(of, _)| of != table);
                    prop_assert_eq!(before - waiting.len(), gone);
                    if gone > 0 {
                        queue.intake_mut(table).leaving -= gone as u64;
                    }
                    queue.retire(table);
                    *generation += 1;
                }
                1..=3 => if let Some(taken) = queue.take(false, &mut run, now) {
                    let at = waiting.iter().position(|&(_, other)| other == taken);
                    prop_assert!(at.is_some(), "{taken} was taken before, or its table is gone");
                    waiting.swap_remove(at.unwrap_or_default());
                    run.end(now + Duration::from_millis(1));
                },
                _ => {
                    let class = Class::ALL[usize::from(bulk)];
                    let terms = Terms { class, weight: 1.0 + slot as f32, ..Terms::default() };
                    prop_assert!(queue.push(table, &terms, task, now).is_ok());
                    waiting.push((table, task));
                }
            }
            prop_assert_eq!(queue.len(), waiting.len());
        }
        while queue.take(true, &mut run, now).is_some() {
            waiting.pop();
        }
        prop_assert!(waiting.is_empty());
    }

    /// However weights, classes, bounds and times mix: each accepted task is taken once, in order within its table and
    /// class, and the queue's sums are those of what waits.
    #[test]
    fn nothing_is_lost_whatever_is_mixed(
        steps in prop::collection::vec((0_usize..4, 0_usize..3, any::<bool>(), 0_usize..4, 0_u64..30), 1..120),
        run_length in 1_u32..20,
    ) {
        let discipline = Discipline { run_length, ..DISCIPLINE };
        let mut queue = Queue::new(discipline, 2);
        let mut runs = [Run::default(); 3];
        let mut now = Time::ZERO;
        let mut waiting: Vec<(usize, Class, u32)> = Vec::new();
        let mut pushed = 0;
        for (slot, weight, bulk, takes, passes) in steps {
            let class = Class::ALL[usize::from(bulk)];
            let weight = [0.01, 1.0, 30.0][weight];
            let terms = Terms { class, weight, limit: Some(12), ..Terms::default() };
            if queue.push(Simulation::table(slot), &terms, pushed, now).is_ok() {
                waiting.push((slot, class, pushed));
            }
            pushed += 1;
            for (worker, run) in runs.iter_mut().enumerate().take(takes) {
                let thief = worker == 2;
                let Some(task) = queue.take(thief, run, now) else { continue };
                let place = waiting.iter().position(|&(.., other)| other == task);
                let (slot, class, _) = waiting.remove(place.expect("it waits, once"));
                let ahead = |&&(of, other, id): &&(usize, Class, u32)| (of, other) == (slot, class) && id < task;
                prop_assert!(waiting.iter().find(ahead).is_none());
                now += Duration::from_millis(passes);
                run.end(now);
            }
            if pushed % 17 == 0 {
                let dead = queue.extract(|task| task % 3 == 0);
                waiting.retain(|&(.., task)| task % 3 != 0);
                prop_assert!(dead.iter().all(|(_, task)| task % 3 == 0));
            }
            if pushed % 7 == 0 {
                queue.search(5, |_| false);
            }
            if pushed % 23 == 0 {
                // Its workers go, and another queue, where some of these tables wait, gets what waits; then that
                // one's go.
                now += MILLI;
                let mut other = Queue::new(discipline, 2);
                for slot in 0..3 {
                    prop_assert!(other.push(Simulation::table(slot), &Terms::default(), pushed, now).is_ok());
                    waiting.push((slot, Class::Interactive, pushed));
                    pushed += 1;
                }
                other.adopt(queue.move_out());
                prop_assert_eq!(queue.len(), 0);
                queue.adopt(other.move_out());
            }
            prop_assert_eq!(queue.len(), waiting.len());
            let outlook = queue.outlook(now);
            prop_assert!(outlook.work.iter().all(|[interactive, bulk]| interactive <= bulk));
            prop_assert!(outlook.backlog.queued as usize <= waiting.len());
            prop_assert_eq!(outlook.backlog.queued == 0, waiting.is_empty());
        }
        while let Some(task) = queue.take(true, &mut runs[2], now) {
            waiting.retain(|&(.., other)| other != task);
        }
        prop_assert!(waiting.is_empty());
        prop_assert_eq!(queue.len(), 0);
        prop_assert_eq!(queue.outlook(now).work, [[0; 2]; 2]);
    }
}
