//! What a table that keeps its rows beside their codes does with them: which part of a query goes to the lists, and how
//! what they find becomes the answer.

use chiplet_table::{Context, Neighbor, Query, SearchError};

use super::{IvfTable, Scans};
use crate::exact::{nearest_exactly, widths};
use crate::stored_rows::StoredRows;

impl IvfTable {
    /// The rows once more, if the table has them.
    pub(super) fn full(&self) -> Option<StoredRows<'_>> {
        match &self.scans {
            Scans::Own { store, .. } => store.full(),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => None,
        }
    }

    /// How many rows the lists are asked for `query`, and within which radius.
    pub(super) fn asked_widths(&self, query: &Query) -> (usize, Option<f32>) {
        match self.full() {
            Some(_) => widths(query),
            None => (query.k(), query.requested_radius()),
        }
    }

    /// The answer to `query`, of what the lists have found for as many as [`Self::asked_widths`] says.
    pub(super) fn answer(
        &self,
        query: &Query,
        found: Vec<Neighbor>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        match self.full() {
            Some(rows) => nearest_exactly(&rows, query, &found, context),
            None => Ok(found),
        }
    }
}
