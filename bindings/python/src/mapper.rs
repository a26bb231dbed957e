//! The hot-cold mapper over names: what a cluster places shards on nodes with.
//!
//! A table's or domain's id is its position in the sorted names of one call, so equal arguments give equal homes.

use std::collections::{BTreeMap, BTreeSet};

use chiplet::{DomainId, Home, Homes, Placement, TableId};
use chiplet_policy::{Demand, DomainSpec, MapperConfig};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use crate::gil::unlocked;

/// Of each table the domains, with the part of its queries that each gets.
pub(crate) type Parts = BTreeMap<String, BTreeMap<String, f64>>;

/// Least number of homes: of all tables, or of each by its name.
pub(crate) enum Copies<'py> {
    One,
    Given(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Copies<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(given.to_owned()))
    }
}

/// Places tables on domains, or shards on nodes, as the executor does on a machine: level by load per core, and with as few
/// moves as that allows.
///
/// loads: of each table the core-seconds a second that it asks for. domains: of each the cores that serve there.
/// current: what an earlier call returned; unless balance forbids it, tables stay. Homes on domains that are gone are void.
/// sizes: bytes of each table; of domains about equally busy, a table with one home goes where the fewest bytes are.
/// copies: the least number of homes, of all tables or of each by name; no table has more homes than there are domains.
/// saturation: a table gets more homes if it asks for more than this part of one's cores (0.7), relax: and gives them back
/// below this part (0.4). oversize: but only from so many fair shares of all load on (1.1).
/// stay: a placement that moves less may have a busiest domain that is this part busier than the best (0.1).
/// Returns of each table its homes, with the part of its queries that each is to get. Equal arguments give equal homes; of
/// equal domains the first by name is taken.
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
#[pyo3(signature = (loads, domains, *, current=None, sizes=None, copies=Copies::One, saturation=None, relax=None, oversize=None, stay=None))]
#[pyo3(
    text_signature = "(loads, domains, *, current=None, sizes=None, copies=1, saturation=None, relax=None, oversize=None, stay=None)"
)]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub(crate) fn place(
    py: Python<'_>,
    loads: &Bound<'_, PyAny>,
    domains: &Bound<'_, PyAny>,
    current: Option<&Bound<'_, PyAny>>,
    sizes: Option<&Bound<'_, PyAny>>,
    copies: Copies<'_>,
    saturation: Option<f64>,
    relax: Option<f64>,
    oversize: Option<f64>,
    stay: Option<f64>,
) -> PyResult<Parts> {
    let loads: BTreeMap<String, f64> = named("loads", loads)?;
    all("loads", &loads, "from 0 on and finite", |&load| {
        is_amount(load)
    })?;
    let cores: BTreeMap<String, i64> = named("domains", domains)?;
    all("domains", &cores, "cores from 0 to 2^32 - 1", |&cores| {
        u32::try_from(cores).is_ok()
    })?;
    if cores.values().all(|&cores| cores == 0) {
        return Err(PyValueError::new_err(
            "domains: none has a core; pass at least one that serves",
        ));
    }
    let sizes = sizes.map_or_else(|| Ok(BTreeMap::new()), |given| named::<i64>("sizes", given))?;
    all("sizes", &sizes, "bytes from 0 on", |&bytes| bytes >= 0)?;
    let (every, copies) = least_homes(copies)?;
    only_of("sizes", &sizes, &loads)?;
    only_of("copies", &copies, &loads)?;
    let current = current.map_or_else(|| Ok(Parts::new()), |given| parts(given, &loads))?;
    let config = config(saturation, relax, oversize, stay)?;

    Ok(unlocked(py, || {
        let known = current.values().flat_map(BTreeMap::keys);
        let domain_names: Vec<&String> = cores
            .keys()
            .chain(known)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let domain =
            |name: &String| DomainId(domain_names.partition_point(|other| *other < name) as u32);
        let tables = || {
            (0..).zip(&loads).map(|(slot, (name, &load))| {
                (
                    TableId {
                        slot,
                        generation: 0,
                    },
                    name,
                    load,
                )
            })
        };
        let demand = |(id, name, load)| Demand {
            size: sizes.get(name).map_or(0, |&bytes| bytes as u64),
            least_homes: copies.get(name).copied().unwrap_or(every),
            ..Demand::new(id, load)
        };
        let demands: Vec<Demand> = tables().map(demand).collect();
        let specs: Vec<DomainSpec> = cores
            .iter()
            .map(|(name, &cores)| DomainSpec::new(domain(name), cores as u32))
            .collect();
        let now = Placement::default().next(tables().filter_map(|(id, name, _)| {
            let homes = current.get(name)?.iter();
            Some((
                id,
                homes_of(homes.map(|(name, &part)| (domain(name), part)))?,
            ))
        }));
        let placed = chiplet_policy::place(&demands, &specs, Some(&now), &config).homes;
        let named = |home: &Home| (domain_names[home.domain.0 as usize].clone(), home.share());
        tables()
            .map(|(id, name, _)| (name.clone(), placed[&id].iter().map(named).collect()))
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

fn is_amount(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

fn config(
    saturation: Option<f64>,
    relax: Option<f64>,
    oversize: Option<f64>,
    stay: Option<f64>,
) -> PyResult<MapperConfig> {
    let mut config = MapperConfig::new();
    let ranged = |name: &str, value: f64, least: f64, range: &str| match value.is_finite()
        && value >= least
    {
        true => Ok(value),
        false => Err(PyValueError::new_err(format!(
            "{name} = {value}; it must be finite and {range}"
        ))),
    };
    if let Some(value) = saturation {
        config = config.saturation(ranged("saturation", value, f64::MIN_POSITIVE, "above 0")?);
    }
    if let Some(value) = relax {
        config = config.relax(ranged("relax", value, f64::MIN_POSITIVE, "above 0")?);
        if value > config.saturation {
            let message = format!(
                "relax = {value} is above saturation = {}; it must be at most that",
                config.saturation
            );
            return Err(PyValueError::new_err(message));
        }
    }
    if let Some(value) = oversize {
        config = config.oversize(ranged("oversize", value, 1.0, "at least 1")?);
    }
    if let Some(value) = stay {
        config = config.stay(ranged("stay", value, 0.0, "at least 0")?);
    }
    Ok(config)
}

/// Of all tables, and of those that are named.
fn least_homes(copies: Copies<'_>) -> PyResult<(u32, BTreeMap<String, u32>)> {
    let Copies::Given(given) = copies else {
        return Ok((1, BTreeMap::new()));
    };
    if given.cast::<PyMapping>().is_ok() {
        let copies: BTreeMap<String, i64> = named("copies", &given)?;
        all("copies", &copies, "at least 1", |&copies| copies >= 1)?;
        let most = |(name, copies)| (name, u32::try_from(copies).unwrap_or(u32::MAX));
        return Ok((1, copies.into_iter().map(most).collect()));
    }
    let every: i64 = value("copies", &given)?;
    match every {
        1.. => Ok((u32::try_from(every).unwrap_or(u32::MAX), BTreeMap::new())),
        _ => Err(PyValueError::new_err(format!(
            "copies = {every}; a table has at least 1"
        ))),
    }
}

/// Homes of the tables that there are.
fn parts(given: &Bound<'_, PyAny>, loads: &BTreeMap<String, f64>) -> PyResult<Parts> {
    let mut current = named::<Bound<'_, PyAny>>("current", given)?;
    current.retain(|name, _| loads.contains_key(name));
    let homes = |(name, homes): (String, Bound<'_, PyAny>)| {
        let what = format!("current[{name:?}]");
        let homes = named(&what, &homes)?;
        all(&what, &homes, "a part from 0 to 1", |&part: &f64| {
            (0.0..=1.0).contains(&part)
        })?;
        Ok((name, homes))
    };
    current.into_iter().map(homes).collect()
}

/// A mapping of names.
fn named<'py, T: FromPyObjectOwned<'py>>(
    what: &str,
    given: &Bound<'py, PyAny>,
) -> PyResult<BTreeMap<String, T>> {
    let Ok(mapping) = given.cast::<PyMapping>() else {
        let got = given.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{what} is a mapping of names, not {got}"
        )));
    };
    let entry = |item: Bound<'py, PyAny>| {
        let (name, given) = item.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        let name = value(&format!("a name in {what}"), &name)?;
        let given = value(&format!("{what}[{name:?}]"), &given)?;
        Ok((name, given))
    };
    mapping.items()?.iter().map(entry).collect()
}

/// What Python has as a T: `TypeError` if it is none, `ValueError` if it is too large for any.
fn value<'py, T: FromPyObjectOwned<'py>>(what: &str, given: &Bound<'py, PyAny>) -> PyResult<T> {
    given.extract::<T>().map_err(|why| {
        let (py, why) = (given.py(), why.into());
        match why.is_instance_of::<PyOverflowError>(py) {
            true => PyValueError::new_err(format!("{what} is too large")),
            false => PyTypeError::new_err(format!("{what}: {}", why.value(py))),
        }
    })
}

fn all<T: std::fmt::Display>(
    what: &str,
    given: &BTreeMap<String, T>,
    range: &str,
    fits: impl Fn(&T) -> bool,
) -> PyResult<()> {
    match given.iter().find(|(_, value)| !fits(value)) {
        Some((name, value)) => Err(PyValueError::new_err(format!(
            "{what}[{name:?}] = {value}; it must be {range}"
        ))),
        None => Ok(()),
    }
}

fn only_of<T>(
    what: &str,
    given: &BTreeMap<String, T>,
    loads: &BTreeMap<String, f64>,
) -> PyResult<()> {
    match given.keys().find(|name| !loads.contains_key(*name)) {
        Some(name) => Err(PyValueError::new_err(format!(
            "{what} names {name:?}, which loads does not have; leave it out"
        ))),
        None => Ok(()),
    }
}
