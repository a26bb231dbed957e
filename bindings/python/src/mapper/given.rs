//! What `place` is given, checked.

use std::collections::BTreeMap;
use std::fmt::Display;

use chiplet_policy::MapperConfig;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyMapping;

pub(super) type Named<T> = BTreeMap<String, T>;

/// Of each table the domains, with the part of its queries that each gets.
pub(crate) type Parts = Named<Named<f64>>;

pub(super) fn loads(given: &Bound<'_, PyAny>) -> PyResult<Named<f64>> {
    let fits = |load: &f64| load.is_finite() && *load >= 0.0;
    checked("loads", given, "from 0 on and finite", fits)
}

pub(super) fn cores(given: &Bound<'_, PyAny>) -> PyResult<Named<u32>> {
    let fits = |&cores: &i64| u32::try_from(cores).is_ok();
    let cores = checked("domains", given, "cores from 0 to 2^32 - 1", fits)?;
    if cores.values().all(|&cores| cores == 0) {
        let message = "domains: none has a core; pass at least one that serves";
        return Err(PyValueError::new_err(message));
    }
    let cores = cores.into_iter();
    Ok(cores.map(|(name, cores)| (name, cores as u32)).collect())
}

/// Homes of the tables that there are.
pub(super) fn current(given: Option<&Bound<'_, PyAny>>, loads: &Named<f64>) -> PyResult<Parts> {
    let Some(given) = given else {
        return Ok(Parts::new());
    };
    let mut current = named::<Bound<'_, PyAny>>("current", given)?;
    current.retain(|name, _| loads.contains_key(name));
    let homes = |(name, homes): (String, Bound<'_, PyAny>)| {
        let fits = |part: &f64| (0.0..=1.0).contains(part);
        let homes = checked(
            &format!("current[{name:?}]"),
            &homes,
            "a part from 0 to 1",
            fits,
        )?;
        Ok((name, homes))
    };
    current.into_iter().map(homes).collect()
}

/// The least number of homes: of all tables, or of those that are named, and 1 of the others.
pub(crate) enum Copies {
    All(u32),
    Each(Named<u32>),
}

impl FromPyObject<'_, '_> for Copies {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        // More than there are domains are all domains.
        let count = |copies| u32::try_from(copies).unwrap_or(u32::MAX);
        let range = "at least 1";
        if given.cast::<PyMapping>().is_ok() {
            let copies = checked("copies", &given, range, |&copies: &i64| copies >= 1)?;
            let copies = copies.into_iter();
            return Ok(Self::Each(
                copies.map(|(name, copies)| (name, count(copies))).collect(),
            ));
        }
        match value::<i64>("copies", &given)? {
            copies @ 1.. => Ok(Self::All(count(copies))),
            copies => Err(PyValueError::new_err(format!(
                "copies = {copies}; it must be {range}"
            ))),
        }
    }
}

impl Copies {
    /// Those of one table.
    pub(super) fn of(&self, name: &String) -> u32 {
        match self {
            Self::All(copies) => *copies,
            Self::Each(copies) => copies.get(name).copied().unwrap_or(1),
        }
    }

    pub(super) fn are_of(&self, loads: &Named<f64>) -> PyResult<()> {
        match self {
            Self::All(_) => Ok(()),
            Self::Each(copies) => only_of("copies", copies, loads),
        }
    }
}

pub(super) fn config(
    saturation: Option<f64>,
    relax: Option<f64>,
    stay: Option<f64>,
) -> PyResult<MapperConfig> {
    let ranged = |name: &str, given: Option<f64>, default, least, range: &str| match given {
        Some(value) if value.is_finite() && value >= least => Ok(value),
        Some(value) => {
            let message = format!("{name} = {value}; it must be finite and {range}");
            Err(PyValueError::new_err(message))
        }
        None => Ok(default),
    };
    let (default, above_0) = (MapperConfig::new(), f64::MIN_POSITIVE);
    let saturation = ranged(
        "saturation",
        saturation,
        default.saturation,
        above_0,
        "above 0",
    )?;
    let most = default.relax.min(saturation);
    let relax = ranged("relax", relax, most, above_0, "above 0")?;
    if relax > saturation {
        let message =
            format!("relax = {relax}; it must be at most saturation, which is {saturation}");
        return Err(PyValueError::new_err(message));
    }
    let stay = ranged("stay", stay, default.stay, 0.0, "at least 0")?;
    let config = default.saturation(saturation).relax(relax);
    Ok(config.stay(stay))
}

/// A mapping of names to values that fit.
fn checked<'py, T: FromPyObjectOwned<'py> + Display>(
    what: &str,
    given: &Bound<'py, PyAny>,
    range: &str,
    fits: impl Fn(&T) -> bool,
) -> PyResult<Named<T>> {
    let values = named(what, given)?;
    match values.iter().find(|(_, value)| !fits(value)) {
        Some((name, value)) => {
            let message = format!("{what}[{name:?}] = {value}; it must be {range}");
            Err(PyValueError::new_err(message))
        }
        None => Ok(values),
    }
}

fn named<'py, T: FromPyObjectOwned<'py>>(
    what: &str,
    given: &Bound<'py, PyAny>,
) -> PyResult<Named<T>> {
    let Ok(mapping) = given.cast::<PyMapping>() else {
        let got = given.get_type().name()?;
        let message = format!("{what} is a mapping of names, not {got}");
        return Err(PyTypeError::new_err(message));
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

fn only_of<T>(what: &str, given: &Named<T>, loads: &Named<f64>) -> PyResult<()> {
    match given.keys().find(|name| !loads.contains_key(*name)) {
        Some(name) => {
            let message = format!("{what} names {name:?}, which loads does not have; leave it out");
            Err(PyValueError::new_err(message))
        }
        None => Ok(()),
    }
}
