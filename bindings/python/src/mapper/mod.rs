//! The hot-cold mapper over names: what a cluster places shards on nodes with.
//!
//! A table's or domain's id is its position in the sorted names of one call, so equal arguments give equal homes.

mod given;

use std::collections::BTreeSet;

use chiplet::snapshot::{Home, Homes, Placement};
use chiplet::{DomainId, TableId};
use chiplet_policy::{Demand, DomainSpec};
use pyo3::prelude::*;

use crate::gil::unlocked;
use given::{Copies, Parts};

/// Places tables on domains, or shards on nodes, as the executor does on a machine: level by load per core, and with as
/// few moves as that allows.
///
/// loads: of each table the core-seconds a second that it asks for. domains: of each the cores that serve there.
/// current: what an earlier call returned; unless balance forbids it, tables stay. Homes on domains that are gone are
/// void.
/// copies: the least number of homes, of all tables or of each by name; no table has more homes than there are domains.
/// saturation: a table gets more homes if it asks for more than this part of one's cores (0.7), and for
/// 1.43 times all load divided by the domains. relax: and gives them back below this part (0.4).
/// stay: a placement that moves less may have a busiest domain that is this part busier than the best (0.1).
/// Returns of each table its homes, with the part of its queries that each is to get. Equal arguments give equal homes;
/// of equal domains the first by name is taken.
/// Raises `ValueError` for values out of range, for a name that `loads` does not have, and if no domain has a core.
///
/// >>> import chiplet
/// >>> homes = chiplet.place({"a": 3.0, "b": 1.0, "c": 2.0}, {"node-1": 8, "node-2": 8})
/// >>> homes
/// {'a': {'node-1': 1.0}, 'b': {'node-2': 1.0}, 'c': {'node-2': 1.0}}
/// >>> homes = chiplet.place({"a": 3.0, "b": 1.0, "c": 2.0}, {"node-1": 8, "node-3": 8}, current=homes, copies={"b": 2})
/// >>> sorted(homes["a"]), sorted(homes["b"]), sorted(homes["c"])
/// (['node-1'], ['node-1', 'node-3'], ['node-3'])
#[pyfunction]
#[pyo3(signature = (loads, domains, *, current=None, copies=Copies::All(1), saturation=None, relax=None, stay=None))]
#[pyo3(
    text_signature = "(loads, domains, *, current=None, copies=1, saturation=None, relax=None, stay=None)"
)]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub(crate) fn place(
    py: Python<'_>,
    loads: &Bound<'_, PyAny>,
    domains: &Bound<'_, PyAny>,
    current: Option<&Bound<'_, PyAny>>,
    copies: Copies,
    saturation: Option<f64>,
    relax: Option<f64>,
    stay: Option<f64>,
) -> PyResult<Parts> {
    let loads = given::loads(loads)?;
    let cores = given::cores(domains)?;
    copies.are_of(&loads)?;
    let current = given::current(current, &loads)?;
    let config = given::config(saturation, relax, stay)?;
    Ok(unlocked(py, || {
        let known = current.values().flat_map(|homes| homes.keys());
        let names: BTreeSet<&String> = cores.keys().chain(known).collect();
        let names: Vec<&String> = names.into_iter().collect();
        let domain = |name: &String| DomainId(names.partition_point(|other| *other < name) as u32);
        let table = |slot| TableId {
            slot,
            generation: 0,
        };

        let demand = |(slot, (name, &load))| Demand {
            least_homes: copies.of(name),
            ..Demand::new(table(slot), load)
        };
        let demands: Vec<Demand> = (0..).zip(&loads).map(demand).collect();
        let spec = |(name, &cores)| DomainSpec::new(domain(name), cores);
        let specs: Vec<DomainSpec> = cores.iter().map(spec).collect();
        let homes = |(slot, name)| {
            let parts = current.get(name)?.iter();
            let parts = parts.map(|(name, &part)| (domain(name), part));
            Some((table(slot), homes_of(parts)?))
        };
        let now = Placement::default().next((0..).zip(loads.keys()).filter_map(homes));

        let placed = chiplet_policy::assign_homes(&demands, &specs, Some(&now), &config).homes;
        let named = |home: &Home| (names[home.domain.0 as usize].clone(), home.share());
        // Both are in the order of the names.
        let each = loads.keys().zip(placed.values());
        each.map(|(name, homes)| (name.clone(), homes.iter().map(named).collect()))
            .collect()
    }))
}

/// Parts that `place` returned are the weights themselves; others are rounded to such.
fn homes_of(parts: impl Iterator<Item = (DomainId, f64)> + Clone) -> Option<Homes> {
    let weight = |part: f64| part * f64::from(Home::WHOLE);
    let weights = parts.clone().map(|(domain, part)| Home {
        domain,
        weight: weight(part) as u32,
    });
    let exact = parts.clone().all(|(_, part)| weight(part).fract() == 0.0);
    let weights = if exact {
        Homes::from_weights(weights)
    } else {
        None
    };
    weights.or_else(|| Homes::from_shares(parts))
}
