//! The inbox's order of service, and the hub's ladder step by step on one thread.

use std::time::{Duration, Instant};

use chiplet_policy::{StealConfig, StealRule, TableId};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use super::inbox::{Inbox, Run};
use super::ladder::Rest;
use super::*;

const fn table(slot: u32) -> TableId {
    TableId {
        slot,
        generation: 0,
    }
}

fn discipline(run_length: u32) -> Discipline {
    Discipline {
        run_length,
        patience: Duration::MAX,
        limit: 100,
        table_limit: 100,
    }
}

fn inbox(run_length: u32, tasks: &[(u32, u32)]) -> Inbox<u32> {
    let mut inbox = Inbox::new(discipline(run_length));
    for &(slot, task) in tasks {
        inbox.push(table(slot), task).unwrap();
    }
    inbox
}

fn drain(inbox: &mut Inbox<u32>, worker: usize) -> Vec<u32> {
    let mut run = Run::default();
    std::iter::from_fn(|| {
        inbox
            .take(worker, &mut run, Instant::now())
            .map(|taken| taken.task)
    })
    .collect()
}

#[test]
fn a_run_length_of_one_is_first_in_first_out() {
    let mut inbox = inbox(1, &[(0, 1), (1, 2), (0, 3), (2, 4)]);
    assert_eq!(drain(&mut inbox, 0), [1, 2, 3, 4]);
}

#[test]
fn a_worker_stays_with_a_table_for_a_run_then_turns_to_the_one_that_waited_longest() {
    let mut inbox = inbox(2, &[(0, 1), (1, 10), (0, 2), (0, 3), (1, 11), (2, 20)]);
    assert_eq!(drain(&mut inbox, 0), [1, 2, 10, 11, 20, 3]);
}

#[test]
fn a_run_ends_early_when_another_table_has_waited_too_long() {
    let mut inbox = Inbox::new(Discipline {
        patience: Duration::ZERO,
        ..discipline(16)
    });
    for (slot, task) in [(0, 1), (0, 2), (1, 10), (1, 11)] {
        inbox.push(table(slot), task).unwrap();
    }
    assert_eq!(drain(&mut inbox, 0), [1, 10, 2, 11]);
}

#[test]
fn a_run_ends_early_for_a_table_that_came_after_the_run_began() {
    let mut inbox = Inbox::new(Discipline {
        patience: Duration::ZERO,
        ..discipline(16)
    });
    let mut run = Run::default();
    for task in [1, 2, 3] {
        inbox.push(table(0), task).unwrap();
    }
    assert_eq!(inbox.take(0, &mut run, Instant::now()).unwrap().task, 1);
    // The table of the run stands in front of it.
    inbox.push(table(1), 10).unwrap();
    assert_eq!(inbox.take(0, &mut run, Instant::now()).unwrap().task, 10);
}

#[test]
fn a_cold_table_waits_for_one_run_of_a_hot_one_however_many_tasks_that_has() {
    let hot: Vec<(u32, u32)> = (0..60).map(|task| (0, task)).collect();
    let mut inbox = inbox(4, &hot);
    inbox.push(table(1), 1_000).unwrap();
    let order = drain(&mut inbox, 0);
    assert_eq!(order.iter().position(|&task| task == 1_000), Some(4));
}

#[test]
fn no_table_is_passed_over_for_ever_by_workers_that_prefer_their_own() {
    let mut inbox = inbox(1 << 20, &[(0, 1)]);
    let now = Instant::now();
    // Worker 1 has run table 0 last, and now has other things to do.
    inbox.take(1, &mut Run::default(), now).unwrap();
    inbox.push(table(0), 2).unwrap();
    let mut before = 0;
    loop {
        inbox.push(table(1), 10).unwrap();
        if inbox.take(0, &mut Run::default(), now).unwrap().task == 2 {
            break;
        }
        before += 1;
        assert!(before <= 8, "passed over {before} times");
    }
    assert!(before > 0, "worker 0 prefers its own table");
}

#[test]
fn a_worker_returns_to_the_table_it_ran_last_and_others_count_as_siblings() {
    let mut inbox = inbox(1 << 20, &[(0, 1), (1, 10)]);
    let (mut run_a, mut run_b) = (Run::default(), Run::default());
    assert_eq!(inbox.take(0, &mut run_a, Instant::now()).unwrap().task, 1);
    assert_eq!(inbox.take(1, &mut run_b, Instant::now()).unwrap().task, 10);
    for task in [(0, 2), (1, 11)] {
        inbox.push(table(task.0), task.1).unwrap();
    }
    let second = inbox.take(1, &mut Run::default(), Instant::now()).unwrap();
    assert_eq!(
        (second.task, second.from_sibling),
        (11, false),
        "its own table, though not in front"
    );
    let first = inbox.take(1, &mut Run::default(), Instant::now()).unwrap();
    assert_eq!((first.task, first.from_sibling), (2, true));
}

/// One worker, a clock of its own, and an inbox whose runs end as soon as another table waits.
struct Bench {
    inbox: Inbox<u32>,
    run: Run,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self::with(Inbox::new(Discipline {
            patience: Duration::from_millis(1),
            ..discipline(16)
        }))
    }

    fn with(inbox: Inbox<u32>) -> Self {
        Self {
            inbox,
            run: Run::default(),
            now: Instant::now(),
        }
    }

    /// Runs the next task, which takes this long; gives its number.
    fn run(&mut self, lasting: Duration) -> u32 {
        let taken = self.inbox.take(0, &mut self.run, self.now).unwrap();
        self.now += lasting;
        self.run.tell(self.now);
        taken.task
    }
}

const QUERY: Duration = Duration::from_millis(2);

#[test]
fn a_table_that_asks_for_little_waits_for_none_that_asks_for_much() {
    let mut bench = Bench::new();
    let (noisy, quiet) = (table(0), [table(1), table(2)]);
    for task in 0..40 {
        bench.inbox.push(noisy, task).unwrap();
    }
    assert_eq!((0..20).map(|_| bench.run(QUERY)).sum::<u32>(), 190);
    // Two of one table and one of another, behind 20 of the noisy one: they need not take turns with it.
    for (table, task) in [(quiet[0], 100), (quiet[0], 101), (quiet[1], 200)] {
        bench.inbox.push(table, task).unwrap();
    }
    let order: Vec<u32> = (0..4).map(|_| bench.run(QUERY)).collect();
    assert_eq!(order, [100, 200, 101, 20]);
    // Long ago it was noisy; now it asks for as little as the others, and takes turns with them.
    assert!(bench.inbox.extract(None, |_| true).len() == 19);
    for task in 1_000..1_400 {
        bench.inbox.push(table(3), task).unwrap_or_default();
        bench.run(QUERY);
    }
    for task in [1, 2] {
        bench.inbox.push(noisy, task).unwrap();
        bench.inbox.push(quiet[0], 100 + task).unwrap();
    }
    let order: Vec<u32> = (0..4).map(|_| bench.run(QUERY)).collect();
    assert_eq!(order, [1, 101, 2, 102]);
}

#[test]
fn tables_that_are_asked_alike_take_turns_whichever_was_served_a_little_less() {
    let mut bench = Bench::new();
    let tasks = || (0..3).flat_map(|round| (0..4).map(move |slot| (slot, 10 * slot + round)));
    for (slot, task) in tasks() {
        bench.inbox.push(table(slot), task).unwrap();
    }
    // Table 3 is twice as quick to search as table 0.
    let lasting = |task: u32| QUERY - QUERY * (task / 10) / 6;
    let order: Vec<u32> = tasks()
        .map(|(_, task)| (task, bench.run(lasting(task))).1)
        .collect();
    assert_eq!(order, tasks().map(|(_, task)| task).collect::<Vec<u32>>());
}

#[test]
fn with_endless_patience_only_the_length_of_a_run_ends_it() {
    let tasks = (0..4).flat_map(|task| [(0, task), (1, 10 + task)]);
    let mut bench = Bench::with(inbox(2, &tasks.collect::<Vec<_>>()));
    let order: Vec<u32> = (0..8).map(|_| bench.run(QUERY)).collect();
    assert_eq!(order, [0, 1, 10, 11, 2, 3, 12, 13]);
}

#[test]
fn a_noisy_table_is_not_passed_over_for_ever() {
    let mut bench = Bench::new();
    for task in 0..40 {
        bench.inbox.push(table(0), task).unwrap();
    }
    for _ in 0..30 {
        bench.run(QUERY);
    }
    let mut before = 0;
    loop {
        bench.inbox.push(table(1), 100).unwrap();
        if bench.run(QUERY / 2) == 30 {
            break;
        }
        before += 1;
        assert!(before <= 8, "passed over {before} times");
    }
    assert!(before > 1, "the table that asks for little goes first");
}

#[test]
fn bounds_are_exact_and_a_refused_task_comes_back() {
    let mut inbox = Inbox::new(Discipline {
        limit: 3,
        table_limit: 2,
        ..discipline(16)
    });
    inbox.push(table(0), 1).unwrap();
    inbox.push(table(0), 2).unwrap();
    assert_eq!(inbox.push(table(0), 3), Err((Refusal::TableFull, 3)));
    inbox.push(table(1), 4).unwrap();
    assert_eq!(inbox.push(table(1), 5), Err((Refusal::GroupFull, 5)));
    inbox.take(0, &mut Run::default(), Instant::now()).unwrap();
    inbox.push(table(1), 5).unwrap();
    inbox.close();
    assert_eq!(inbox.push(table(1), 6), Err((Refusal::Closed, 6)));
}

#[test]
fn extracting_the_dead_keeps_the_order_of_the_living() {
    for run_length in [1, 16] {
        let mut inbox = inbox(run_length, &[(0, 1), (0, 2), (1, 3), (0, 4), (1, 5)]);
        let mut dead: Vec<u32> = inbox
            .extract(None, |task| task % 2 == 0)
            .into_iter()
            .map(|t| t.1)
            .collect();
        dead.sort_unstable();
        assert_eq!(dead, [2, 4]);
        assert_eq!(inbox.queued(), 3);
        let mut left = drain(&mut inbox, 0);
        left.sort_unstable();
        assert_eq!(left, [1, 3, 5]);
    }
}

#[test]
fn only_the_full_table_is_searched_for_the_dead() {
    for run_length in [1, 16] {
        let mut inbox = inbox(run_length, &[(0, 1), (1, 2), (0, 3), (1, 4)]);
        let of_one = inbox.extract(Some(table(1)), |_| true);
        assert_eq!(of_one, [(table(1), 2), (table(1), 4)]);
        assert!(inbox.extract(Some(table(7)), |_| true).is_empty());
        assert_eq!(
            inbox.extract(None, |_| true),
            [(table(0), 1), (table(0), 3)]
        );
        assert_eq!(inbox.queued(), 0);
    }
}

#[test]
fn time_after_a_task_that_had_ended_in_the_queue_is_nobodys_service() {
    let mut inbox = Inbox::new(Discipline {
        patience: Duration::from_millis(1),
        ..discipline(16)
    });
    let mut run = Run::default();
    let start = Instant::now();
    let minute = start + Duration::from_secs(60);
    let (quiet, noisy) = (table(0), table(1));
    // It was cancelled while it waited, so nobody says when it ended. The worker sleeps, and then scans for a sibling.
    inbox.push(quiet, 1).unwrap();
    inbox.take(0, &mut run, start).unwrap();
    assert!(inbox.take(0, &mut run, start).is_none());
    run.tell(minute);
    // The other table is served for a while; what it was served counts when the worker turns to a third.
    inbox.push(noisy, 10).unwrap();
    inbox.take(0, &mut run, minute).unwrap();
    let later = minute + Duration::from_millis(500);
    run.tell(later);
    inbox.push(table(2), 20).unwrap();
    inbox.take(0, &mut run, later).unwrap();
    for (table, task) in [(noisy, 11), (quiet, 2)] {
        inbox.push(table, task).unwrap();
    }
    let next = inbox.take(1, &mut Run::default(), later).unwrap();
    assert_eq!(next.task, 2, "the quiet table goes first");
}

fn hub(stealing: StealRule, groups: &[Range<usize>]) -> (Hub<u32, u32>, Vec<Local<u32>>) {
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
        stealing,
        units_anywhere: stealing == StealRule::Anywhere,
        steal: StealConfig { cold_factor: 2.0 },
        discipline: discipline(16),
    };
    Hub::new(rules, specs)
}

fn asleep(hub: &Hub<u32, u32>, group: usize) -> usize {
    hub.inbox(group).lock().sleepers.len()
}

/// Makes a worker a sleeper, as it is just before it parks.
fn to_bed(hub: &Hub<u32, u32>, local: &mut Local<u32>) {
    assert!(matches!(hub.rest(local), Rest::Park));
}

#[test]
fn a_park_that_an_old_token_ends_leaves_no_sleeper_behind() {
    let (hub, mut locals) = hub(StealRule::Anywhere, &[0..1, 1..2]);
    hub.unpark(1);
    to_bed(&hub, &mut locals[1]);
    hub.sleep(&mut locals[1]);
    assert_eq!(
        asleep(&hub, 1),
        0,
        "a push would call a worker that is awake"
    );
    to_bed(&hub, &mut locals[1]);
    assert_eq!(
        asleep(&hub, 1),
        1,
        "and it is listed once, so its group is spare again"
    );
    hub.push(0, table(0), 1, 0).unwrap();
    assert_eq!(asleep(&hub, 1), 0, "it is called to help");
}

fn rung<T: Copy, U: Copy>(found: &Found<T, U>) -> Rung {
    match *found {
        Found::Task(_, rung) | Found::Unit(_, rung) => rung,
    }
}

#[test]
fn the_ladder_goes_own_units_own_queue_sibling_units_then_across() {
    let (hub, mut locals) = hub(StealRule::Ladder, &[0..2, 2..4]);
    let mut thief = locals.remove(1);
    hub.push(0, table(0), 1, 0).unwrap();
    // Three tasks exceed two workers times (cold factor - 1): worth crossing for.
    for task in 10..13 {
        hub.push(1, table(1), task, 0).unwrap();
    }
    hub.push_units(&thief, [100].into_iter());
    hub.push_units(&locals[0], [200].into_iter());
    let climbed: Vec<Rung> = (0..3)
        .map(|_| rung(&hub.next(&mut thief).unwrap()))
        .collect();
    assert_eq!(climbed, [Rung::Own, Rung::Own, Rung::Domain]);
    // Its sibling is not idle as far as the hub knows, so it may not cross yet; once the sibling has gone to
    // sleep, it may. With the hub closed nobody parks, which lets one thread take both parts.
    hub.close();
    assert_eq!(rung(&hub.next(&mut thief).unwrap()), Rung::Remote);
    assert!(
        hub.next(&mut thief).is_none(),
        "two tasks are left: their own domain is as quick"
    );
}

#[test]
fn without_stealing_nothing_leaves_its_group() {
    let (hub, mut locals) = hub(StealRule::Never, &[0..2, 2..4]);
    for task in 0..20 {
        hub.push(1, table(1), task, 0).unwrap();
    }
    hub.close();
    assert!(hub.next(&mut locals[0]).is_none());
    let mut ran = 0;
    while hub.next(&mut locals[2]).is_some() {
        ran += 1;
    }
    assert_eq!(ran, 20);
}

#[test]
fn a_call_for_help_is_passed_on_when_the_called_worker_finds_work_at_home() {
    let (hub, mut locals) = hub(StealRule::Ladder, &[0..1, 1..2, 2..3]);
    to_bed(&hub, &mut locals[1]);
    to_bed(&hub, &mut locals[2]);
    // Group 0's worker is busy. Its second waiting task is worth a crossing: worker 1 is called.
    for task in [1, 2] {
        hub.push(0, table(0), task, 0).unwrap();
    }
    assert_eq!((asleep(&hub, 1), asleep(&hub, 2)), (0, 1));
    // Before it looks there, its own group is given a task, which comes first.
    hub.push(1, table(1), 10, 0).unwrap();
    let found = hub.next(&mut locals[1]);
    assert!(matches!(found, Some(Found::Task(10, Rung::Own))));
    assert_eq!(hub.inbox(0).lock().queued(), 2);
    assert_eq!(asleep(&hub, 2), 0, "worker 2 is called in its place");
}

#[test]
fn a_queue_that_moves_calls_as_many_helpers_as_it_has_tasks() {
    let (hub, mut locals) = hub(StealRule::Ladder, &[0..1, 1..2, 2..3, 3..4]);
    // One waiting task is not worth a crossing, neither here nor there.
    hub.push(0, table(0), 1, 0).unwrap();
    hub.push(1, table(1), 2, 0).unwrap();
    for local in &mut locals[2..] {
        to_bed(&hub, local);
    }
    assert!(hub.staff(&[false, true, true, true], |_| 1));
    assert_eq!(hub.inbox(1).lock().queued(), 2);
    assert_eq!((asleep(&hub, 2), asleep(&hub, 3)), (0, 0));
}

#[test]
fn a_thief_that_comes_second_leaves_what_is_below_the_price() {
    let (hub, mut locals) = hub(StealRule::Ladder, &[0..1, 1..2, 2..3]);
    for task in [1, 2] {
        hub.push(0, table(0), task, 0).unwrap();
    }
    let first = hub.next(&mut locals[1]);
    assert!(matches!(first, Some(Found::Task(1, Rung::Remote))));
    // Worker 2 has looked at the length before that.
    hub.groups[0].queued.store(2, Ordering::Release);
    let second = hub.rest(&mut locals[2]);
    assert!(
        matches!(second, Rest::LookAgain),
        "one task waits, the price is two"
    );
    assert_eq!(hub.inbox(0).lock().queued(), 1);
}

proptest! {
    #[test]
    fn every_pushed_task_is_taken_exactly_once_and_in_order_within_its_table(
        tasks in prop::collection::vec((0_u32..5, 0_usize..4), 1..80),
        run_length in 1_u32..6,
    ) {
        let mut inbox = Inbox::new(discipline(run_length));
        let mut runs = [Run::default(); 3];
        let mut taken = Vec::new();
        for (number, &(slot, takes)) in tasks.iter().enumerate() {
            inbox.push(table(slot), (slot, number)).unwrap();
            for (worker, run) in runs.iter_mut().enumerate().take(takes) {
                taken.extend(inbox.take(worker, run, Instant::now()).map(|taken| taken.task));
            }
            if takes == 3 {
                taken.extend(inbox.take_for_thief());
            }
        }
        while let Some(rest) = inbox.take(0, &mut runs[0], Instant::now()) {
            taken.push(rest.task);
        }
        prop_assert_eq!(taken.len(), tasks.len());
        for slot in 0..5 {
            let order: Vec<usize> =
                taken.iter().filter(|task| task.0 == slot).map(|task| task.1).collect();
            prop_assert!(order.is_sorted());
        }
        prop_assert_eq!(inbox.queued(), 0);
    }
}
