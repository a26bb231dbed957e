//! Points by a filter: counted, and read page by page.

use std::collections::BinaryHeap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use qdrant_client::qdrant::{self, CountPoints, ScrollPoints, ScrollResponse};
use tonic::{Response, Status};

use super::Api;
use super::admission::Call;
use super::message::{Page, Parts, Points, id_message, point_id};
use super::refusal::{self, invalid, unless_absent, unless_sharded};
use super::search::consistency;
use super::{filter, seconds};
use crate::collection::Collection;
use crate::collection::filter::Rows;
use crate::collection::point::PointId;
use crate::collection::rows::{Row, View};
use crate::memory::InFlight;
use crate::scheduling::Watch;

/// Points of a page when a client does not say how many, as the API has it.
const DEFAULT_PAGE: u32 = 10;

impl Api {
    /// The points that satisfy a filter, with the view they are in. It is worked out by a worker, as a task of the
    /// collection's table, which gives up when the deadline has passed or nobody waits any more.
    pub(super) async fn matching(
        &self,
        collection: &Arc<Collection>,
        filter: qdrant::Filter,
        deadline: Instant,
    ) -> Result<(Arc<View>, Rows), Status> {
        let whole = |view, rows, _: &Watch<'_>| Some((view, rows));
        self.selected(collection, filter, deadline, whole).await
    }

    /// [`Api::matching`], and what `then` makes of it, in the same task; that is `None` if it gave up.
    async fn selected<T: Send + 'static>(
        &self,
        collection: &Arc<Collection>,
        filter: qdrant::Filter,
        deadline: Instant,
        then: impl FnOnce(Arc<View>, Rows, &Watch<'_>) -> Option<T> + Send + 'static,
    ) -> Result<T, Status> {
        let asked = Arc::clone(collection);
        let work = move |watch: &Watch<'_>| {
            let memory = InFlight::new(asked.budget());
            let condition = filter::read(filter, &memory)?;
            let (view, rows) = asked.filter(&condition, &|| watch.is_wanted());
            watch.read(view.live as u64 * size_of::<PointId>() as u64);
            rows.and_then(|rows| then(view, rows, watch))
                .ok_or_else(refusal::deadline)
        };
        self.work(collection, deadline, work).await?
    }

    pub(super) async fn count(&self, call: &Call, message: CountPoints) -> Result<u64, Status> {
        unless_sharded(&message.shard_key_selector)?;
        consistency(message.read_consistency)?;
        let collection = self.find(&message.collection_name)?;
        let count = match message.filter {
            None => collection.view().live,
            Some(filter) => {
                let deadline = self.deadline(call, message.timeout);
                self.matching(&collection, filter, deadline).await?.1.len()
            }
        };
        Ok(count as u64)
    }

    /// Points in the order of their ids.
    pub(super) async fn scroll(
        &self,
        call: &Call,
        message: ScrollPoints,
    ) -> Result<Response<ScrollResponse>, Status> {
        unless_sharded(&message.shard_key_selector)?;
        unless_absent(&[(message.order_by.is_some(), "ordering by payload")])?;
        consistency(message.read_consistency)?;
        let parts = Arc::new(Parts::read(message.with_payload, message.with_vectors)?);
        let collection = self.find(&message.collection_name)?;
        let limit = message.limit.unwrap_or(DEFAULT_PAGE) as usize;
        let most = self.limits.results;
        if !(1..=most).contains(&limit) {
            return Err(invalid(format!(
                "limit is {limit}; it must be 1 to {most} (limits.results)"
            )));
        }
        let offset = message.offset.map(|id| point_id(Some(id))).transpose()?;
        let deadline = self.deadline(call, message.timeout);
        let (view, mut page) = match message.filter {
            None => collection.with_rows(|view, ids| {
                let from = offset.map_or(Bound::Unbounded, Bound::Included);
                let rows = ids.range((from, Bound::Unbounded)).take(limit + 1);
                (view, rows.map(|(&id, &row)| (id, row)).collect::<Vec<_>>())
            }),
            Some(filter) => {
                self.selected(&collection, filter, deadline, move |view, rows, watch| {
                    let page = first(&view, &rows, offset, limit + 1, || watch.is_wanted())?;
                    Some((view, page))
                })
                .await?
            }
        };
        let next = match page.len() > limit {
            true => page.pop().map(|(id, _)| id),
            false => None,
        };
        let page = Page {
            view,
            rows: page.into_iter().map(|(_, row)| (row, 0.0)).collect(),
            parts,
        };
        let points = Points::new(self, call);
        let points = self
            .copy(&collection, deadline, page, points, Parts::scrolled)
            .await?;
        Ok(points.answer(&ScrollResponse {
            next_page_offset: next.map(id_message),
            time: seconds(call),
            ..ScrollResponse::default()
        }))
    }
}

/// Rows that are looked at between two looks at whether anybody still waits.
const ROWS_AT_ONCE: usize = 1_024;

/// The `most` rows with the smallest ids from `offset` on, in their order; `None` once nobody waits any more.
fn first(
    view: &View,
    rows: &Rows,
    offset: Option<PointId>,
    most: usize,
    is_wanted: impl Fn() -> bool,
) -> Option<Vec<(PointId, Row)>> {
    let mut smallest = BinaryHeap::new();
    for (number, row) in rows.iter().enumerate() {
        if number % ROWS_AT_ONCE == 0 && !is_wanted() {
            return None;
        }
        let id = view.stored(row).id;
        if offset.is_some_and(|offset| id < offset) {
            continue;
        }
        if smallest.len() < most {
            smallest.push((id, row));
        } else if let Some(mut largest) = smallest.peek_mut()
            && id < largest.0
        {
            *largest = (id, row);
        }
    }
    Some(smallest.into_sorted_vec())
}
