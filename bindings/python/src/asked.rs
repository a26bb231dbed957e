//! A search as it is asked of a table: checked, and made a query or a block.

use std::sync::Arc;

use chiplet::index::Metric;
use chiplet::ticket::BlockAnswers;
use chiplet::{Block, Query, SearchError, Table};
use pyo3::prelude::*;

use crate::errors::{Class, OrRaise, Raise};
use crate::gil::unlocked;
use crate::hits::{Hits, NO_ID, signed};
use crate::input::{Filters, Rows};
use crate::query::Settings;
use crate::shared::Shared;

/// Neighbours that are never refused for the room that they take.
const ALWAYS_ALLOWED: usize = 1 << 20;

/// What a search is given, for a table that can answer it.
pub(crate) struct Asked<'py> {
    /// How many vectors there are.
    pub(crate) count: usize,
    pub(crate) rows: Rows<'py>,
    pub(crate) settings: Settings,
    pub(crate) filters: Filters,
    pub(crate) metric: Metric,
}

impl<'py> Asked<'py> {
    /// # Errors
    /// Another dimension than the table's, settings of another kind of table, a `k` that asks for far more than there
    /// is, another number of filters than of vectors.
    pub(crate) fn of(
        table: &Shared,
        q: &Bound<'py, PyAny>,
        settings: Settings,
        filter: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let rows = Rows::of(q)?;
        let (expected, got) = (table.table.dim(), rows.dim());
        if expected != got {
            return Err(SearchError::WrongDimension { expected, got }.raise(q.py()));
        }
        let count = rows.count().unwrap_or(1);
        settings.check(q.py(), &table.table)?;
        check_k(q.py(), settings.k, count, table.table.len())?;
        let filters = Filters::of(filter, count, table)?;
        Ok(Self {
            count,
            rows,
            settings,
            filters,
            metric: table.table.metric(),
        })
    }

    /// The query, if it is a single vector.
    pub(crate) fn query(&mut self) -> Option<Query> {
        match &mut self.rows {
            Rows::One(vector) => {
                let vector = std::mem::take(vector);
                Some(self.settings.query(vector, self.filters.at(0)))
            }
            Rows::Many(..) => None,
        }
    }

    /// The queries for all vectors, which are copied: their array may change.
    pub(crate) fn block(&self, py: Python<'_>) -> PyResult<Block> {
        let values = self.rows.values()?;
        let rows = unlocked(py, || values.to_vec());
        let block = |filter| {
            Block::new(rows, self.rows.dim()).like(self.settings.query(Vec::new(), filter))
        };
        Ok(match &self.filters {
            Filters::None => block(None),
            Filters::One(filter) => block(Some(filter.clone())),
            Filters::Each(each) => block(None).filters(Arc::clone(each)),
        })
    }
}

/// Refuses a `k` that no array holds, or that asks for far more than a table of `len` rows can give: each query gets
/// `k` places.
fn check_k(py: Python<'_>, k: usize, queries: usize, len: usize) -> PyResult<()> {
    let places = k.checked_mul(queries);
    if places.is_some_and(|places| places <= ALWAYS_ALLOWED || k <= len) {
        return Ok(());
    }
    let message = format!(
        "k = {k} for {queries} queries is more than the table's {len} rows and takes too much room; ask for at most {len}"
    );
    Err(Class::Query.with(py, message))
}

/// The answers to a block as arrays, or the first error.
pub(crate) fn of_block(py: Python<'_>, k: usize, answers: BlockAnswers) -> PyResult<Hits> {
    if let Some((rows, why)) = answers.failed.first().cloned() {
        return Err(at_row(py, rows.start, why.raise(py)));
    }
    let rows = answers.len();
    let ids = unlocked(py, || {
        let mut ids = vec![NO_ID; answers.ids.len()];
        let places = ids.chunks_mut(k).zip(answers.ids.chunks(k));
        for ((places, found), &count) in places.zip(&answers.found) {
            for (place, &id) in places.iter_mut().zip(found).take(count as usize) {
                *place = signed(id)?;
            }
        }
        Ok::<_, SearchError>(ids)
    });
    Ok(Hits::of_many(rows, k, ids.or_raise(py)?, answers.distances))
}

/// Says which of several queries an error is about.
pub(crate) fn at_row(py: Python<'_>, row: usize, error: PyErr) -> PyErr {
    let message = format!("query {row}: {}", error.value(py));
    match error.get_type(py).call1((message,)) {
        Ok(named) => PyErr::from_value(named),
        Err(_) => error,
    }
}
