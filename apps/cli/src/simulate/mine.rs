//! A workload as `chiplet bench` has written it down: "what would my tables and my traffic do there?"

use std::path::Path;

use anyhow::{Context as _, bail};
use chiplet_baselines::Strategy;
use chiplet_sim::Recipe;

use crate::bench::report::{Report, Workload, file};

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
