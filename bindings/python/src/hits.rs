//! Answers as arrays: ids of `int64` and distances of `float32`, the nearest first.

use chiplet::{Error, Neighbor, OfTable, SearchError, TableId};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::errors::{OrRaise, Raise};

/// Stands where fewer rows were found than asked for.
pub(crate) const NO_ID: i64 = -1;

/// Answers to `rows` queries for `k` neighbours each.
pub(crate) struct Hits {
    k: usize,
    /// `None` for a query that was a single vector.
    rows: Option<usize>,
    ids: Vec<i64>,
    distances: Vec<f32>,
}

impl Hits {
    /// Of one query: `[k]`.
    ///
    /// # Errors
    /// As [`signed`].
    pub(crate) fn of_one(found: &[Neighbor], k: usize) -> Result<Self, SearchError> {
        let mut hits = Self {
            k,
            rows: None,
            ids: vec![NO_ID; k],
            distances: vec![f32::INFINITY; k],
        };
        fill(&mut hits.ids, &mut hits.distances, found)?;
        Ok(hits)
    }

    /// Of many: `[rows][k]`, as they lie.
    pub(crate) fn of_many(rows: usize, k: usize, ids: Vec<i64>, distances: Vec<f32>) -> Self {
        Self {
            k,
            rows: Some(rows),
            ids,
            distances,
        }
    }

    /// `chiplet.HitsOver(ids, distances, tables)`: what was found of all `tables`.
    pub(crate) fn over(
        py: Python<'_>,
        found: Result<Vec<(TableId, Neighbor)>, OfTable<Error>>,
        tables: &[TableId],
        k: usize,
    ) -> PyResult<Py<PyAny>> {
        let found = found.map_err(|failed| failed.error.raise(py))?;
        let (of, found): (Vec<TableId>, Vec<Neighbor>) = found.into_iter().unzip();
        let hits = Self::of_one(&found, k).or_raise(py)?;
        let place = |of: &TableId| tables.iter().position(|table| table == of);
        let mut places = vec![NO_ID; k];
        for (at, of) in places.iter_mut().zip(&of) {
            *at = place(of).map_or(NO_ID, |place| place as i64);
        }
        let class = py.import("chiplet._hits")?.getattr("HitsOver")?;
        let hits = hits.into_python(py)?.into_bound(py);
        let (ids, distances) = (hits.get_item(0)?, hits.get_item(1)?);
        let over = class.call1((ids, distances, PyArray1::from_vec(py, places)))?;
        Ok(over.unbind())
    }

    /// `chiplet.Hits(ids, distances)`.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static HITS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        // A named tuple as tuples make it: no bytecode runs.
        static NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = HITS.import(py, "chiplet._hits", "Hits")?;
        let new = NEW.get_or_try_init(py, || -> PyResult<_> {
            Ok(py.get_type::<PyTuple>().getattr("__new__")?.unbind())
        })?;
        match self.rows {
            // Few numbers: to copy them takes less than to have the array own ours.
            None => {
                let ids = PyArray1::from_slice(py, &self.ids);
                new.call1(
                    py,
                    (class, (ids, PyArray1::from_slice(py, &self.distances))),
                )
            }
            Some(rows) => {
                let shape = [rows, self.k];
                let ids = PyArray1::from_vec(py, self.ids).reshape(shape)?;
                let distances = PyArray1::from_vec(py, self.distances).reshape(shape)?;
                new.call1(py, (class, (ids, distances)))
            }
        }
    }
}

/// Writes what a query found over the first of its places.
///
/// # Errors
/// As [`signed`].
pub(crate) fn fill(
    ids: &mut [i64],
    distances: &mut [f32],
    found: &[Neighbor],
) -> Result<(), SearchError> {
    for ((id, distance), neighbor) in ids.iter_mut().zip(distances).zip(found) {
        *id = signed(neighbor.id)?;
        *distance = neighbor.distance;
    }
    Ok(())
}

/// An id as Python has it, where [`NO_ID`] is none.
///
/// # Errors
/// [`SearchError::Backend`] from 2^63 on.
pub(crate) fn signed(id: u64) -> Result<i64, SearchError> {
    i64::try_from(id).map_err(|_| {
        SearchError::Backend(format!(
            "id {id} does not fit in int64, as ids are in Python; give rows ids below 2**63"
        ))
    })
}
