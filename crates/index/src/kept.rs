//! Rows that a table keeps in the order of their ids, in a format of its choice, to compare candidates with.

use chiplet_table::{Context, SearchError};

use crate::exact::{ExactRows, no_row};
use crate::hnsw::{Grid, Grids, Prepared, RowDistances, RowFormat};
use crate::ids::Ids;
use crate::kernel::{Numbers, Rows};
use crate::metric::Metric;
use crate::poll;

/// Rows in memory, one after the other.
pub(crate) struct Kept<'a> {
    pub(crate) dim: usize,
    pub(crate) format: RowFormat,
    pub(crate) metric: Metric,
    pub(crate) rows: Rows<'a>,
    /// Of the rows, ascending.
    pub(crate) ids: Ids<'a>,
    /// What 8-bit codes stand for; without values for rows of another format.
    pub(crate) grid: Grid<'a>,
}

impl ExactRows for Kept<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn metric(&self) -> Metric {
        self.metric
    }

    fn size_bytes(&self) -> u64 {
        (self.rows.count() * self.rows.stride()) as u64
    }

    fn distances(
        &self,
        query: &[f32],
        ids: &[u64],
        distances: &mut [f32],
        context: &mut Context,
    ) -> Result<(), SearchError> {
        let count = self.rows.count();
        let place = |&id: &u64| match self.ids.place(id, count) {
            Some(place) => Ok(place as u64),
            None => Err(no_row(format_args!(
                "{id} has no exact row, of which there are {count}"
            ))),
        };
        let places: Vec<u64> = ids.iter().map(place).collect::<Result<_, _>>()?;
        let mut prepared = Prepared::default();
        let rows = match self.format.element() {
            Some(element) => RowDistances::floats(query, element, self.metric, self.rows),
            None => {
                prepared.set(query, self.format, self.metric, Grids::of_bytes(self.grid));
                prepared.to(self.format, self.metric, self.rows)
            }
        };
        let (block, _) = poll::blocks(self.rows.stride());
        for (places, distances) in places.chunks(block).zip(distances.chunks_mut(block)) {
            poll::read(context, (places.len() * self.rows.stride()) as u64)?;
            rows.compute(Numbers(places), distances);
        }
        Ok(())
    }
}
