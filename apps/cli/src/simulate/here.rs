//! What the simulator gives for a comparison that was measured, on the same domains.

use chiplet_baselines::Strategy;
use chiplet_sim::{Costs, Load, Machine, Prepared, Sampling, Scenario};
use chiplet_topology::{Level, Topology};

use super::mine;
use crate::bench::report::Report;

/// Queries that are counted: enough for throughput.
const QUERIES: u64 = 20_000;

/// Saturated throughput of each strategy of `report` that the model knows, in queries a second, with Genoa's costs. Nothing where
/// domains are not L3s: the model has no other machines.
///
/// # Errors
/// If the workload cannot be simulated.
pub(crate) fn modelled(report: &Report, topology: &Topology) -> anyhow::Result<Vec<(String, f64)>> {
    if !matches!(topology.level(), Level::L3 | Level::Given) {
        return Ok(Vec::new());
    }
    let known = report.strategies.iter();
    let known: Vec<Strategy> = known.filter_map(|run| run.name.parse().ok()).collect();
    if known.is_empty()
        || topology
            .domains()
            .iter()
            .any(|domain| domain.cache_bytes == 0)
    {
        return Ok(Vec::new());
    }
    let workload = mine::recipe(&report.workload)?.workload(report.workload.seed);
    let outstanding = mine::outstanding(report).unwrap_or(Load::OUTSTANDING);
    let machine = Machine::new("this", topology.clone(), Costs::GENOA);
    let prepared = Prepared::new(workload, Sampling::default(), |_| {});
    let modelled = known.into_iter().map(|strategy| {
        let mut scenario = Scenario::new(&machine, &prepared, strategy).counting(QUERIES);
        scenario.load = Load::Saturated {
            outstanding: outstanding.min(16),
        };
        let outcome = scenario.run(&mut |_| {});
        (strategy.name.to_owned(), outcome.qps)
    });
    Ok(modelled.collect())
}
