//! What callers pass in, as the library takes it.

use std::collections::HashMap;
use std::sync::Arc;

use numpy::{
    PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyModule, PyTuple};

use chiplet::{Filter, Table};

use crate::errors::Class;
use crate::gil::unlocked;
use crate::shared::{Shared, counted};

/// Vectors in C order, one after the other.
pub(crate) enum Rows<'py> {
    /// A single vector, copied: a query keeps it.
    One(Vec<f32>),
    /// Rows of that many components.
    Many(PyReadonlyArrayDyn<'py, f32>, usize),
}

impl<'py> Rows<'py> {
    /// What numpy views without a copy is not copied; other dtypes and layouts are.
    pub(crate) fn of(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        if given.get_type().is(ndarray(given.py())?)
            && let Ok(array) = given.cast::<PyArrayDyn<f32>>()
            && array.is_c_contiguous()
            && matches!(array.ndim(), 1 | 2)
            && array.data().is_aligned()
        {
            return Self::of_array(array);
        }
        let converted = helper(given.py(), "rows")?.call1((given,))?;
        Self::of_array(converted.cast()?)
    }

    fn of_array(array: &Bound<'py, PyArrayDyn<f32>>) -> PyResult<Self> {
        match array.shape() {
            [_, dim] => Ok(Self::Many(array.try_readonly()?, *dim)),
            _ => Ok(Self::One(array.to_vec()?)),
        }
    }

    /// All values, one vector after the other.
    pub(crate) fn values(&self) -> PyResult<&[f32]> {
        match self {
            Self::One(vector) => Ok(vector),
            Self::Many(rows, _) => Ok(rows.as_slice()?),
        }
    }

    /// Many vectors as an array of Python's.
    pub(crate) fn array(&self) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::One(_) => Err(PyTypeError::new_err("one vector is no array of rows")),
            Self::Many(rows, _) => Ok(rows.as_any().clone()),
        }
    }

    /// How many rows there are, `None` for a single vector.
    pub(crate) fn count(&self) -> Option<usize> {
        match self {
            Self::One(_) => None,
            Self::Many(rows, _) => Some(rows.shape()[0]),
        }
    }

    /// Refuses a single vector, for which there is another call.
    pub(crate) fn must_be_many(&self, call: &str, single: &str) -> PyResult<()> {
        self.count().map(drop).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "{call} takes [n][dim]; for one vector there is {single}"
            ))
        })
    }

    /// Components of each vector.
    pub(crate) fn dim(&self) -> usize {
        match self {
            Self::One(vector) => vector.len(),
            Self::Many(_, dim) => *dim,
        }
    }

    /// Rows to build a table of: a single vector is none.
    pub(crate) fn of_table(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        let rows = Self::of(given)?;
        match rows.count() {
            Some(_) => Ok(rows),
            None => Err(PyTypeError::new_err(
                "rows have 2 dimensions, [n][dim]; this has 1",
            )),
        }
    }
}

/// Ids as the library has them.
///
/// # Errors
/// `ValueError` for one below 0, with its place.
pub(crate) fn ids(given: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let array = helper(given.py(), "ids")?.call1((given,))?;
    let ids = array.extract::<PyReadonlyArray1<'_, i64>>()?;
    unsigned(given.py(), ids.as_slice()?, Class::Build)
}

fn unsigned(py: Python<'_>, ids: &[i64], wrong: Class) -> PyResult<Vec<u64>> {
    let id = |(place, &id): (usize, &i64)| u64::try_from(id).map_err(|_| place);
    let all = || ids.iter().enumerate().map(id).collect();
    let all: Result<Vec<u64>, usize> = unlocked(py, all);
    all.map_err(|place| {
        let message = format!(
            "id {} at {place} is below 0; ids are 0 and above",
            ids[place]
        );
        wrong.with(py, message)
    })
}

/// The rows that may be found. Made once and passed to many searches, it is not built again for each.
///
/// Of booleans it is a mask: row `id` is allowed if `mask[id]`. Of integers it is the ids that are allowed.
#[pyclass(frozen, module = "chiplet", name = "Filter")]
#[derive(Clone)]
pub(crate) struct PyFilter {
    filter: Filter,
    /// Entries of the mask that it was made of.
    mask: Option<usize>,
}

#[pymethods]
impl PyFilter {
    #[new]
    #[pyo3(signature = (allowed, /))]
    fn new(allowed: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(made) = allowed.cast::<Self>() {
            return Ok(made.get().clone());
        }
        let py = allowed.py();
        let array = helper(py, "mask_or_ids")?.call1((allowed,))?;
        if let Ok(mask) = array.extract::<PyReadonlyArray1<'_, bool>>() {
            let mask = mask.as_slice()?;
            let word = |bits: &[bool]| {
                let set = bits.iter().enumerate().filter(|(_, set)| **set);
                set.fold(0_u64, |word, (bit, _)| word | 1 << bit)
            };
            let words = || mask.chunks(64).map(word).collect::<Vec<u64>>();
            return Ok(Self {
                filter: unlocked(py, || Filter::bitmap(words())),
                mask: Some(mask.len()),
            });
        }
        let ids = array.extract::<PyReadonlyArray1<'_, i64>>()?;
        let given = ids.as_slice()?;
        let ids = unsigned(py, given, Class::Query)?;
        let filter = unlocked(py, || Filter::ids(ids));
        if filter.count() == Some(given.len() as u64) {
            return Ok(Self { filter, mask: None });
        }
        let mut places = HashMap::new();
        let mut twice = given.iter().enumerate();
        let twice = twice.find_map(|(at, id)| Some((id, places.insert(id, at)?, at)));
        let (id, first, second) = twice.unwrap_or((&0, 0, 0));
        let message = format!(
            "id {id} is given twice, at {first} and {second}: ids that are allowed differ; for a mask of rows pass booleans"
        );
        Err(Class::Query.with(py, message))
    }

    /// Ids that are allowed, some of which a table may not hold.
    #[getter]
    fn count(&self) -> u64 {
        self.filter.count().unwrap_or(0)
    }

    /// Whether the row `id` may be found.
    fn __contains__(&self, id: i64) -> bool {
        u64::try_from(id).is_ok_and(|id| self.filter.allows(id))
    }

    fn __repr__(&self) -> String {
        format!("Filter({})", counted(self.count(), "id"))
    }
}

impl PyFilter {
    /// What it allows of the rows of `table`. A mask must have an entry for each, as numpy wants it of `ids[mask]`, or
    /// where ids are not row numbers of `mask[ids]`.
    fn of(&self, py: Python<'_>, table: &Shared) -> PyResult<Filter> {
        let Some(entries) = self.mask else {
            return Ok(self.filter.clone());
        };
        let (rows, largest) = (table.table.len(), table.largest(py)?);
        let numbers = largest.map_or(0, |id| id.saturating_add(1)) == rows as u64;
        let message = if numbers && entries != rows {
            format!("a mask of {entries} entries for {rows} rows; pass one entry a row")
        } else if let Some(largest) = largest.filter(|&largest| entries as u64 <= largest) {
            format!(
                "a mask of {entries} entries, and ids go up to {largest}; pass an entry for each id up to it, or the ids \
                 that are allowed"
            )
        } else {
            return Ok(self.filter.clone());
        };
        Err(Class::Query.with(py, message))
    }
}

/// What `given` allows of the rows of `table`: a mask, ids, or a [`PyFilter`].
fn filter(given: &Bound<'_, PyAny>, table: &Shared) -> PyResult<Filter> {
    PyFilter::new(given)?.of(given.py(), table)
}

/// One filter for all queries, or one a query.
pub(crate) enum Filters {
    None,
    One(Filter),
    Each(Arc<[Filter]>),
}

impl Filters {
    /// That of the query with this number.
    pub(crate) fn at(&self, query: usize) -> Option<Filter> {
        match self {
            Self::None => None,
            Self::One(filter) => Some(filter.clone()),
            Self::Each(each) => each.get(query).cloned(),
        }
    }

    /// A list or a tuple whose elements are filters themselves is one a query.
    pub(crate) fn of(
        given: Option<&Bound<'_, PyAny>>,
        queries: usize,
        table: &Shared,
    ) -> PyResult<Self> {
        let Some(given) = given else {
            return Ok(Self::None);
        };
        let several = given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>();
        // Numbers, or nothing, are one set of ids.
        let first = several.then(|| given.get_item(0).ok()).flatten();
        let is_filter =
            |one: &Bound<'_, PyAny>| one.is_instance_of::<PyFilter>() || one.len().is_ok();
        if !first.is_some_and(|first| is_filter(&first)) {
            return Ok(Self::One(filter(given, table)?));
        }
        let each = given.try_iter()?.map(|one| filter(&one?, table));
        let each: Arc<[Filter]> = each.collect::<PyResult<Vec<_>>>()?.into();
        if each.len() != queries {
            let message = format!(
                "{} filters for {queries} queries; pass one, or one a query",
                each.len()
            );
            return Err(Class::Query.with(given.py(), message));
        }
        Ok(Self::Each(each))
    }
}

/// numpy's array itself: what is derived of it may mean something else, as a masked array does.
fn ndarray(py: Python<'_>) -> PyResult<&Py<PyAny>> {
    static NDARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    NDARRAY.get_or_try_init(py, || Ok(py.import("numpy")?.getattr("ndarray")?.unbind()))
}

/// A function of `chiplet._inputs`.
fn helper<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || {
        PyModule::import(py, "chiplet._inputs").map(Bound::unbind)
    })?;
    module.bind(py).getattr(name)
}
