//! Answers as arrays: ids of `int64` and distances of `float32`, the nearest first.

use chiplet::Neighbor;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

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
    pub(crate) fn of_one(found: &[Neighbor], k: usize) -> Self {
        let mut hits = Self {
            k,
            rows: None,
            ids: vec![NO_ID; k],
            distances: vec![f32::INFINITY; k],
        };
        fill(&mut hits.ids, &mut hits.distances, found);
        hits
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

    /// `chiplet.Hits(ids, distances)`.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static HITS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        // A named tuple as tuples make it: no bytecode runs.
        static NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = HITS.get_or_try_init(py, || -> PyResult<_> {
            Ok(py.import("chiplet._hits")?.getattr("Hits")?.unbind())
        })?;
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
pub(crate) fn fill(ids: &mut [i64], distances: &mut [f32], found: &[Neighbor]) {
    for ((id, distance), neighbor) in ids.iter_mut().zip(distances).zip(found) {
        *id = neighbor.id as i64;
        *distance = neighbor.distance;
    }
}
