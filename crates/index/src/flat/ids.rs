//! Ids of rows that are not their numbers. Such rows lie in the order of their ids, so that the row of an id is found.

use crate::exact::no_row;
use chiplet_table::SearchError;

/// The ids of a table's rows: ascending, or none, and then each row's id is its number.
#[derive(Clone, Copy)]
pub(super) struct Ids<'a>(pub(super) Option<&'a [u64]>);

impl Ids<'_> {
    /// The id of `row`.
    pub(super) fn at(self, row: usize) -> u64 {
        self.0.map_or(row as u64, |ids| ids[row])
    }

    /// The numbers of the rows with these ids; of several with one id any.
    ///
    /// # Errors
    /// [`SearchError::Backend`] for an id that no row has.
    pub(super) fn rows_of(self, wanted: &[u64]) -> Result<Option<Vec<u64>>, SearchError> {
        let Some(ids) = self.0 else {
            return Ok(None);
        };
        let row = |id: &u64| match ids.binary_search(id) {
            Ok(row) => Ok(row as u64),
            Err(_) => Err(no_row(format_args!("{id} is the id of no exact row"))),
        };
        wanted.iter().map(row).collect::<Result<_, _>>().map(Some)
    }
}

/// The numbers of rows with these `ids`, in the order of those.
pub(super) fn order(ids: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|&row| ids[row]);
    order
}
