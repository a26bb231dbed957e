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
    rows = [20_000, 20_000]
    dims = [64]
    k = [100]";

const LISTS: &str = "
    name = 'lists'
    [[tables]]
    kind = 'ivf'
    count = 4
    rows = [400_000, 400_000]
    dims = [64]";

/// Saturated, with L3s that hold a part of the tables.
fn run(tables: &str, change: impl FnOnce(&mut Costs)) -> Outcome {
    let recipe: Recipe = tables.parse().unwrap();
    let sampling = Sampling {
        queries: 60,
        rows: 4_096,
        ..Sampling::default()
    };
    let prepared = Prepared::new(recipe.workload(1), sampling, |_| ());
    let topology = Topology::uniform(2, 2, 8 << 20);
    let mut machine = Machine::new("test", topology, Costs::GENOA);
    change(&mut machine.costs);
    let mut scenario = Scenario::new(&machine, &prepared, Strategy::CCD_AWARE);
    (scenario.warmup, scenario.measured) = (500, 1_000);
    scenario.run(&mut |_| ())
}

#[test]
fn small_pages_cost_more_than_huge_ones_within_a_tlbs_reach() {
    // The page tables of so small tables lie in caches; walks that take long anyhow show.
    let walk_ns = 100.0;
    let [huge, small] = [Pages::HUGE, Pages::SMALL].map(|pages| Pages { walk_ns, ..pages });
    let graphs = GRAPHS.replace("20_000", "200_000");
    for tables in [graphs.as_str(), LISTS] {
        let [none, huge, small] =
            [None, Some(huge), Some(small)].map(|pages| run(tables, |costs| costs.pages = pages));
        let [huge_takes, small_takes] = [none.qps / huge.qps, huge.qps / small.qps];
        assert!((0.97..1.03).contains(&huge_takes), "{tables}: {huge_takes}");
        assert!(small_takes > 1.02, "{tables}: {small_takes}");
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
fn caches_in_sets_miss_more() {
    let ways = Some(Ways { l2: 8, l3: 16 });
    let [whole, sets] = [None, ways].map(|ways| run(GRAPHS, |costs| costs.ways = ways));
    let more = sets.l3_misses_per_query / whole.l3_misses_per_query;
    assert!((1.0..2.0).contains(&more), "{more}");
}
