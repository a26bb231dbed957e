//! Points by a filter: counted, and read page by page.

use std::collections::BinaryHeap;
use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::Instant;

use qdrant_client::qdrant::{CountPoints, ScrollPoints, ScrollResponse};
use tonic::Status;

use super::Api;
use super::admission::Call;
use super::message::{Parts, Room, id_message, point_id};
use super::refusal::{self, invalid, unless_absent};
use super::search::consistency;
use super::{filter, seconds};
use crate::collection::Collection;
use crate::collection::filter::{Condition, Rows};
use crate::collection::point::PointId;
use crate::collection::rows::{Row, View};

/// Points of a page when a client does not say how many, as the API has it.
const DEFAULT_PAGE: u32 = 10;

impl Api {
    /// The points that satisfy a condition, with the view they are in. On a thread that may take its time; it gives up
    /// when the deadline has passed or nobody waits any more.
    pub(super) async fn matching(
        &self,
        collection: &Arc<Collection>,
        condition: Condition,
        deadline: Instant,
    ) -> Result<(Arc<View>, Rows), Status> {
        let waiting = Arc::new(());
        let waits: Weak<()> = Arc::downgrade(&waiting);
        let collection = Arc::clone(collection);
        let work = self.blocking.run(move || {
            let wanted = || waits.strong_count() > 0 && Instant::now() < deadline;
            collection.filter(&condition, &wanted)
        });
        match tokio::time::timeout_at(deadline.into(), work).await {
            Ok(done) => match done? {
                (view, Some(rows)) => Ok((view, rows)),
                (_, None) => Err(refusal::deadline()),
            },
            Err(_) => Err(refusal::deadline()),
        }
    }

    pub(super) async fn count(&self, call: &Call, message: CountPoints) -> Result<u64, Status> {
        unless_absent(&[(message.shard_key_selector.is_some(), "shard keys")])?;
        consistency(message.read_consistency)?;
        let collection = self.find(&message.collection_name)?;
        let count = match filter::read_if_any(message.filter)? {
            None => collection.view().live,
            Some(condition) => {
                let deadline = self.deadline(call, message.timeout);
                self.matching(&collection, condition, deadline)
                    .await?
                    .1
                    .len()
            }
        };
        Ok(count as u64)
    }

    /// Points in the order of their ids.
    pub(super) async fn scroll(
        &self,
        call: &Call,
        message: ScrollPoints,
    ) -> Result<ScrollResponse, Status> {
        unless_absent(&[
            (message.shard_key_selector.is_some(), "shard keys"),
            (message.order_by.is_some(), "ordering by payload"),
        ])?;
        consistency(message.read_consistency)?;
        let parts = Parts::read(message.with_payload, message.with_vectors)?;
        let collection = self.find(&message.collection_name)?;
        let limit = message.limit.unwrap_or(DEFAULT_PAGE) as usize;
        let most = self.limits.results;
        if !(1..=most).contains(&limit) {
            return Err(invalid(format!(
                "limit is {limit}; it must be 1 to {most} (limits.results)"
            )));
        }
        let offset = message.offset.map(|id| point_id(Some(id))).transpose()?;
        let (view, mut page) = match filter::read_if_any(message.filter)? {
            None => collection.with_rows(|view, ids| {
                let from = offset.map_or(Bound::Unbounded, Bound::Included);
                let rows = ids.range((from, Bound::Unbounded)).take(limit + 1);
                (view, rows.map(|(&id, &row)| (id, row)).collect::<Vec<_>>())
            }),
            Some(condition) => {
                let deadline = self.deadline(call, message.timeout);
                let (view, rows) = self.matching(&collection, condition, deadline).await?;
                let page = first(&view, &rows, offset, limit + 1);
                (view, page)
            }
        };
        let next = match page.len() > limit {
            true => page.pop().map(|(id, _)| id),
            false => None,
        };
        let mut room = Room::new(self, call);
        let result = page
            .into_iter()
            .map(|(_, row)| parts.retrieved(&view.stored(row), &mut room))
            .collect::<Result<_, _>>()?;
        Ok(ScrollResponse {
            next_page_offset: next.map(id_message),
            result,
            time: seconds(call),
            usage: None,
        })
    }
}

/// The `most` rows with the smallest ids from `offset` on, in their order.
fn first(view: &View, rows: &Rows, offset: Option<PointId>, most: usize) -> Vec<(PointId, Row)> {
    let mut smallest = BinaryHeap::new();
    for row in rows.iter() {
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
    smallest.into_sorted_vec()
}
