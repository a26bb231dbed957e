//! A workload as `chiplet bench` has written it down: "what would my tables and my traffic do there?"

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use chiplet_baselines::Strategy;
use chiplet_sim::{Costs, Machine, Recipe};
use chiplet_topology::{Topology, parse_list};

use chiplet_bench::report::{Domain, Report, Workload, file};

/// What was measured, as far as it can be simulated.
pub(super) struct Mine {
    pub(super) recipe: Recipe,
    /// Queries under way for each worker, where the run kept so many.
    pub(super) outstanding: Option<u32>,
    /// Queries a second that were sent, where the run had a rate.
    pub(super) rate: Option<f64>,
    pub(super) report: Report,
}

impl Mine {
    /// The strategies of the run that can be simulated, if there are two to compare.
    pub(super) fn strategies(&self) -> Option<Vec<Strategy>> {
        let names = self.report.strategies.iter().map(|strategy| &strategy.name);
        let known: Vec<Strategy> = names.filter_map(|name| name.parse().ok()).collect();
        (known.len() > 1).then_some(known)
    }

    /// The machine of the run, without the cores that its senders had, with Genoa's costs.
    pub(super) fn machine(&self) -> anyhow::Result<Machine> {
        let machine = &self.report.machine;
        let is_known = ["L3", "Given"].contains(&&*machine.level)
            && machine.layout.iter().all(|domain| domain.cache_bytes > 0);
        ensure!(
            is_known,
            "--machine measured: the domains of that run are made of {}, and the model has L3s of known size alone",
            machine.level
        );
        let senders = self.report.generator.own_cpus.as_deref();
        let senders = senders.map(parse_list).transpose()?.unwrap_or_default();
        let mut built = Topology::builder();
        let mut last = machine.layout.first();
        for domain in &machine.layout {
            let on = |of: fn(&Domain) -> u32| last.is_some_and(|last| of(last) == of(domain));
            built = match () {
                () if !on(|domain| domain.package) => built.package(),
                () if !on(|domain| domain.node) => built.node(),
                () => built,
            };
            let cpus = parse_list(&domain.cpus)?;
            let of_a_core = (cpus.len() / domain.cores.max(1)).max(1);
            let cores = cpus.difference(&senders).count() / of_a_core;
            if cores > 0 {
                built = built.smt(of_a_core as u32);
                built = built.domain(domain.cache_bytes, cores as u32);
            }
            last = Some(domain);
        }
        Ok(Machine::new("measured", built.build()?, Costs::GENOA))
    }
}

/// Reads a report of `chiplet bench`, JSON or page.
pub(super) fn read(path: &Path) -> anyhow::Result<Mine> {
    let report = file::read(path)?;
    Ok(Mine {
        recipe: recipe(&report.workload).with_context(|| path.display().to_string())?,
        outstanding: outstanding(&report),
        rate: report.workload.rate_qps,
        report,
    })
}

/// Queries under way for each worker, where the run kept so many: as busy there as here.
pub(super) fn outstanding(report: &Report) -> Option<u32> {
    let workers = report.generator.workers.max(1);
    let outstanding = report.workload.outstanding;
    outstanding.map(|all| all.div_ceil(workers).clamp(1, 256) as u32)
}

/// The tables and the traffic of a report.
pub(super) fn recipe(workload: &Workload) -> anyhow::Result<Recipe> {
    if let Some(text) = &workload.recipe {
        let recipe = match Recipe::built_in(text) {
            Some(recipe) => recipe,
            None => text.parse()?,
        };
        let recipe = recipe.resized(workload.size);
        return Ok(match workload.recipe_tables {
            Some(tables) => recipe.counting(tables),
            None => recipe,
        });
    }
    let search = match (&*workload.kind, workload.lists) {
        ("hnsw", _) => format!("ef = {}", workload.ef.max(workload.k)),
        ("ivf", Some(lists)) => format!("lists = {lists}\nprobes = {}", workload.nprobe),
        ("ivf", None) => {
            bail!("the number of lists is not known; run chiplet bench without --factory")
        }
        (other, _) => bail!(
            "tables of the kind {other:?} cannot be simulated; run chiplet bench with --kind hnsw or --kind ivf"
        ),
    };
    let text = format!(
        "name = 'mine'\ntable_skew = {:?}\nquery_skew = {:?}\nqueries = {}\n[[tables]]\nkind = '{}'\ncount = {}\n\
         rows = [{rows}, {rows}]\ndims = [{}]\nk = [{}]\n{search}\n",
        workload.table_skew,
        workload.query_skew,
        workload.queries,
        workload.kind,
        workload.tables,
        workload.dims,
        workload.k,
        rows = workload.rows,
    );
    Ok(text.parse()?)
}
