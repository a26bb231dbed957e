//! Rows that a table keeps in the order of their ids, in a format of its choice, to compare candidates with.

use chiplet_table::{Context, SearchError};

use crate::exact::{ExactRows, no_row};
use crate::hnsw::{Grid, Grids, Prepared, RowDistances, RowFormat};
use crate::ids::Ids;
use crate::kernel::{Numbers, Rows};
use crate::metric::Metric;
use crate::poll;

/// Candidates whose places are found before their rows are read.
const AT_ONCE: usize = 64;

/// Rows in memory, one after the other.
pub(crate) struct StoredRows<'a> {
    pub(crate) dim: usize,
    pub(crate) format: RowFormat,
    pub(crate) metric: Metric,
    pub(crate) rows: Rows<'a>,
    /// Of the rows, ascending.
    pub(crate) ids: Ids<'a>,
    /// What 8-bit codes stand for; without values for rows of another format.
    pub(crate) grid: Grid<'a>,
}

impl StoredRows<'_> {
    /// The row at `place`, if there is one, as it is kept.
    pub(crate) fn row(&self, place: usize) -> Option<Vec<f32>> {
        Grids::of_bytes(self.grid).read(self.format, self.rows.bytes(place)?, self.dim)
    }
}

impl ExactRows for StoredRows<'_> {
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
        let mut prepared = Prepared::default();
        let rows = match self.format.element() {
            Some(element) => RowDistances::floats(query, element, self.metric, self.rows),
            None => {
                prepared.set(query, self.format, self.metric, Grids::of_bytes(self.grid));
                prepared.to(self.format, self.metric, self.rows)
            }
        };
        let (block, _) = poll::blocks(self.rows.stride());
        // A query looks up few, and does so without an allocation.
        let mut places = [0; AT_ONCE];
        let block = block.min(AT_ONCE);
        for (ids, distances) in ids.chunks(block).zip(distances.chunks_mut(block)) {
            let places = &mut places[..ids.len()];
            for (found, id) in places.iter_mut().zip(ids) {
                *found = place(id)?;
            }
            poll::read(context, (places.len() * self.rows.stride()) as u64)?;
            rows.compute(Numbers(places), distances);
            for distance in distances {
                *distance = self.metric.reported(*distance);
            }
        }
        Ok(())
    }
}
