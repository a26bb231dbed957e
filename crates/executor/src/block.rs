//! Queries of one table that differ by their vectors, as one piece of memory; and their answers, as flat arrays.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use chiplet_table::{Filter, Query};

use crate::error::{Error, SubmitError};

/// Many queries of one table, for [`Executor::submit_block`](crate::Executor::submit_block): a row each, all asked
/// alike. Cheap to clone.
///
/// ```
/// use chiplet_executor::Block;
/// use chiplet_table::Query;
///
/// let rows = vec![0.5; 3 * 128]; // 3 rows of 128, which are not copied
/// let block = Block::new(rows, 128).like(Query::new([]).top(5).ef(64));
/// assert_eq!((block.len(), block.dim()), (3, 128));
/// ```
#[derive(Clone)]
pub struct Block {
    rows: Arc<dyn AsRef<[f32]> + Send + Sync>,
    dim: usize,
    template: Arc<Query>,
    filters: Option<Arc<[Filter]>>,
}

impl Block {
    /// A query for each of `rows` (`[n][dim]`, one after the other), with [`Query::new`]'s settings. Rows may lie in a
    /// `Vec`, an `Arc`, a mapped file, or another language's array: several threads read them where they are, and one
    /// of the last users of the block drops them.
    pub fn new(rows: impl AsRef<[f32]> + Send + Sync + 'static, dim: usize) -> Self {
        Self {
            rows: Arc::new(rows),
            dim,
            template: Arc::new(Query::new([])),
            filters: None,
        }
    }

    /// Asks each row as `query` asks: its `top`, `ef`, `nprobe`, radius, filter, deadline, class and attachment. Its
    /// vector is not used.
    #[must_use]
    pub fn like(mut self, query: Query) -> Self {
        self.template = Arc::new(query);
        self
    }

    /// Gives each row a filter of its own, in the order of the rows, instead of one for all.
    #[must_use]
    pub fn filters(mut self, filters: impl Into<Arc<[Filter]>>) -> Self {
        self.filters = Some(filters.into());
        self
    }

    /// How many queries it is: whole rows.
    pub fn len(&self) -> usize {
        let components = (*self.rows).as_ref().len();
        components.checked_div(self.dim).unwrap_or(0)
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Components of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The query that all rows are asked like.
    pub fn template(&self) -> &Query {
        &self.template
    }

    /// Whether it can be asked of a table of `dim` components.
    pub(crate) fn check(&self, dim: usize) -> Result<(), SubmitError> {
        let (expected, got) = (dim, self.dim);
        if expected != got {
            return Err(SubmitError::WrongDimension { expected, got });
        }
        let components = (*self.rows).as_ref().len();
        if !components.is_multiple_of(dim.max(1)) {
            return Err(SubmitError::RaggedRows { components, dim });
        }
        let rows = self.len();
        match &self.filters {
            Some(filters) if filters.len() != rows => Err(SubmitError::WrongFilters {
                filters: filters.len(),
                rows,
            }),
            _ => Ok(()),
        }
    }

    /// Makes the first of `queries` ask what the rows `numbers` ask. There are as many afterwards, if there were fewer.
    pub(crate) fn ask(&self, numbers: Range<usize>, queries: &mut Vec<Query>) -> Result<(), Error> {
        let rows = (*self.rows).as_ref();
        while queries.len() < numbers.len() {
            queries.push(Query::clone(&self.template));
        }
        for (number, query) in numbers.zip(queries) {
            let row = rows.get(number * self.dim..(number + 1) * self.dim);
            query.set_vector(row.ok_or(Error::Cancelled)?);
            if let Some(filters) = &self.filters {
                query.set_filter(Some(filters[number].clone()));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("len", &self.len())
            .field("dim", &self.dim)
            .field("template", &self.template)
            .field(
                "filters",
                &self.filters.as_ref().map(|filters| filters.len()),
            )
            .finish_non_exhaustive()
    }
}

/// What the rows of a [`Block`] have found, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BlockAnswers {
    /// Neighbours that a row has room for: [`Query::top`] of the query that all rows are asked like.
    pub k: usize,
    /// `[n][k]`: what each row has found, nearest first; `u64::MAX` in places that are left.
    pub ids: Vec<u64>,
    /// `[n][k]`: the distances of those; infinity in places that are left.
    pub distances: Vec<f32>,
    /// `[n]`: how many a row has found: fewer than `k` where the table, the filter or the radius has no more, 0 if the
    /// row has failed.
    pub found: Vec<u32>,
    /// The rows that have no answer and why, ascending. Neighbours that failed alike share an entry, so a deadline or a
    /// shutdown gives few entries.
    pub failed: Vec<(Range<usize>, Error)>,
}

impl BlockAnswers {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// What a row has found: ids and their distances, nearest first.
    ///
    /// # Errors
    /// What the row's own ticket would have told.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Result<(&[u64], &[f32]), &Error> {
        let found = self.found[row] as usize;
        let after = self.failed.partition_point(|(rows, _)| rows.end <= row);
        match self.failed.get(after) {
            Some((rows, error)) if rows.contains(&row) => Err(error),
            _ => {
                let places = row * self.k..row * self.k + found;
                Ok((&self.ids[places.clone()], &self.distances[places]))
            }
        }
    }
}
