//! What there is to see, as dicts.

use chiplet::snapshot::{Placement, Snapshot};
use chiplet::{TableId, Topology};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

/// The snapshot's fields under their names in Rust; times in microseconds.
pub(crate) fn as_python(py: Python<'_>, snapshot: &Snapshot) -> PyResult<Py<PyAny>> {
    let snapshot = serde_json::to_value(snapshot);
    loaded(
        py,
        &snapshot.map_err(|why| PyRuntimeError::new_err(why.to_string()))?,
    )
}

/// The version, and of each table the domains that are home to it, with the share of its queries that each gets.
pub(crate) fn placement<'a>(
    py: Python<'_>,
    placement: &Placement,
    names: impl Iterator<Item = (&'a str, TableId)>,
) -> PyResult<Py<PyAny>> {
    let homes = |id| {
        let homes = placement.homes(id)?;
        let shares = homes
            .iter()
            .map(|home| (home.domain.0.to_string(), home.share().into()));
        Some(Value::Object(shares.collect()))
    };
    let tables: Map<String, Value> = names
        .filter_map(|(name, id)| Some((name.to_owned(), homes(id)?)))
        .collect();
    loaded(
        py,
        &json!({"version": placement.version(), "homes": tables}),
    )
}

/// The level of the domains, and of each its cores by their cpus, cache, node and package.
pub(crate) fn topology(py: Python<'_>, topology: &Topology) -> PyResult<Py<PyAny>> {
    let domains: Vec<Value> = topology
        .domains()
        .iter()
        .map(|domain| {
            let cores: Vec<_> = domain.cores.iter().map(|core| &core.cpus).collect();
            json!({
                "id": domain.id.0,
                "cores": cores,
                "cache_bytes": domain.cache_bytes,
                "node": domain.node,
                "package": domain.package,
            })
        })
        .collect();
    let warnings: Vec<String> = topology
        .warnings()
        .iter()
        .map(ToString::to_string)
        .collect();
    loaded(
        py,
        &json!({"level": topology.level().to_string(), "domains": domains, "warnings": warnings}),
    )
}

/// Nothing that is told here is large or asked often: JSON is quick enough on the way.
fn loaded(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    let loads = py.import("json")?.getattr("loads")?;
    Ok(loads.call1((value.to_string(),))?.unbind())
}
