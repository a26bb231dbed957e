//! Upserts, deletions, and changes of payloads.

use std::sync::Arc;
use std::time::Duration;

use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{
    ClearPayloadPoints, DeletePayloadPoints, DeletePoints, Filter, PointStruct, PointsSelector,
    SetPayloadPoints, UpdateMode, UpdateResult, UpdateStatus, UpsertPoints,
};
use tonic::Status;

use super::Api;
use super::admission::Call;
use super::filter;
use super::message::{paths, point_id, point_vector};
use super::refusal::{self, invalid, says, unless_absent, unless_sharded};
use super::search::prepared;
use crate::collection::Collection;
use crate::collection::alter::{Action, Alter, Selection};
use crate::collection::payload;
use crate::collection::point::{Payload, Point};
use crate::collection::store::Change;
use crate::collection::writer::{Work, WriteError};
use crate::memory::InFlight;
use crate::scheduling::Watch;

impl Api {
    pub(crate) async fn upsert(
        &self,
        call: &Call,
        message: UpsertPoints,
    ) -> Result<UpdateResult, Status> {
        let mode = message.update_mode.unwrap_or(UpdateMode::Upsert as i32);
        unless_sharded(&message.shard_key_selector)?;
        unless_absent(&[
            (
                says(&message.update_filter, &Filter::default()),
                "filters of upserts",
            ),
            (
                mode != UpdateMode::Upsert as i32,
                "update modes other than upsert",
            ),
        ])?;
        let collection = self.find(&message.collection_name)?;
        let most = self.limits.upsert_points;
        if message.points.len() > most {
            return Err(refusal::too_many_points(most));
        }
        if message.points.is_empty() {
            return Err(invalid("no points are given"));
        }
        let changes = message
            .points
            .into_iter()
            .map(|point| put(&collection, point).map(Change::Put))
            .collect::<Result<_, _>>()?;
        let work = Work::Changes(changes);
        self.change(call, &collection, work, message.wait, message.timeout)
            .await
    }

    pub(crate) async fn delete_points(
        &self,
        call: &Call,
        message: DeletePoints,
    ) -> Result<UpdateResult, Status> {
        unless_sharded(&message.shard_key_selector)?;
        let collection = self.find(&message.collection_name)?;
        let (wait, timeout) = (message.wait, message.timeout);
        let points = self.selection(call, &collection, message.points, timeout);
        let work = match points.await? {
            // What is not there need not be looked for.
            Selection::Ids(ids) => Work::Changes(ids.into_iter().map(Change::Delete).collect()),
            points => self.alter(points, Action::Delete),
        };
        self.change(call, &collection, work, wait, timeout).await
    }

    /// Sets payloads; `action` is what happens with the one that is sent.
    pub(crate) async fn set_payload(
        &self,
        call: &Call,
        message: SetPayloadPoints,
        action: fn(Payload) -> Action,
    ) -> Result<UpdateResult, Status> {
        unless_sharded(&message.shard_key_selector)?;
        unless_absent(&[(message.key.is_some(), "setting a payload below a key")])?;
        let collection = self.find(&message.collection_name)?;
        let points = self.selection(call, &collection, message.points_selector, message.timeout);
        let work = self.alter(points.await?, action(payload::keep(message.payload)));
        self.change(call, &collection, work, message.wait, message.timeout)
            .await
    }

    pub(crate) async fn delete_payload(
        &self,
        call: &Call,
        message: DeletePayloadPoints,
    ) -> Result<UpdateResult, Status> {
        unless_sharded(&message.shard_key_selector)?;
        let collection = self.find(&message.collection_name)?;
        if message.keys.is_empty() {
            return Err(invalid("no keys are named"));
        }
        let paths = paths(message.keys)?;
        let points = self.selection(call, &collection, message.points_selector, message.timeout);
        let work = self.alter(points.await?, Action::Remove(paths));
        self.change(call, &collection, work, message.wait, message.timeout)
            .await
    }

    pub(crate) async fn clear_payload(
        &self,
        call: &Call,
        message: ClearPayloadPoints,
    ) -> Result<UpdateResult, Status> {
        unless_sharded(&message.shard_key_selector)?;
        let collection = self.find(&message.collection_name)?;
        let points = self.selection(call, &collection, message.points, message.timeout);
        let work = self.alter(points.await?, Action::Clear);
        self.change(call, &collection, work, message.wait, message.timeout)
            .await
    }

    fn alter(&self, points: Selection, action: Action) -> Work {
        Work::Alter(Alter {
            points,
            action,
            patience: Duration::from_secs(self.limits.query_seconds),
            most: self.limits.upsert_points,
        })
    }

    /// A filter is read by a worker, as a query's is: it may list hundreds of thousands of values.
    async fn selection(
        &self,
        call: &Call,
        collection: &Arc<Collection>,
        selector: Option<PointsSelector>,
        timeout: Option<u64>,
    ) -> Result<Selection, Status> {
        match selector.and_then(|selector| selector.points_selector_one_of) {
            Some(PointsSelectorOneOf::Points(list)) => {
                let most = self.limits.upsert_points;
                if list.ids.len() > most {
                    return Err(refusal::too_many_points(most));
                }
                if list.ids.is_empty() {
                    return Err(invalid("no points are selected; the list of ids is empty"));
                }
                let ids = list.ids.into_iter().map(|id| point_id(Some(id)));
                Ok(Selection::Ids(ids.collect::<Result<_, _>>()?))
            }
            Some(PointsSelectorOneOf::Filter(filter)) => {
                let asked = Arc::clone(collection);
                let read = move |_: &Watch<'_>| {
                    let memory = InFlight::new(asked.budget());
                    filter::read(filter, &memory).map(Selection::Matching)
                };
                self.work(collection, self.deadline(call, timeout), read)
                    .await?
            }
            None => Err(invalid(
                "no points are selected; name their ids, or a filter",
            )),
        }
    }

    /// Queues changes and, if the client waits, says when they are on disk and visible.
    pub(super) async fn change(
        &self,
        call: &Call,
        collection: &Arc<Collection>,
        work: Work,
        wait: Option<bool>,
        timeout: Option<u64>,
    ) -> Result<UpdateResult, Status> {
        let queue = self.limits.write_queue_bytes;
        let runtime = tokio::runtime::Handle::current();
        let written = collection
            .write(work, wait.unwrap_or(false), queue, &self.builder, &runtime)
            .map_err(|error| {
                match &error {
                    WriteError::QueueFull { .. } => self.meters.shed("write_queue_full"),
                    WriteError::Memory { .. } => self.meters.shed("memory_limit"),
                    _ => {}
                }
                refusal::write(error, &self.pace)
            })?;
        let status = |status: UpdateStatus, operation: Option<u64>| UpdateResult {
            operation_id: operation,
            status: status as i32,
        };
        if !wait.unwrap_or(false) {
            return Ok(status(UpdateStatus::Acknowledged, None));
        }
        let deadline = self.deadline(call, timeout);
        match tokio::time::timeout_at(deadline.into(), written).await {
            Ok(Ok(Ok(operation))) => Ok(status(UpdateStatus::Completed, Some(operation))),
            Ok(Ok(Err(error))) => Err(refusal::write(error, &self.pace)),
            // The writing thread has panicked; what it had not stored is lost, and was not acknowledged.
            Ok(Err(_)) => Err(Status::internal("the write was given up; retry it")),
            // It will happen all the same, as the API has it.
            Err(_) if call.deadline.is_none_or(|client| deadline < client) => {
                Ok(status(UpdateStatus::WaitTimeout, None))
            }
            Err(_) => Err(refusal::deadline()),
        }
    }
}

fn put(collection: &Collection, message: PointStruct) -> Result<Point, Status> {
    let id = point_id(message.id)?;
    let (dim, distance) = collection.with_settings(|settings| (settings.dim, settings.distance));
    let vector = point_vector(message.vectors)
        .and_then(|vector| prepared(vector, dim, distance))
        .map_err(|status| {
            // A batch has many points; say which.
            Status::new(status.code(), format!("point {id}: {}", status.message()))
        })?;
    Ok(Point {
        id,
        vector,
        payload: payload::keep(message.payload),
    })
}
