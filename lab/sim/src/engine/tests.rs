//! Runs with known answers.

use chiplet_baselines::Strategy;
use chiplet_policy::group::PublishedLoads;
use chiplet_topology::Topology;

use super::scenario::{Load, Scenario};
use super::{Doing, Engine};
use crate::machine::{Costs, Machine};
use crate::workload::{Prepared, Recipe, Sampling};

const MIB: u64 = 1 << 20;

/// A machine on which handing over takes no time.
fn machine(domains: u32, cores: u32) -> Machine {
    let costs = Costs {
        task_ns: 0.0,
        task_lines: 0.0,
        wake_ns: 0.0,
        line_same_ns: 0.0,
        line_other_ns: 0.0,
        ..Costs::GENOA
    };
    Machine::new("test", Topology::uniform(domains, cores, 32 * MIB), costs)
}

fn prepared(tables: &str) -> Prepared {
    let recipe: Recipe = format!("name = 'test'\n{tables}").parse().unwrap();
    let sampling = Sampling {
        queries: 60,
        rows: 4_096,
        ..Sampling::default()
    };
    Prepared::new(recipe.workload(1), sampling, |_| ())
}

/// Mean wait in a queue of Poisson arrivals, exponential times and `servers`: Erlang's formula (C).
fn erlang_wait(servers: u32, load: f64, service: f64) -> f64 {
    let busy = load * f64::from(servers);
    let (mut term, mut sum) = (1.0, 0.0);
    for server in 0..servers {
        sum += term;
        term *= busy / f64::from(server + 1);
    }
    let all_busy = term / (1.0 - load) / (sum + term / (1.0 - load));
    all_busy * service / (f64::from(servers) * (1.0 - load))
}

#[test]
fn waits_in_one_queue_are_those_of_the_formula() {
    const SERVICE: f64 = 100_000.0;
    for (servers, load) in [(1, 0.5), (1, 0.8), (8, 0.8), (8, 0.9)] {
        let machine = machine(1, servers);
        let tasks = Prepared::tasks(50, SERVICE, true);
        let mut scenario = Scenario::new(&machine, &tasks, Strategy::CCD_AWARE_FIFO);
        scenario.load = Load::Open {
            rate: load * f64::from(servers) * 1e9 / SERVICE,
        };
        (scenario.warmup, scenario.measured) = (20_000, 400_000);
        let outcome = scenario.run(&mut |_| ());
        let expected = erlang_wait(servers, load, SERVICE) / 1e3;
        let ratio = outcome.wait_us.mean / expected;
        assert!(
            (0.95..1.05).contains(&ratio),
            "{servers} servers at {load}: {ratio}"
        );
        assert!((outcome.utilisation - load).abs() < 0.01);
    }
}

#[test]
fn waits_for_tasks_of_one_length_are_half_as_long() {
    let machine = machine(1, 1);
    let tasks = Prepared::tasks(4, 50_000.0, false);
    let mut scenario = Scenario::new(&machine, &tasks, Strategy::CCD_AWARE_FIFO);
    scenario.load = Load::Open { rate: 14_000.0 };
    (scenario.warmup, scenario.measured) = (10_000, 300_000);
    let outcome = scenario.run(&mut |_| ());
    // Pollaczek and Khinchine: load * service / (2 (1 - load)).
    let ratio = outcome.wait_us.mean / (0.7 * 50.0 / 0.6);
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

#[test]
fn one_core_takes_what_arithmetic_says() {
    let costs = Costs {
        wake_ns: 0.0,
        ..Costs::GENOA
    };
    let one = Machine::new("one", Topology::uniform(1, 1, 32 * MIB), costs);
    let tasks = Prepared::tasks(3, 40_000.0, false);
    let mut scenario = Scenario::new(&one, &tasks, Strategy::CCD_AWARE);
    (scenario.warmup, scenario.measured) = (100, 1_000);
    let outcome = scenario.run(&mut |_| ());
    let task = 40_000.0 + costs.task_ns + costs.task_lines * costs.line_same_ns;
    let ratio = outcome.qps * task / 1e9;
    assert!((0.999..1.001).contains(&ratio), "{ratio}");
}

#[test]
fn a_graph_that_an_l2_holds_takes_its_computing_alone() {
    let mut machine = machine(1, 1);
    machine.costs.l2_bytes = 64 * MIB;
    let prepared = prepared("[[tables]]\nkind='hnsw'\ncount=1\nrows=[1100,1100]\ndims=[64]");
    let mut scenario = Scenario::new(&machine, &prepared, Strategy::CCD_AWARE);
    // So many queries have read every row that walks lead to.
    (scenario.warmup, scenario.measured) = (4_000, 2_000);
    let outcome = scenario.run(&mut |_| ());
    assert_eq!(outcome.l3_misses_per_query, 0.0);
    assert!(outcome.stall_share < 1e-3, "{}", outcome.stall_share);
}

/// Lists that no cache holds.
const STREAM: &str = "[[tables]]\nkind='ivf'\ncount=8\nrows=[4000000,4000000]\ndims=[128]";

#[test]
fn a_saturated_link_gives_exactly_its_bandwidth() {
    let mut machine = machine(1, 8);
    machine.costs.link_gbs = 30.0;
    let prepared = prepared(STREAM);
    let mut scenario = Scenario::new(&machine, &prepared, Strategy::CCD_AWARE);
    (scenario.warmup, scenario.measured) = (300, 600);
    let outcome = scenario.run(&mut |_| ());
    assert!((outcome.links[0] - 1.0).abs() < 0.02, "{:?}", outcome.links);
    let bound = 30e9 / outcome.memory_bytes_per_query;
    assert!((outcome.qps / bound - 1.0).abs() < 0.02);
}

#[test]
fn a_saturated_socket_gives_its_bandwidth_to_all_links_together() {
    let mut machine = machine(4, 4);
    machine.costs.socket_gbs = 50.0;
    let prepared = prepared(STREAM);
    for strategy in [Strategy::ROUND_ROBIN, Strategy::CCD_AWARE] {
        let mut scenario = Scenario::new(&machine, &prepared, strategy);
        (scenario.warmup, scenario.measured) = (300, 600);
        let outcome = scenario.run(&mut |_| ());
        assert!(
            (outcome.sockets[0] - 1.0).abs() < 0.03,
            "{strategy}: {outcome:?}"
        );
    }
}

const GRAPHS: &str =
    "table_skew = 0.8\n[[tables]]\nkind='hnsw'\ncount=6\nrows=[4096,40000]\ndims=[64]\nk=[20]";

#[test]
fn the_same_scenario_gives_the_same_bytes() {
    let machine = Machine::preset("rome-7k62")
        .unwrap()
        .with_domains(4)
        .unwrap();
    let run = |strategy| {
        let prepared = prepared(GRAPHS);
        let mut scenario = Scenario::new(&machine, &prepared, strategy);
        (scenario.warmup, scenario.measured) = (500, 3_000);
        scenario.load = Load::Open { rate: 60_000.0 };
        serde_json::to_string(&scenario.run(&mut |_| ())).unwrap()
    };
    for strategy in Strategy::ALL {
        assert_eq!(run(strategy), run(strategy), "{strategy}");
    }
}

#[test]
fn every_query_ends_once_or_is_still_there() {
    let machine = Machine::preset("rome-7k62")
        .unwrap()
        .with_domains(4)
        .unwrap();
    let mixed = "[[tables]]\nkind='ivf'\ncount=4\nrows=[50000,400000]\ndims=[64]";
    for tables in [GRAPHS, mixed] {
        let prepared = prepared(tables);
        for strategy in Strategy::ALL {
            for load in [
                Load::Open { rate: 1e6 },
                Load::Saturated { outstanding: 32 },
            ] {
                let mut scenario = Scenario::new(&machine, &prepared, strategy);
                (scenario.warmup, scenario.measured) = (500, 3_000);
                scenario.load = load;
                let mut engine = Engine::new(&scenario, None, false);
                engine.run(&mut |_| ());
                let groups = 0..engine.groups.groups();
                let waiting = groups.map(|group| engine.groups[group].state.queue.len());
                let waiting: usize = waiting.sum();
                let mut begun: Vec<usize> = engine
                    .workers
                    .iter()
                    .filter_map(|worker| match worker.doing {
                        Doing::Query(query) | Doing::Unit(query) | Doing::Barrier(query) => {
                            Some(query)
                        }
                        Doing::Idle(_) | Doing::Waking => None,
                    })
                    .collect();
                begun.sort_unstable();
                begun.dedup();
                let meter = &engine.meter;
                let there = (waiting + begun.len()) as u64;
                assert_eq!(
                    meter.sent,
                    meter.answered + meter.shed + there,
                    "{strategy} {load:?}"
                );
                assert!(engine.queries.under_way() == there as usize);
            }
        }
    }
}

#[test]
fn a_busy_worker_steals_from_a_queue_that_has_fallen_behind() {
    let machine = machine(2, 1);
    let tasks = Prepared::tasks(8, 10_000.0, false);
    let scenario = Scenario::new(&machine, &tasks, Strategy::CCD_AWARE);
    let mut engine = Engine::new(&scenario, None, false);
    (0..40).for_each(|_| engine.arrive());
    let now = engine.timeline.time();
    let mut run = chiplet_policy::queue::Run::default();
    while engine.groups[1]
        .state
        .queue
        .take(false, &mut run, now)
        .is_some()
    {}
    engine.timeline.pass(10_000_000);
    assert!(!engine.steal_while_busy(1, 0), "it has nothing to do");
    (0..40).for_each(|_| engine.arrive());
    assert!(engine.steal_while_busy(1, 0));
    assert!(!engine.steal_while_busy(0, 1), "the other is younger");
}

#[test]
fn where_all_cores_share_one_cache_placement_gives_nothing() {
    let machine = machine(1, 8);
    let prepared = prepared(GRAPHS);
    let qps = |strategy| {
        let mut scenario = Scenario::new(&machine, &prepared, strategy);
        (scenario.warmup, scenario.measured) = (3_000, 12_000);
        scenario.run(&mut |_| ()).qps
    };
    let tied = [
        Strategy::ROUND_ROBIN,
        Strategy::GLOBAL_STEAL,
        Strategy::CCD_AWARE_FIFO,
    ];
    let [first, rest @ ..] = tied.map(qps);
    for other in rest {
        assert!(
            (other / first - 1.0).abs() < 0.02,
            "{other} against {first}"
        );
    }
    // Runs of one table use the cores' own L2s, which takes no second domain.
    assert!(qps(Strategy::CCD_AWARE) > 0.98 * first);
}

#[test]
fn tables_that_fit_their_domains_caches_are_faster_there() {
    let machine = Machine::preset("genoa-9654")
        .unwrap()
        .with_domains(4)
        .unwrap();
    // 8 tables of 12 MB: two fit each domain, all together only the four. Long rows, as walks wait for bytes: since
    // they follow three nodes a step, 24,000 rows of 96 dimensions gain 1.09.
    let tables = "[[tables]]\nkind='hnsw'\ncount=8\nrows=[12000,12000]\ndims=[200]\nk=[20]";
    let prepared = prepared(tables);
    let run = |strategy| {
        let mut scenario = Scenario::new(&machine, &prepared, strategy);
        (scenario.warmup, scenario.measured) = (20_000, 20_000);
        // Queries are alike, so many that wait distort nothing, and no domain runs dry.
        scenario.load = Load::Saturated { outstanding: 32 };
        scenario.run(&mut |_| ())
    };
    let (blind, aware) = (run(Strategy::GLOBAL_STEAL), run(Strategy::CCD_AWARE));
    assert!(aware.l3_miss_ratio < 0.5 * blind.l3_miss_ratio);
    assert!(aware.qps > 1.2 * blind.qps, "{} {}", aware.qps, blind.qps);
}

#[test]
fn tables_lie_where_the_scenario_says() {
    let machine = Machine::preset("genoa-9654x2").unwrap();
    // One domain of the first socket.
    let machine = machine.with_domains(1).unwrap();
    let prepared = prepared(GRAPHS);
    let run = |holders: &[usize]| {
        let mut scenario = Scenario::new(&machine, &prepared, Strategy::GLOBAL_STEAL);
        (scenario.warmup, scenario.measured) = (500, 2_000);
        scenario.load = Load::Open { rate: 1_000.0 };
        scenario.holders = Some(holders);
        scenario.run(&mut |_| ())
    };
    let costs = &machine.costs;
    let near = run(&[0; 6]);
    assert_eq!((near.remote_share, near.far_ns), (0.0, 0.0));
    assert!((costs.memory_ns..1.1 * costs.memory_ns).contains(&near.near_ns));
    // A socket that no worker runs on.
    let far = run(&[1; 6]);
    assert_eq!((far.remote_share, far.near_ns), (1.0, 0.0));
    assert!((costs.remote_ns..1.1 * costs.remote_ns).contains(&far.far_ns));
    assert_eq!(far.sockets.len(), 2);
    assert!(far.sockets[0] == 0.0 && far.sockets[1] > 0.0);
    let both = run(&[0, 1, 0, 1, 0, 1]);
    assert!((0.1..0.9).contains(&both.remote_share), "{both:?}");
    assert!(near.stall_share < both.stall_share && both.stall_share < far.stall_share);
}

#[test]
fn what_others_read_of_a_sockets_memory_is_not_there_for_this_workload() {
    let mut machine = machine(4, 4);
    machine.costs.socket_gbs = 50.0;
    let prepared = prepared(STREAM);
    let saturated = |others: &[f64]| {
        let mut scenario = Scenario::new(&machine, &prepared, Strategy::ROUND_ROBIN);
        (scenario.warmup, scenario.measured) = (100, 300);
        scenario.others = others;
        scenario.run(&mut |_| ())
    };
    let outcome = saturated(&[20.0]);
    assert!(
        (outcome.sockets[0] - 0.6).abs() < 0.02,
        "{:?}",
        outcome.sockets
    );
    // More than there is leaves a little.
    assert!(saturated(&[80.0]).sockets[0] > 0.0);
    let graphs = self::prepared(GRAPHS);
    let few = |others: &[f64]| {
        let mut scenario = Scenario::new(&machine, &graphs, Strategy::ROUND_ROBIN);
        (scenario.warmup, scenario.measured) = (500, 2_000);
        scenario.load = Load::Open { rate: 1_000.0 };
        scenario.others = others;
        scenario.run(&mut |_| ())
    };
    let (alone, beside) = (few(&[]), few(&[40.0]));
    // At 80 % use a line waits for 4 times the queue's nanoseconds longer.
    let longer = beside.near_ns - alone.near_ns;
    assert!(
        (longer / machine.costs.queue_ns - 4.0).abs() < 1.0,
        "{longer}"
    );
}
