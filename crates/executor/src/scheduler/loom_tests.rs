//! Every interleaving of the production scheduler, on machines small enough to finish: `make loom`.
//!
//! A worker that sleeps through a task leaves the model with all threads blocked, which loom reports as a
//! deadlock. So each test only needs to run workers until they have seen what was submitted.

use std::ops::Range;

use chiplet_policy::group::PublishedLoads;
use chiplet_policy::queue::Run;
use chiplet_policy::{StealConfig, StealLevel, TableId};
use chiplet_topology::DomainId;
use loom::sync::Arc;
use loom::thread;

use super::find_task::Resting;
use super::*;
use crate::checks::checks;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering;

const TABLE: TableId = TableId {
    slot: 0,
    generation: 0,
};

type TestScheduler = Scheduler<u32, u32>;

/// Open for ever.
impl Invite for u32 {
    fn is_open(&self) -> bool {
        true
    }
}

/// Nothing is worth crossing for.
const NEVER: StealConfig = FREE.cold_factor(None);

/// Whatever waits is worth crossing for.
const FREE: StealConfig = StealConfig::new()
    .cold_factor(Some(1.0))
    .cold_limit(Duration::ZERO)
    .max_wait(Duration::from_millis(4));

fn scheduler(steal: StealConfig, groups: &[Range<usize>]) -> (Arc<TestScheduler>, Vec<Local<u32>>) {
    scheduler_with(steal, groups, 0)
}

/// Whose groups may spill.
fn spilling() -> (Arc<TestScheduler>, Vec<Local<u32>>) {
    scheduler_with(StealConfig::default(), &[0..1, 1..2], 0)
}

fn scheduler_with(
    steal: StealConfig,
    groups: &[Range<usize>],
    substitutes: usize,
) -> (Arc<TestScheduler>, Vec<Local<u32>>) {
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
            run_length: 1,
            reorder: 0.2,
            limit: 8,
            table_limit: 8,
            bulk_weight: Discipline::BULK_WEIGHT,
        },
    };
    let (scheduler, locals) = Scheduler::new(rules, specs);
    (Arc::new(scheduler), locals)
}

fn push(
    scheduler: &TestScheduler,
    group: usize,
    table: TableId,
    task: u32,
) -> Result<(), (Refusal, u32)> {
    let pushed = scheduler.push(group, table, &Terms::default(), task, scheduler.clock.now());
    pushed.map(|(pace, _)| pace).map(drop)
}

/// Runs until the scheduler is closed; returns how many tasks and invitations it ran.
fn work(scheduler: &TestScheduler, mut local: Local<u32>) -> u32 {
    let mut ran = 0;
    while scheduler.next(&mut local).is_some() {
        ran += 1;
    }
    ran
}

/// Runs exactly `count` things, parking in between; a lost wake-up blocks it for ever.
fn work_for(scheduler: &TestScheduler, local: &mut Local<u32>, count: u32) {
    for _ in 0..count {
        assert!(scheduler.next(local).is_some());
    }
}

/// Workers that close the scheduler when two tasks have run. Nobody else does: a task that is slept through leaves
/// everybody blocked.
fn until_two_ran(
    scheduler: &Arc<TestScheduler>,
    locals: Vec<Local<u32>>,
    ran: &Arc<AtomicU32>,
) -> Vec<thread::JoinHandle<()>> {
    let start = |mut local| {
        let (scheduler, ran) = (Arc::clone(scheduler), Arc::clone(ran));
        thread::spawn(move || {
            while scheduler.next(&mut local).is_some() {
                if ran.fetch_add(1, Ordering::AcqRel) == 1 {
                    scheduler.close();
                }
            }
        })
    };
    locals.into_iter().map(start).collect()
}

fn one_worker_sees_every_task_of_two_submitters() {
    let (scheduler, mut locals) = scheduler(NEVER, &[0..1]);
    let submitters: Vec<_> = (0..2)
        .map(|task| {
            let scheduler = Arc::clone(&scheduler);
            thread::spawn(move || push(&scheduler, 0, TABLE, task).unwrap())
        })
        .collect();
    work_for(&scheduler, &mut locals[0], 2);
    for submitter in submitters {
        submitter.join().unwrap();
    }
}

fn two_workers_and_a_submitter_lose_nothing_until_the_close() {
    let (scheduler, locals) = scheduler(StealConfig::default(), &[0..2]);
    let workers: Vec<_> = locals
        .into_iter()
        .map(|local| {
            let scheduler = Arc::clone(&scheduler);
            thread::spawn(move || work(&scheduler, local))
        })
        .collect();
    push(&scheduler, 0, TABLE, 1).unwrap();
    scheduler.close();
    let ran: u32 = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .sum();
    assert_eq!(ran, 1);
}

fn two_workers_and_two_submitters_lose_nothing() {
    let (scheduler, locals) = scheduler(StealConfig::default(), &[0..2]);
    let ran = Arc::new(AtomicU32::new(0));
    let workers = until_two_ran(&scheduler, locals, &ran);
    let other = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || push(&scheduler, 0, TABLE, 1).unwrap())
    };
    push(&scheduler, 0, TABLE, 2).unwrap();
    other.join().unwrap();
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    assert_eq!(ran.load(Ordering::Acquire), 2);
}

fn two_workers_and_tasks_pushed_together_lose_nothing() {
    let (scheduler, locals) = scheduler(StealConfig::default(), &[0..2]);
    let ran = Arc::new(AtomicU32::new(0));
    let workers = until_two_ran(&scheduler, locals, &ran);
    let pushed = scheduler.push_all(
        0,
        TABLE,
        &Terms::default(),
        vec![(1, 1), (2, 1)],
        scheduler.clock.now(),
    );
    assert!(pushed.is_ok());
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    assert_eq!(ran.load(Ordering::Acquire), 2);
}

fn an_idle_group_hears_of_work_worth_crossing_for() {
    // Two groups of one worker. Group 0's worker never comes, so group 1's must take what is pushed there;
    // with the default price of one service time, from the second task on.
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..2]);
    let submitter = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || {
            push(&scheduler, 0, TABLE, 1).unwrap();
            push(&scheduler, 0, TABLE, 2).unwrap();
        })
    };
    work_for(&scheduler, &mut locals[1], 1);
    submitter.join().unwrap();
}

fn a_group_with_one_worker_stealing_hears_of_another_groups_work() {
    // Groups 0 and 1 never serve themselves. Group 2 has three workers, of which it keeps one, and each of the two
    // queues gets as long as is worth one crossing: each of the others finds one task.
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..2, 2..5]);
    let mut kept = locals.pop().unwrap();
    assert!(matches!(scheduler.finder(&mut kept).rest(), Resting::Park));
    for task in [1, 2] {
        push(&scheduler, 0, TABLE, task).unwrap();
    }
    let mut second = locals.pop().unwrap();
    let mut first = locals.pop().unwrap();
    let other = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || work_for(&scheduler, &mut second, 1))
    };
    let submitter = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || {
            for task in [3, 4] {
                push(&scheduler, 1, TABLE, task).unwrap();
            }
        })
    };
    work_for(&scheduler, &mut first, 1);
    submitter.join().unwrap();
    other.join().unwrap();
}

fn a_call_for_help_outlives_work_at_home() {
    // Group 0 never serves itself. Groups 1 and 2 have a worker each; whichever is called for group 0, a task of group
    // 1 keeps its worker busy from then on, and the other has to go.
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..1, 1..2, 2..3]);
    let (mut free, mut busy) = (locals.pop().unwrap(), locals.pop().unwrap());
    const OWN: u32 = 3;
    let ran = Arc::new(AtomicU32::new(0));
    let one_more = |scheduler: &TestScheduler, ran: &AtomicU32| {
        if ran.fetch_add(1, Ordering::AcqRel) == 1 {
            scheduler.close();
            // A worker stays for as long as something waits elsewhere, and nobody serves group 0.
            for group in 0..3 {
                let _ = scheduler.empty(group);
            }
        }
    };
    let at_home = {
        let (scheduler, ran) = (Arc::clone(&scheduler), Arc::clone(&ran));
        thread::spawn(move || {
            while let Some(Found::Task(task, _)) = scheduler.next(&mut busy) {
                one_more(&scheduler, &ran);
                if task == OWN {
                    break;
                }
            }
        })
    };
    let elsewhere = {
        let (scheduler, ran) = (Arc::clone(&scheduler), Arc::clone(&ran));
        thread::spawn(move || {
            while scheduler.next(&mut free).is_some() {
                one_more(&scheduler, &ran);
            }
        })
    };
    for (group, task) in [(0, 1), (0, 2), (1, OWN)] {
        push(&scheduler, group, TABLE, task).unwrap();
    }
    at_home.join().unwrap();
    elsewhere.join().unwrap();
}

fn an_invitation_reaches_a_sibling_that_is_going_to_sleep() {
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..2]);
    let mut sibling = locals.pop().unwrap();
    let owner = locals.pop().unwrap();
    let thief = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || work_for(&scheduler, &mut sibling, 1))
    };
    // The owner is busy elsewhere and never takes what it has left: the sibling must.
    scheduler.invite(&owner, 1, 1, 1);
    thief.join().unwrap();
}

fn what_a_worker_has_left_for_a_task_reaches_a_sibling_that_is_going_to_sleep() {
    // A helper has given way to a task. If it gets that, it never comes back to what it has left; else it goes on
    // there.
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..2]);
    let mut sibling = locals.pop().unwrap();
    let mut helper = locals.pop().unwrap();
    push(&scheduler, 0, TABLE, 1).unwrap();
    helper.postpone(1, StealLevel::Domain);
    let other = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || scheduler.next(&mut sibling).is_some())
    };
    assert!(scheduler.next(&mut helper).is_some());
    assert!(other.join().unwrap());
}

fn a_task_is_seen_to_though_who_was_to_take_it_joins_another() {
    // Group 0's first worker never comes back, and its second does one thing. If that is what the first has shared
    // out, the task waits, and the timed look has to know of it: the task may have been pushed while the second was
    // looking.
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..2, 2..3]);
    let mut sibling = locals.remove(1);
    let owner = locals.remove(0);
    let joined = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || matches!(scheduler.next(&mut sibling), Some(Found::Invitation(..))))
    };
    scheduler.invite(&owner, 1, 1, 1);
    push(&scheduler, 0, TABLE, 1).unwrap();
    if joined.join().unwrap() {
        scheduler.monitor.park();
    }
}

fn a_task_left_to_a_spinning_worker_that_loses_its_core_wakes_a_sleeper_in_time() {
    // The first worker spins, and never comes back.
    let (scheduler, mut locals) = scheduler(StealConfig::default(), &[0..2]);
    assert!(scheduler.groups.lock(0).spin());
    let submitter = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || push(&scheduler, 0, TABLE, 1).unwrap())
    };
    let sibling = &mut locals[1];
    if matches!(scheduler.finder(sibling).rest(), Resting::Park) {
        // The thread of the timed look, when the task has waited long enough.
        scheduler.monitor.park();
        assert!(scheduler.look(scheduler.clock.now() + Duration::from_secs(1), |_| ()));
        scheduler.finder(sibling).sleep();
    }
    assert!(matches!(scheduler.next(sibling), Some(Found::Task(..))));
    submitter.join().unwrap();
}

fn a_push_against_the_close_is_run_or_refused() {
    let (scheduler, mut locals) = scheduler(NEVER, &[0..1]);
    let submitter = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || u32::from(push(&scheduler, 0, TABLE, 1).is_ok()))
    };
    let closer = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || scheduler.close())
    };
    let mut ran = 0;
    while scheduler.next(&mut locals[0]).is_some() {
        ran += 1;
    }
    closer.join().unwrap();
    assert_eq!(submitter.join().unwrap(), ran);
}

fn an_old_token_does_not_make_a_worker_deaf() {
    // Group 0's worker never comes. The token is one that an earlier call left in worker 1's parker.
    let (scheduler, mut locals) = scheduler(FREE, &[0..1, 1..2]);
    scheduler.parkers.unpark(1);
    let submitter = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || push(&scheduler, 0, TABLE, 1).unwrap())
    };
    work_for(&scheduler, &mut locals[1], 1);
    submitter.join().unwrap();
}

fn a_worker_that_stands_by_hands_on_its_call() {
    let (scheduler, mut locals) = scheduler(NEVER, &[0..2]);
    let (mut off_duty, mut at_work) = (locals.remove(0), locals.remove(0));
    let other = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || while scheduler.next(&mut off_duty).is_some() {})
    };
    let submitter = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || {
            // Worker 0 may be asleep, spinning, or called for the task and not come yet.
            assert!(scheduler.staff(&[false, true], |_| 0));
            push(&scheduler, 0, TABLE, 1).unwrap();
        })
    };
    work_for(&scheduler, &mut at_work, 1);
    submitter.join().unwrap();
    scheduler.close();
    other.join().unwrap();
}

fn a_task_of_a_group_that_loses_its_worker_is_moved_or_refused() {
    let (scheduler, mut locals) = scheduler(NEVER, &[0..1, 1..2]);
    let (first, mut second) = (locals.remove(0), locals.remove(0));
    let other = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || work(&scheduler, first))
    };
    let submitter = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || push(&scheduler, 0, TABLE, 1).is_ok())
    };
    assert!(scheduler.staff(&[false, true], |_| 1));
    let accepted = submitter.join().unwrap();
    scheduler.close();
    let mut ran = other.join().unwrap();
    while scheduler.next(&mut second).is_some() {
        ran += 1;
    }
    assert_eq!(u32::from(accepted), ran);
}

fn a_spilled_invitation_reaches_another_group_that_is_going_to_sleep() {
    let (scheduler, mut locals) = spilling();
    let (runner, mut other) = (locals.remove(0), locals.remove(0));
    let spills = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || {
            scheduler.spill(&runner, 7, 1);
            runner
        })
    };
    work_for(&scheduler, &mut other, 1);
    let runner = spills.join().unwrap();
    assert!(scheduler.spills.take(0).is_none(), "there was one place");
    scheduler.withdraw(&runner);
    assert!(!scheduler.spills.may_be_in(0));
}

fn what_is_left_of_a_spilled_invitation_is_taken_back() {
    let (scheduler, mut locals) = spilling();
    let runner = locals.remove(0);
    let taker = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || scheduler.spills.take(0))
    };
    scheduler.spill(&runner, 7, 2);
    scheduler.withdraw(&runner);
    assert!(matches!(taker.join().unwrap(), None | Some(7)));
    assert!(!scheduler.spills.may_be_in(0));
}

fn a_thread_takes_the_place_of_the_one_that_blocks() {
    // One worker and its substitute, which has its place: the worker's task has blocked and is about to end.
    let (scheduler, mut locals) = scheduler_with(NEVER, &[0..1], 1);
    let (mut worker, mut substitute) = (locals.remove(0), scheduler.local(1));
    assert_eq!(scheduler.block(&worker), Cover::Start(1));
    scheduler.unblock(&worker);
    let blocks = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || {
            scheduler.block(&substitute);
            push(&scheduler, 0, TABLE, 1).unwrap();
            // As if it waited for that task.
            scheduler.parkers.park(substitute.worker, None);
            scheduler.unblock(&substitute);
            while scheduler.next(&mut substitute).is_some() {}
        })
    };
    work_for(&scheduler, &mut worker, 1);
    scheduler.parkers.unpark(1);
    scheduler.close();
    blocks.join().unwrap();
}

fn the_timed_look_hears_of_a_push_while_it_goes_to_rest() {
    // Group 0's worker never comes, so its task has to wait.
    let (scheduler, _locals) = scheduler(StealConfig::default(), &[0..1, 1..2]);
    scheduler.monitor.arm();
    scheduler.monitor.park();
    let submitter = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || push(&scheduler, 0, TABLE, 1).unwrap())
    };
    scheduler.disarm();
    scheduler.monitor.park();
    submitter.join().unwrap();
}

/// Group 0 knows that its tasks are short: one has run.
fn knows_short_tasks(scheduler: &TestScheduler, local: &mut Local<u32>) {
    push(scheduler, 0, TABLE, 0).unwrap();
    assert!(scheduler.next(local).is_some());
    local.end_task(scheduler.clock.now(), Duration::ZERO, Duration::ZERO);
}

/// Two short tasks wait, and the only worker takes one, with the other one ahead, and never comes back. Its thread says
/// how many it got to run.
fn only_worker_takes_of_two() -> (Arc<TestScheduler>, thread::JoinHandle<usize>) {
    let (scheduler, mut locals) = scheduler(NEVER, &[0..1]);
    let mut held_up = locals.pop().unwrap();
    knows_short_tasks(&scheduler, &mut held_up);
    for task in [1, 2] {
        push(&scheduler, 0, TABLE, task).unwrap();
    }
    let takes = {
        let scheduler = Arc::clone(&scheduler);
        thread::spawn(move || usize::from(scheduler.next(&mut held_up).is_some()))
    };
    (scheduler, takes)
}

fn a_task_that_a_sibling_has_taken_ahead_is_found_before_going_to_sleep() {
    // The first worker takes one task, and maybe another one ahead, and never comes back. Another group's worker takes
    // one, if there is any left then. The sibling gets all others.
    const TASKS: u32 = 3;
    let (scheduler, mut locals) = scheduler(NEVER, &[0..2]);
    let mut first = locals.remove(0);
    let mut sibling = locals.remove(0);
    knows_short_tasks(&scheduler, &mut first);
    let ran = Arc::new(AtomicU32::new(0));
    let one_more = |scheduler: &TestScheduler, ran: &AtomicU32| {
        if ran.fetch_add(1, Ordering::AcqRel) == TASKS - 1 {
            scheduler.close();
        }
    };
    let held_up = {
        let (scheduler, ran) = (Arc::clone(&scheduler), Arc::clone(&ran));
        thread::spawn(move || {
            for task in 1..=TASKS {
                push(&scheduler, 0, TABLE, task).unwrap();
            }
            if scheduler.next(&mut first).is_some() {
                one_more(&scheduler, &ran);
            }
            let now = scheduler.clock.now();
            let stolen = scheduler.hold(0).give(&mut Run::default(), now);
            if stolen.is_some() {
                one_more(&scheduler, &ran);
            }
        })
    };
    while scheduler.next(&mut sibling).is_some() {
        one_more(&scheduler, &ran);
    }
    held_up.join().unwrap();
    assert_eq!(ran.load(Ordering::Acquire), TASKS);
}

fn the_timed_look_puts_back_what_a_worker_has_taken_ahead_that_is_held_up() {
    // While the thread of the timed look goes to rest.
    let (scheduler, takes) = only_worker_takes_of_two();
    scheduler.disarm();
    scheduler.monitor.park();
    assert_eq!(takes.join().unwrap(), 1);
    for _ in 0..2 {
        assert_eq!(scheduler.groups.queued(0), 0);
        assert!(scheduler.look(scheduler.clock.now(), |_| ()));
    }
    assert_eq!(scheduler.groups.queued(0), 1);
}

fn what_was_taken_ahead_is_abandoned_with_the_queue() {
    let (scheduler, takes) = only_worker_takes_of_two();
    scheduler.close();
    let abandoned = scheduler.empty(0).len();
    assert_eq!(takes.join().unwrap() + abandoned, 2);
}

checks! {
    timed_look: the_timed_look_hears_of_a_push_while_it_goes_to_rest without FenceOfMonitor;
    one_worker_sees_every_task: one_worker_sees_every_task_of_two_submitters without PushWakes SpinEnds;
    two_workers: two_workers_and_a_submitter_lose_nothing_until_the_close without;
    two_of_each: two_workers_and_two_submitters_lose_nothing without PushWakes SpinEnds;
    pushed_together: two_workers_and_tasks_pushed_together_lose_nothing without PushAllWakes SpinEnds;
    idle_group: an_idle_group_hears_of_work_worth_crossing_for without FenceOfSpare;
    one_stealing: a_group_with_one_worker_stealing_hears_of_another_groups_work without FenceOfSpare;
    called: a_call_for_help_outlives_work_at_home without CallPassedOn;
    invitation: an_invitation_reaches_a_sibling_that_is_going_to_sleep without SweepBeforeParking InvitationWakes;
    postponed: what_a_worker_has_left_for_a_task_reaches_a_sibling_that_is_going_to_sleep without PostponedInvites;
    spilled: a_spilled_invitation_reaches_another_group_that_is_going_to_sleep without SpillCalls FenceOfSpare;
    withdrawn: what_is_left_of_a_spilled_invitation_is_taken_back without SpillTakenBack;
    joined: a_task_is_seen_to_though_who_was_to_take_it_joins_another without JoiningHandsOn;
    left_to_spinning: a_task_left_to_a_spinning_worker_that_loses_its_core_wakes_a_sleeper_in_time
        without SpinnersTaskArms LookWakes;
    taken_ahead: a_task_that_a_sibling_has_taken_ahead_is_found_before_going_to_sleep
        without ShownBeforeUnlock SweepOfSiblings;
    held_up: the_timed_look_puts_back_what_a_worker_has_taken_ahead_that_is_held_up without PrefetchedArms;
    abandoned_ahead: what_was_taken_ahead_is_abandoned_with_the_queue without CloseTakesBack;
    close: a_push_against_the_close_is_run_or_refused without CloseRefuses;
    old_token: an_old_token_does_not_make_a_worker_deaf without WakingLeavesList;
    stands_by: a_worker_that_stands_by_hands_on_its_call without CallHandedOn;
    blocks: a_thread_takes_the_place_of_the_one_that_blocks without BlockCallsSubstitute StandbyTakesPlace;
    loses_its_worker: a_task_of_a_group_that_loses_its_worker_is_moved_or_refused without TasksMove;
}
