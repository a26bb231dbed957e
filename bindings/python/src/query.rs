//! A query's settings, as `search` and its relatives take them.

use std::time::{Duration, Instant};

use chiplet::index::{AnyTable, Metric};
use chiplet::{Class, Filter, Query};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::errors::Class as Raised;

/// Everything but the vector.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) k: usize,
    ef: Option<usize>,
    nprobe: Option<usize>,
    radius: Option<f32>,
    deadline: Option<Instant>,
    class: Option<Class>,
}

impl Settings {
    /// # Errors
    /// `ValueError` for a negative number or 0, with its name; `TypeError` for what is no number.
    pub(crate) fn new(
        py: Python<'_>,
        k: Option<&Bound<'_, PyAny>>,
        ef: Option<&Bound<'_, PyAny>>,
        nprobe: Option<&Bound<'_, PyAny>>,
        radius: Option<f32>,
    ) -> PyResult<Self> {
        Ok(Self {
            k: k.map_or(Ok(Query::DEFAULT_TOP), |k| count(py, "k", k))?,
            ef: ef.map(|ef| count(py, "ef", ef)).transpose()?,
            nprobe: nprobe.map(|n| count(py, "nprobe", n)).transpose()?,
            radius,
            deadline: None,
            class: None,
        })
    }

    /// Refuses what a search of `table` cannot mean: no row is nearer than 0, a graph has no lists, and lists keep no
    /// candidates. Exact search needs neither.
    pub(crate) fn check(&self, py: Python<'_>, table: &AnyTable) -> PyResult<()> {
        let message = match (table, self.radius, self.ef, self.nprobe) {
            (_, Some(radius), ..) if radius < 0.0 && table.metric() != Metric::InnerProduct => {
                format!("radius = {radius}; distances of this table are 0 and above")
            }
            (AnyTable::Hnsw(_), .., Some(nprobe)) => {
                format!(
                    "nprobe = {nprobe} is for inverted lists (Ivf); this is a graph, which takes ef"
                )
            }
            (AnyTable::Ivf(_), _, Some(ef), _) => {
                format!(
                    "ef = {ef} is for graphs (Hnsw); these are inverted lists, which take nprobe"
                )
            }
            _ => return Ok(()),
        };
        Err(Raised::Query.with(py, message))
    }

    /// Adds what only an executor knows: seconds until the answer is worthless, and a class by its name.
    pub(crate) fn served(
        mut self,
        py: Python<'_>,
        deadline: Option<f64>,
        class: Option<&str>,
    ) -> PyResult<Self> {
        if let Some(seconds) = deadline {
            if seconds.is_nan() {
                return Err(Raised::Query.with(py, "deadline is NaN; it is seconds from now"));
            }
            // Past is past, and too far for the clock is none.
            let left = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
            self.deadline = Instant::now().checked_add(left);
        }
        self.class = class.map(by_name).transpose()?;
        Ok(self)
    }

    /// The query for `vector`.
    pub(crate) fn query(&self, vector: impl Into<Vec<f32>>, filter: Option<Filter>) -> Query {
        let mut query = Query::new(vector).top(self.k);
        if let Some(ef) = self.ef {
            query = query.ef(ef);
        }
        if let Some(nprobe) = self.nprobe {
            query = query.nprobe(nprobe);
        }
        if let Some(radius) = self.radius {
            query = query.radius(radius);
        }
        if let Some(filter) = filter {
            query = query.filter(filter);
        }
        if let Some(deadline) = self.deadline {
            query = query.deadline(deadline);
        }
        if let Some(class) = self.class {
            query = query.class(class);
        }
        query
    }
}

pub(crate) fn by_name(class: &str) -> PyResult<Class> {
    match class {
        "interactive" => Ok(Class::Interactive),
        "bulk" => Ok(Class::Bulk),
        other => Err(PyValueError::new_err(format!(
            "class is {other:?}; it is \"interactive\" or \"bulk\""
        ))),
    }
}

/// A time that may be waited.
///
/// # Errors
/// `ValueError` below 0 and for NaN.
pub(crate) fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    if seconds >= 0.0 {
        // Too far for the clock is for ever.
        return Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    let message = format!("{name} = {seconds}; it is seconds, 0 and more");
    Err(PyValueError::new_err(message))
}

fn count(py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let whole: Option<i64> = value.extract().ok();
    match whole.map(usize::try_from) {
        Some(Ok(count)) if count > 0 => Ok(count),
        None if !value.is_instance_of::<PyInt>() => {
            let kind = value.get_type();
            Err(PyTypeError::new_err(format!(
                "{name} is a whole number, not a {kind}"
            )))
        }
        _ => {
            let message = format!("{name} = {value}; it must be at least 1 and fit in 63 bits");
            Err(Raised::Query.with(py, message))
        }
    }
}
