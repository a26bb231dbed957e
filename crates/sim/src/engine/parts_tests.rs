//! Parts of a machine that are left out unless they are asked for.

use chiplet_baselines::Strategy;
use chiplet_topology::Topology;

use super::scenario::Scenario;
use crate::machine::{Costs, Machine, Pages, Ways};
use crate::outcome::Outcome;
use crate::workload::{Prepared, Recipe, Sampling};

const GRAPHS: &str = "
    name = 'graphs'
    [[tables]]
    kind = 'hnsw'
    count = 4
    rows = [400_000, 400_000]
    dims = [64]
    k = [100]";

const LISTS: &str = "
    name = 'lists'
    [[tables]]
    kind = 'ivf'
    count = 4
    rows = [400_000, 400_000]
    dims = [64]";

/// Saturated, with an L3 that holds little of the tables.
fn run(tables: &str, change: impl FnOnce(&mut Costs)) -> Outcome {
    let recipe: Recipe = tables.parse().unwrap();
    let sampling = Sampling {
        queries: 60,
        rows: 4_096,
        ..Sampling::default()
    };
    let prepared = Prepared::new(recipe.workload(1), sampling, |_| ());
    let topology = Topology::uniform(2, 2, 2 << 20);
    let mut machine = Machine::new("test", topology, Costs::GENOA);
    change(&mut machine.costs);
    let mut scenario = Scenario::new(&machine, &prepared, Strategy::CCD_AWARE);
    (scenario.warmup, scenario.measured) = (500, 1_000);
    scenario.run(&mut |_| ())
}

#[test]
fn small_pages_cost_more_than_huge_ones_and_those_more_than_none() {
    for tables in [GRAPHS, LISTS] {
        let [none, huge, small] = [None, Some(Pages::HUGE), Some(Pages::SMALL)]
            .map(|pages| run(tables, |costs| costs.pages = pages));
        // All huge pages of these tables are within a TLB's reach.
        let slower = [huge.qps / none.qps, small.qps / huge.qps];
        assert!(
            (0.97..1.01).contains(&slower[0]) && slower[1] < 0.97,
            "{slower:?}"
        );
        let misses = small.l3_misses_per_query / none.l3_misses_per_query;
        assert!(misses > 1.01, "{misses}");
    }
}

#[test]
fn stray_lines_take_bandwidth_and_room() {
    let [without, with] = [0.0, 2.0].map(|lines| run(GRAPHS, |costs| costs.stray_lines = lines));
    let moved = |outcome: &Outcome| outcome.sockets[0] / outcome.qps;
    let more = moved(&with) / moved(&without);
    assert!(more > 1.2, "{more}");
    let misses = with.l3_miss_ratio / without.l3_miss_ratio;
    assert!(misses > 1.0, "{misses}");
}

#[test]
fn caches_in_sets_miss_a_little_more() {
    let ways = Some(Ways { l2: 8, l3: 16 });
    let [whole, sets] = [None, ways].map(|ways| run(GRAPHS, |costs| costs.ways = ways));
    let ratio = sets.l3_misses_per_query / whole.l3_misses_per_query;
    assert!((1.0..1.2).contains(&ratio), "{ratio}");
}
