//! The steal order step by step on one thread.

use std::ops::Range;
use std::time::Duration;

use chiplet_policy::{LeftHome, StealConfig, StealLevel, TableId};
use chiplet_topology::DomainId;

use super::find_task::{Near, Resting};
use super::*;

/// Lapsed if it is zero.
impl Invite for u32 {
    fn is_open(&self) -> bool {
        *self > 0
    }
}

const fn table(slot: u32) -> TableId {
    TableId {
        slot,
        generation: 0,
    }
}

const IDLE: StealLevel = StealLevel::Away(LeftHome::StolenByIdle);
const BUSY: StealLevel = StealLevel::Away(LeftHome::StolenByBusy);

/// Nothing is worth crossing for.
const NEVER: StealConfig = FREE.cold_factor(None);

/// Whatever waits is worth crossing for.
const FREE: StealConfig = StealConfig::new()
    .cold_factor(Some(1.0))
    .cold_limit(Duration::ZERO)
    .max_wait(Duration::from_millis(4));

fn scheduler(
    steal: StealConfig,
    groups: &[Range<usize>],
) -> (Scheduler<u32, u32>, Vec<Local<u32>>) {
    scheduler_with(steal, groups, 0)
}

fn scheduler_with(
    steal: StealConfig,
    groups: &[Range<usize>],
    substitutes: usize,
) -> (Scheduler<u32, u32>, Vec<Local<u32>>) {
    let specs = groups
        .iter()
        .enumerate()
        .map(|(group, workers)| GroupSpec {
            domain: DomainId(group as u32),
            workers: workers.clone(),
            nearest: (0..groups.len()).filter(|&other| other != group).collect(),
        })
        .collect();
    let rules = Rules {
        prefetches: true,
        processors: 0,
        substitutes,
        crossing: Crossing {
            steal,
            groups: groups.len(),
        },
        discipline: Discipline {
            run_length: 16,
            reorder: 0.2,
            limit: 100,
            table_limit: 100,
            bulk_weight: Discipline::BULK_WEIGHT,
        },
    };
    Scheduler::new(rules, specs)
}

fn push(scheduler: &Scheduler<u32, u32>, group: usize, table: TableId, task: u32) {
    let pushed = scheduler.push(group, table, &Terms::default(), task, scheduler.clock.now());
    pushed.map(|(pace, _)| pace).unwrap();
}

fn queued(scheduler: &Scheduler<u32, u32>, group: usize) -> usize {
    scheduler.groups.lock(group).queue.len()
}

fn asleep(scheduler: &Scheduler<u32, u32>, group: usize) -> usize {
    scheduler.groups.lock(group).asleep()
}

/// Makes a worker a sleeper, as it is just before it parks.
fn to_bed(scheduler: &Scheduler<u32, u32>, local: &mut Local<u32>) {
    assert!(matches!(scheduler.finder(local).rest(), Resting::Park));
}

#[test]
fn a_core_is_free_while_its_worker_sleeps() {
    let (scheduler, mut locals) = scheduler(NEVER, &[0..1, 1..2]);
    assert_eq!(scheduler.cores.count(), 0);
    for local in &mut locals {
        to_bed(&scheduler, local);
    }
    assert_eq!(scheduler.cores.count(), 2);
    push(&scheduler, 0, table(0), 1);
    assert_eq!(scheduler.cores.count(), 1);
    scheduler.close();
    assert_eq!(scheduler.cores.count(), 0);
}

#[test]
fn what_a_worker_has_taken_ahead_goes_back_when_it_blocks_or_leaves_and_when_all_is_abandoned() {
    for (blocks, leaves) in [(true, false), (false, true), (false, false)] {
        let (scheduler, mut locals) = scheduler(NEVER, &[0..1, 1..2]);
        let run = |local: &mut Local<u32>| {
            assert!(scheduler.next(local).is_some());
            let ended = local.now + Duration::from_micros(1);
            local.end_task(ended, Duration::ZERO, Duration::ZERO);
        };
        push(&scheduler, 0, table(0), 0);
        run(&mut locals[0]);
        for task in 1..=3 {
            push(&scheduler, 0, table(0), task);
        }
        run(&mut locals[0]);
        assert_eq!(queued(&scheduler, 0), 0, "all have been taken");
        if blocks {
            assert_eq!(scheduler.block(&locals[0]), Cover::Nobody);
            assert_eq!(queued(&scheduler, 0), 2);
        }
        match leaves {
            true => assert!(scheduler.staff(&[false, true], |_| 1)),
            false => scheduler.close(),
        }
        let mut left = scheduler.empty(usize::from(leaves));
        left.sort_by_key(|&(_, task)| task);
        assert_eq!(left, [2, 3].map(|task| (table(0), task)));
        assert_eq!(queued(&scheduler, 0), 0);
    }
}

#[test]
fn who_comes_back_from_elsewhere_leaves_its_substitutes_tasks_alone() {
    // Worker 0 runs group 1's task, which has blocked, and its substitute has taken tasks ahead.
    let (scheduler, mut locals) = scheduler_with(FREE, &[0..1, 1..2], 1);
    let (mut worker, mut substitute) = (locals.remove(0), scheduler.local(2));
    push(&scheduler, 1, table(1), 9);
    let found = scheduler.finder(&mut worker).rest();
    assert!(matches!(found, Resting::Found(Found::Task(9, IDLE))));
    assert_eq!(scheduler.block(&worker), Cover::Start(2));
    push(&scheduler, 0, table(0), 0);
    assert!(scheduler.next(&mut substitute).is_some());
    let ended = substitute.now + Duration::from_micros(1);
    substitute.end_task(ended, Duration::ZERO, Duration::ZERO);
    for task in 1..=3 {
        push(&scheduler, 0, table(0), task);
    }
    assert!(scheduler.next(&mut substitute).is_some());
    assert_eq!(queued(&scheduler, 0), 0, "all have been taken");
    scheduler.unblock(&worker);
    assert!(matches!(
        scheduler.finder(&mut worker).next_near(false),
        Near::OffDuty
    ));
    assert!(
        scheduler
            .finder(&mut worker)
            .take_ahead(0, Some(0))
            .is_none()
    );
    for task in [2, 3] {
        let found = scheduler.next(&mut substitute);
        assert!(matches!(found, Some(Found::Task(found, StealLevel::Own)) if found == task));
    }
}

#[test]
fn a_park_that_an_old_token_ends_leaves_no_sleeper_behind() {
    let (scheduler, mut locals) = scheduler(FREE, &[0..1, 1..2]);
    scheduler.parkers.unpark(1);
    to_bed(&scheduler, &mut locals[1]);
    scheduler.finder(&mut locals[1]).sleep();
    assert_eq!(
        asleep(&scheduler, 1),
        0,
        "a push would call a worker that is awake"
    );
    to_bed(&scheduler, &mut locals[1]);
    assert_eq!(
        asleep(&scheduler, 1),
        1,
        "and it is listed once, so its group is spare again"
    );
    push(&scheduler, 0, table(0), 1);
    assert_eq!(asleep(&scheduler, 1), 0, "it is called to help");
}

fn level<T: Copy, U: Copy>(found: &Found<T, U>) -> StealLevel {
    match *found {
        Found::Task(_, level) | Found::Invitation(_, level) => level,
    }
}

#[test]
fn the_steal_order_goes_own_queue_siblings_then_across() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..2, 2..4]);
    let mut thief = locals.remove(1);
    push(&scheduler, 0, table(0), 1);
    // Three tasks exceed two workers times (cold factor - 1): worth crossing for.
    for task in 10..13 {
        push(&scheduler, 1, table(1), task);
    }
    scheduler.invite(&thief, 100, 1, 0);
    scheduler.invite(&locals[0], 200, 1, 0);
    let found: Vec<StealLevel> = (0..3)
        .map(|_| level(&scheduler.next(&mut thief).unwrap()))
        .collect();
    assert_eq!(
        found,
        [StealLevel::Domain, StealLevel::Domain, StealLevel::Own],
        "what has been started comes before what waits"
    );
    // With the scheduler closed nobody parks, which lets one thread do all of it.
    scheduler.close();
    assert_eq!(level(&scheduler.next(&mut thief).unwrap()), IDLE);
    // Two are left: their own domain is as quick. In a drain it stays for them all the same, as nobody else would come
    // should they wait there for too long.
    for _ in 0..2 {
        assert_eq!(level(&scheduler.next(&mut thief).unwrap()), IDLE);
    }
    assert!(
        scheduler.next(&mut thief).is_none(),
        "nothing is left anywhere"
    );
}

#[test]
fn a_group_helps_while_at_most_a_quarter_of_its_workers_are_at_home() {
    let groups: Vec<_> = (0..5).map(|group| 8 * group..8 * group + 8).collect();
    let (scheduler, mut locals) = scheduler(FREE, &groups);
    // In group 4 five of eight sleep, which is as far from group 0 as any.
    for local in &mut locals[32..37] {
        to_bed(&scheduler, local);
    }
    for task in 0..4 {
        push(&scheduler, 0, table(0), task);
    }
    assert_eq!(asleep(&scheduler, 4), 5, "three of its workers are at home");
    // With one more asleep a quarter is.
    let last = scheduler.finder(&mut locals[37]).rest();
    assert!(matches!(last, Resting::Found(Found::Task(0, IDLE))));
    assert_eq!(asleep(&scheduler, 4), 4, "and it has called another");
}

#[test]
fn lapsed_invitations_are_dropped_by_whoever_finds_them() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..3, 3..4]);
    for (worker, invitation) in [(0, 0), (0, 7), (0, 0), (1, 0)] {
        scheduler.invite(&locals[worker], invitation, 1, 0);
    }
    push(&scheduler, 0, table(0), 1);
    let thief = &mut locals[2];
    assert!(matches!(
        scheduler.next(thief),
        Some(Found::Invitation(7, StealLevel::Domain))
    ));
    assert!(matches!(
        scheduler.next(thief),
        Some(Found::Task(1, StealLevel::Own))
    ));
    assert!(!scheduler.invitations.may_be_in(0), "none is left over");
}

#[test]
fn who_joins_another_leaves_the_task_that_waits_to_a_sleeper() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..3, 3..4]);
    let mut joining = locals.remove(1);
    to_bed(&scheduler, &mut locals[1]);
    // As if it were looking at the queue, so that the push wakes nobody.
    assert!(scheduler.groups.lock(0).spin());
    push(&scheduler, 0, table(0), 1);
    assert_eq!(asleep(&scheduler, 0), 1);
    scheduler.groups.lock(0).stop_spinning();
    scheduler.invite(&locals[0], 7, 1, 0);
    assert!(matches!(
        scheduler.next(&mut joining),
        Some(Found::Invitation(7, _))
    ));
    assert_eq!(asleep(&scheduler, 0), 0, "somebody comes for the task");
}

#[test]
fn what_a_worker_has_left_for_a_task_is_open_to_its_siblings_meanwhile() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..3, 3..4]);
    to_bed(&scheduler, &mut locals[0]);
    to_bed(&scheduler, &mut locals[2]);
    locals[1].postpone(7, StealLevel::Domain);
    push(&scheduler, 0, table(0), 1);
    assert_eq!(asleep(&scheduler, 0), 1, "worker 2 comes for the task");
    assert!(matches!(
        scheduler.next(&mut locals[1]),
        Some(Found::Task(1, StealLevel::Own))
    ));
    assert_eq!(asleep(&scheduler, 0), 0, "worker 0 comes for the rest");
    scheduler.finder(&mut locals[0]).sleep();
    assert!(matches!(
        scheduler.next(&mut locals[0]),
        Some(Found::Invitation(7, StealLevel::Domain))
    ));
}

#[test]
fn a_worker_whose_task_another_has_taken_goes_on_with_what_it_has_left() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..2, 2..3]);
    push(&scheduler, 0, table(0), 1);
    locals[1].postpone(7, StealLevel::Domain);
    assert!(scheduler.next(&mut locals[0]).is_some());
    assert!(matches!(
        scheduler.next(&mut locals[1]),
        Some(Found::Invitation(7, StealLevel::Domain))
    ));
    assert!(!scheduler.invitations.may_be_in(0), "nothing is left over");
}

#[test]
fn helpers_are_woken_in_advance_unless_tasks_wait_for_them() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..4, 4..5]);
    let owner = locals.remove(0);
    locals[..3]
        .iter_mut()
        .for_each(|local| to_bed(&scheduler, local));
    scheduler.wake_several(owner.group, 2, 0);
    assert_eq!(asleep(&scheduler, 0), 1);
    assert_eq!(scheduler.idle_and_waiting(0), (3, 0));
    assert!(scheduler.groups.lock(0).spin());
    push(&scheduler, 0, table(0), 1);
    scheduler.wake_several(owner.group, 2, 0);
    assert_eq!(asleep(&scheduler, 0), 1);
    assert_eq!(scheduler.idle_and_waiting(0), (4, 1));
}

#[test]
fn without_stealing_nothing_leaves_its_group() {
    let (scheduler, mut locals) = scheduler(NEVER, &[0..2, 2..4]);
    for task in 0..20 {
        push(&scheduler, 1, table(1), task);
    }
    scheduler.close();
    assert!(scheduler.next(&mut locals[0]).is_none());
    let mut ran = 0;
    while scheduler.next(&mut locals[2]).is_some() {
        ran += 1;
    }
    assert_eq!(ran, 20);
}

#[test]
fn a_call_for_help_is_passed_on_when_the_called_worker_finds_work_at_home() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..2, 2..3]);
    to_bed(&scheduler, &mut locals[1]);
    to_bed(&scheduler, &mut locals[2]);
    // Group 0's worker is busy. Its second waiting task is worth a crossing: worker 1 is called.
    for task in [1, 2] {
        push(&scheduler, 0, table(0), task);
    }
    assert_eq!((asleep(&scheduler, 1), asleep(&scheduler, 2)), (0, 1));
    // Before it looks there, its own group is given a task, which comes first.
    push(&scheduler, 1, table(1), 10);
    let found = scheduler.next(&mut locals[1]);
    assert!(matches!(found, Some(Found::Task(10, StealLevel::Own))));
    assert_eq!(queued(&scheduler, 0), 2);
    assert_eq!(asleep(&scheduler, 2), 0, "worker 2 is called in its place");
}

#[test]
fn a_queue_that_moves_calls_as_many_helpers_as_it_has_tasks() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..2, 2..3, 3..4]);
    // One waiting task is not worth a crossing, neither here nor there.
    push(&scheduler, 0, table(0), 1);
    push(&scheduler, 1, table(1), 2);
    for local in &mut locals[2..] {
        to_bed(&scheduler, local);
    }
    assert!(scheduler.staff(&[false, true, true, true], |_| 1));
    assert_eq!(queued(&scheduler, 1), 2);
    assert_eq!((asleep(&scheduler, 2), asleep(&scheduler, 3)), (0, 0));
}

#[test]
fn a_thief_that_comes_second_leaves_what_is_below_the_price() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..2, 2..3]);
    for task in [1, 2] {
        push(&scheduler, 0, table(0), task);
    }
    let first = scheduler.next(&mut locals[1]);
    assert!(matches!(first, Some(Found::Task(1, IDLE))));
    // Worker 2 has looked before that.
    scheduler.groups.overloaded.insert(0);
    let second = scheduler.finder(&mut locals[2]).rest();
    assert!(
        matches!(second, Resting::LookAgain),
        "one task waits, the price is two"
    );
    assert_eq!(queued(&scheduler, 0), 1);
}

#[test]
fn a_call_leaves_sleepers_until_those_that_were_called_have_left() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..5]);
    // Worker 1 is inside a task of its own group, 2 to 4 sleep. Who is called is at home until it leaves: then a
    // quarter is. The next is called by whoever leaves, or by the monitor thread.
    push(&scheduler, 1, table(1), 1);
    assert!(scheduler.next(&mut locals[1]).is_some());
    for local in &mut locals[2..] {
        to_bed(&scheduler, local);
    }
    for task in 10..20 {
        push(&scheduler, 0, table(0), task);
    }
    assert_eq!(asleep(&scheduler, 1), 2);
    assert_eq!(
        chiplet_policy::route::nearest_spare(&scheduler.groups, scheduler.crossing(), 0),
        None
    );
}

#[test]
fn a_task_that_has_waited_too_long_is_worth_crossing_for() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..4, 4..6]);
    push(&scheduler, 1, table(1), 1);
    assert!(scheduler.next(&mut locals[4]).is_some());
    to_bed(&scheduler, &mut locals[5]);
    // The four workers of group 0 are inside long tasks. One more task is less than any price.
    push(&scheduler, 0, table(0), 10);
    let pushed = scheduler.clock.now();
    assert!(scheduler.look(pushed + Duration::from_millis(1), |_| ()));
    assert_eq!(asleep(&scheduler, 1), 1, "there is time yet");
    assert!(scheduler.look(pushed + Duration::from_millis(5), |_| ()));
    assert_eq!(asleep(&scheduler, 1), 0);
    locals[5].now = pushed + Duration::from_millis(5);
    let found = scheduler.finder(&mut locals[5]).rest();
    assert!(matches!(found, Resting::Found(Found::Task(10, IDLE))));
    assert!(
        !scheduler.look(pushed + Duration::from_millis(9), |_| ()),
        "nothing waits"
    );
}

#[test]
fn a_task_that_is_handed_over_costs_what_all_hands_have_given_to_it() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..2]);
    let micros = Duration::from_micros;
    for (group, stealing) in [(0, false), (1, true)] {
        for task in 0..4 {
            push(&scheduler, group, table(group as u32), task);
        }
        let found = scheduler.next(&mut locals[0]);
        assert!(matches!(found, Some(Found::Task(..))));
        assert_eq!(locals[0].steal_order.is_away(), stealing);
        let started = scheduler.clock.now();
        locals[0].present().start(started);
        // It has waited for 50 us of these, and hands that leave up to 30 us later have worked for 400.
        let late = locals[0].hand_over(started + micros(250), micros(50));
        scheduler.end_late(late, started + micros(280), micros(400));
        let backlog = scheduler.groups.lock(group).queue.backlog(started);
        match stealing {
            false => assert_eq!(backlog.service, 600_000),
            true => assert_eq!(backlog.service, 0, "that is the mean at home"),
        }
        let _ = scheduler.empty(group);
    }
}

#[test]
fn a_task_that_is_left_to_a_spinning_worker_is_not_left_to_it_for_long() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..4, 4..5]);
    locals[1..4]
        .iter_mut()
        .for_each(|local| to_bed(&scheduler, local));
    assert!(scheduler.groups.lock(0).spin());
    assert!(!scheduler.monitor.is_armed());
    let pushed = scheduler.clock.now();
    scheduler
        .push(0, table(0), &Terms::default(), 1, pushed)
        .unwrap();
    assert_eq!(asleep(&scheduler, 0), 3);
    assert!(
        scheduler.monitor.is_armed(),
        "the spinning worker may lose its core"
    );
    assert!(scheduler.look(pushed + Duration::from_millis(1), |_| ()));
    assert_eq!(asleep(&scheduler, 0), 3, "it is about to take it");
    assert!(scheduler.look(pushed + Duration::from_millis(2), |_| ()));
    assert_eq!(asleep(&scheduler, 0), 2);
}

#[test]
fn a_bulk_task_that_is_left_to_a_spinning_worker_waits_no_longer_than_others() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..2, 2..3]);
    to_bed(&scheduler, &mut locals[1]);
    assert!(scheduler.groups.lock(0).spin());
    let pushed = scheduler.clock.now();
    let bulk = Terms {
        class: chiplet_table::Class::Bulk,
        ..Terms::default()
    };
    scheduler
        .push_all(0, table(0), &bulk, vec![(1, 1)], pushed)
        .unwrap();
    assert!(scheduler.monitor.is_armed());
    assert!(scheduler.look(pushed + Duration::from_millis(2), |_| ()));
    assert_eq!(asleep(&scheduler, 0), 0);
}

#[test]
fn a_thief_goes_on_with_the_table_that_it_has_warmed() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..2]);
    for task in 0..8 {
        push(&scheduler, 0, table(task % 2), task);
    }
    let later = scheduler.clock.now() + Duration::from_millis(1);
    let taken: Vec<u32> = (0..4)
        .map(|_| {
            locals[1].end_task(later, Duration::ZERO, Duration::ZERO);
            match scheduler.next(&mut locals[1]) {
                Some(Found::Task(task, IDLE)) => task,
                _ => panic!("there is enough to take"),
            }
        })
        .collect();
    assert_eq!(taken, [0, 2, 4, 6]);
}

#[test]
fn a_worker_steals_while_busy_from_a_queue_that_has_fallen_behind_unless_it_is_to_stand_by() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..3]);
    let began = scheduler.clock.now();
    let later = began + Duration::from_secs(1);
    let push_at = |group, task, at| {
        let pushed = scheduler.push(group, table(group as u32), &Terms::default(), task, at);
        pushed.unwrap();
    };
    // Worker 1 stands by from now on; worker 2 does not.
    assert!(scheduler.staff(&[true, false, true], |_| 0));
    for task in 1..5 {
        push_at(0, task, began);
        push_at(1, 10 * task, later);
    }
    for (worker, relieves) in [(1, false), (2, true)] {
        let local = &mut locals[worker];
        local.now = later + Duration::from_millis(1);
        let level = scheduler
            .finder(local)
            .steal_while_busy(0)
            .map(|(_, level)| level);
        assert_eq!(level, relieves.then_some(BUSY), "worker {worker}");
    }
}
