//! A table as all that use it share it, and words for it.

use std::sync::{Arc, OnceLock};

use chiplet::Table;
use chiplet::index::{AnyTable, Metric};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Class;
use crate::gil::unlocked;

/// A table, and what is found out of it once.
pub(crate) struct Shared {
    pub(crate) table: Arc<AnyTable>,
    largest: OnceLock<Option<u64>>,
    /// Each id with its place, ascending.
    places: OnceLock<Vec<(u64, usize)>>,
}

impl Shared {
    pub(crate) fn new(table: AnyTable) -> Self {
        Self {
            table: Arc::new(table),
            largest: OnceLock::new(),
            places: OnceLock::new(),
        }
    }

    /// Components and metric, for people.
    pub(crate) fn kind(&self) -> String {
        let metric = metric_name(self.table.metric());
        format!(
            "{} ({metric})",
            counted(self.table.dim() as u64, "component")
        )
    }

    /// The ids of all rows, by their places. Reads all of them.
    pub(crate) fn ids(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let ids = unlocked(py, || self.table.ids());
        ids.ok_or_else(|| Class::Failed.with(py, "the ids of this table are Faiss'"))
    }

    /// The place of `id`, if there is such a row. The first time it reads all ids.
    pub(crate) fn place(&self, py: Python<'_>, id: u64) -> PyResult<Option<usize>> {
        let places = match self.places.get() {
            Some(places) => places,
            None => {
                let ids = self.ids(py)?;
                let places = unlocked(py, || {
                    let mut places: Vec<_> = ids.into_iter().zip(0..).collect();
                    places.sort_unstable();
                    places
                });
                self.places.get_or_init(|| places)
            }
        };
        let found = places.binary_search_by_key(&id, |(id, _)| *id);
        Ok(found.ok().map(|at| places[at].1))
    }

    /// The largest id, if there is a row.
    pub(crate) fn largest(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        if let Some(largest) = self.largest.get() {
            return Ok(*largest);
        }
        let largest = self.ids(py)?.into_iter().max();
        Ok(*self.largest.get_or_init(|| largest))
    }
}

/// So many of a thing, for people.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

const METRICS: [(&str, Metric); 3] = [
    ("l2", Metric::L2),
    ("cosine", Metric::Cosine),
    ("ip", Metric::InnerProduct),
];

pub(crate) fn metric_of(name: &str) -> PyResult<Metric> {
    let found = METRICS.iter().find(|(known, _)| *known == name);
    found.map(|(_, metric)| *metric).ok_or_else(|| {
        PyValueError::new_err(format!(
            "metric is {name:?}; it is \"l2\", \"cosine\" or \"ip\" (inner product)"
        ))
    })
}

pub(crate) fn metric_name(metric: Metric) -> &'static str {
    let found = METRICS.iter().find(|(_, known)| *known == metric);
    found.map_or("", |(name, _)| name)
}
