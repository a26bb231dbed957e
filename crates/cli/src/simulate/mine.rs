//! A workload as `chiplet bench --json` has written it down: "what would my tables and my traffic do there?"

use std::path::Path;

use anyhow::{Context as _, bail};
use chiplet_sim::Recipe;
use serde_json::Value;

/// What was measured, as far as it can be simulated.
pub(super) struct Mine {
    pub(super) recipe: Recipe,
    /// Queries under way for each worker, where the run kept so many.
    pub(super) outstanding: Option<u32>,
    /// Queries a second that were sent, where the run had a rate.
    pub(super) rate: Option<f64>,
}

/// The fields of a report, with errors that name them.
struct Fields<'a> {
    path: &'a Path,
    report: Value,
}

impl Fields<'_> {
    fn get<T: serde::de::DeserializeOwned>(&self, section: &str, name: &str) -> anyhow::Result<T> {
        let found = self.report.get(section).and_then(|all| all.get(name));
        let value = found.cloned().unwrap_or(Value::Null);
        serde_json::from_value(value).with_context(|| {
            format!(
                "{}: there is no usable {section}.{name}; give the file that this version's chiplet bench --json writes",
                self.path.display()
            )
        })
    }
}

/// Reads a report of `chiplet bench`.
pub(super) fn read(path: &Path) -> anyhow::Result<Mine> {
    let name = || path.display().to_string();
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", name()))?;
    let report = serde_json::from_slice(&text).with_context(|| format!("{}: no JSON", name()))?;
    let fields = Fields { path, report };
    let number = |name| fields.get::<u64>("workload", name);
    let kind: String = fields.get("workload", "kind")?;
    let search = match kind.as_str() {
        "hnsw" => format!("ef = {}", number("ef")?.max(number("k")?)),
        "ivf" => format!(
            "lists = {}\nprobes = {}",
            number("lists")?,
            number("nprobe")?
        ),
        other => bail!(
            "{}: tables of the kind {other:?} cannot be simulated; run chiplet bench with --kind hnsw or --kind ivf",
            name()
        ),
    };
    let (rows, dims) = (number("rows")?, number("dims")?);
    let skew = |name| fields.get::<f64>("workload", name);
    let text = format!(
        "name = 'mine'\ntable_skew = {:?}\nquery_skew = {:?}\nqueries = {}\n[[tables]]\nkind = '{kind}'\ncount = {}\n\
         rows = [{rows}, {rows}]\ndims = [{dims}]\nk = [{}]\n{search}\n",
        skew("table_skew")?,
        skew("query_skew")?,
        number("queries")?,
        number("tables")?,
        number("k")?,
    );
    let workers = fields.get::<u64>("machine", "cores")?.max(1);
    // As busy there as here.
    let outstanding = fields.get::<Option<u64>>("workload", "outstanding")?;
    let outstanding = outstanding.map(|all| all.div_ceil(workers).clamp(1, 256) as u32);
    Ok(Mine {
        recipe: text.parse().with_context(name)?,
        outstanding,
        rate: fields.get("workload", "rate_qps")?,
    })
}
