//! Clients, deadlines and stalls with known answers.

use chiplet_baselines::Strategy;
use chiplet_topology::Topology;

use super::Scenario;
use crate::machine::{Costs, Machine};
use crate::outcome::Outcome;
use crate::workload::{Prepared, Recipe, Sampling};

/// A machine on which handing over takes no time, and a workload of tables of tasks, under a strategy.
fn run_with(strategy: Strategy, domains: u32, cores: u32, tables: &str) -> Outcome {
    let costs = Costs {
        task_ns: 0.0,
        task_lines: 0.0,
        wake_ns: 0.0,
        line_same_ns: 0.0,
        line_other_ns: 0.0,
        ..Costs::GENOA
    };
    let machine = Machine::new("test", Topology::uniform(domains, cores, 32 << 20), costs);
    let recipe: Recipe = format!("name='test'\n{tables}").parse().unwrap();
    let prepared = Prepared::new(recipe.workload(1), Sampling::default(), |_| ());
    Scenario::new(&machine, &prepared, strategy).run(&mut |_| ())
}

fn run(domains: u32, cores: u32, tables: &str) -> Outcome {
    run_with(Strategy::CCD_AWARE, domains, cores, tables)
}

const TASKS: &str = "[[tables]]\nkind='task'\nmicros=1000.0\n";

#[test]
fn a_closed_loop_of_one_client_asks_as_fast_as_it_is_answered() {
    let text = format!(
        "warm=1\nseconds=3\n{TASKS}count=2\nname='a'\n[[tables.asks]]\noutstanding=1\n{TASKS}count=1\n\
         name='b'\n[[tables.asks]]\nrate=100.0\n"
    );
    let outcome = run(1, 4, &text);
    let [a, b] = [&outcome.tenants[0], &outcome.tenants[1]];
    assert_eq!((a.name.as_str(), a.tables, a.done), ("a", 2, 6_002));
    assert!((a.time_share - 0.5).abs() < 1e-3, "{a:?}");
    assert!((250..350).contains(&b.done), "{b:?}");
    assert_eq!(outcome.counted, a.done + b.done);
    let each: Vec<u64> = outcome.tables.iter().map(|served| served.done).collect();
    assert_eq!(each, [3_001, 3_001, b.done]);
    // One at the very beginning of what is counted, one at the end. Seconds are told from the beginning of the run, the
    // warm-up included.
    let seconds = a.each_second.iter().map(|second| second[0]);
    assert_eq!(
        seconds.take(4).collect::<Vec<_>>(),
        [1_998, 2_000, 2_000, 2_000]
    );
}

#[test]
fn queries_expire_where_they_are_when_their_time_is_over() {
    // One worker, a task of 300 ms at the beginning; the others have 100 ms, and come one each 10 ms.
    let text = format!(
        "seconds=0.4\n{TASKS}count=1\nhome=0\n[[tables.stalls]]\nat=0.0\nms=299.0\n[[tables.asks]]\nburst=1\n\
         deadline_ms=250.0\n{TASKS}count=1\nhome=0\ndeadline_ms=100.0\n[[tables.asks]]\nburst=1\nevery=0.01\nfrom=0.0015\n"
    );
    let outcome = run(1, 1, &text);
    let [long, short] = [&outcome.tenants[0], &outcome.tenants[1]];
    assert_eq!(
        (long.done, long.expired.late, long.expired.all()),
        (0, 1, 1)
    );
    // Those that came in the first 200 ms.
    assert_eq!((short.expired.waiting, short.expired.late), (20, 0));
    assert_eq!(short.refused, 0);
    assert!(short.done >= 19, "{short:?}");
}

#[test]
fn a_client_that_is_told_of_a_deadline_asks_again_and_what_is_dead_leaves_the_queue() {
    // 8 clients for one worker, whom another table keeps for a second. Each asks again after 10 ms: 800 queries, for 20
    // places.
    let text = format!(
        "seconds=3\n{TASKS}count=1\nname='a'\nhome=0\ndeadline_ms=10.0\nqueue_limit=20\n[[tables.asks]]\noutstanding=8\n\
         from=0.0001\n{TASKS}count=1\nhome=0\n[[tables.stalls]]\nat=0.0\nms=999.0\n[[tables.asks]]\nburst=1\n"
    );
    let outcome = run(1, 1, &text);
    let served = &outcome.tenants[0];
    assert!(served.expired.waiting > 300, "{served:?}");
    assert!(served.refused > 0, "{served:?}");
    // Then all of them are answered in time: 8 ms.
    let [done, expired] = served.each_second[2];
    assert!(done > 950 && expired == 0, "{served:?}");
    let under_way = outcome.sent - outcome.answered - served.expired.all() - served.refused;
    assert!(under_way <= 8, "{under_way} {served:?}");
}

#[test]
fn stalls_meet_as_many_tasks_as_they_say() {
    let text = format!(
        "seconds=5\n{TASKS}count=1\nhome=0\n[[tables.stalls]]\nat=1.0\ntasks=3\nms=49.0\n[[tables.stalls]]\nchance=0.1\n\
         ms=1.0\n[[tables.asks]]\noutstanding=1\n"
    );
    let outcome = run(1, 1, &text);
    let served = &outcome.tenants[0];
    // 4,853 ms of tasks of 1.1 ms on average.
    assert!((4_300..4_500).contains(&served.done), "{served:?}");
    assert!(served.latency_us.p999 < 3_000.0 && served.latency_us.mean > 1_100.0);
    assert!((served.time_share - 1.0).abs() < 1e-3);
}

#[test]
fn kinds_of_queries_have_their_own_class_deadline_and_work() {
    let text = format!(
        "seconds=2\n{TASKS}count=1\nname='a'\nhome=0\nclass='bulk'\n[[tables.asks]]\noutstanding=8\nwork=5.0\n\
         [[tables.asks]]\nrate=50.0\nclass='interactive'\ndeadline_ms=1000.0\n"
    );
    let outcome = run(1, 2, &text);
    let [bulk, other] = [&outcome.tenants[0], &outcome.tenants[1]];
    assert_eq!([&*bulk.name, &*bulk.class], ["a 1", "bulk"]);
    assert_eq!([&*other.name, &*other.class], ["a 2", "interactive"]);
    assert!(bulk.latency_us.p50 >= 5_000.0 && bulk.wait_us.p50 > other.wait_us.p50);
    // They go before all bulk tasks that wait.
    assert!(other.wait_us.p99 <= 5_100.0, "{other:?}");
    assert_eq!(other.expired.all(), 0);
}

#[test]
fn tables_stay_in_the_home_that_they_are_given() {
    let text = format!(
        "seconds=1\n{TASKS}count=3\nhome=1\n[[tables.asks]]\nrate=50.0\n{TASKS}count=2\n[[tables.asks]]\nrate=50.0\n"
    );
    let outcome = run(3, 2, &text);
    for homes in &outcome.placement[..3] {
        assert_eq!(homes, &[(1, 1.0)]);
    }
    assert_eq!((outcome.tenants[0].away, outcome.tenants[1].away), (0, 0));
    let blind = run_with(Strategy::ROUND_ROBIN, 3, 2, &text);
    assert_eq!((blind.tenants[0].at_home, blind.tenants[0].away), (0, 0));
}

#[test]
fn the_common_stream_may_ask_beside_clients_of_their_own() {
    let text = format!(
        "seconds=2\n{TASKS}count=1\nname='flood'\nhome=0\n[[tables.asks]]\noutstanding=40\n{TASKS}count=3\nname='shared'\n\
         weight=2.0\ndeadline_ms=500.0\n"
    );
    let recipe: Recipe = format!("name='test'\n{text}").parse().unwrap();
    let workload = recipe.workload(1);
    assert_eq!(workload.shared_tables(), 3);
    let names: Vec<_> = workload
        .asking
        .tenants
        .iter()
        .map(|tenant| &*tenant.name)
        .collect();
    assert_eq!(names, ["shared", "flood"]);
    let outcome = run(2, 2, &text);
    let [shared, flood] = [&outcome.tenants[0], &outcome.tenants[1]];
    assert!(shared.done > 0 && flood.done > 0, "{outcome:?}");
    assert_eq!(shared.done + flood.done, outcome.counted);
}
