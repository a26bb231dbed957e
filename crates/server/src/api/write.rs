//! Upserts, deletions, changes of payloads, and declared payload fields.

use std::sync::Arc;
use std::time::{Duration, Instant};

use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{
    ClearPayloadPoints, CreateFieldIndexCollection, DeleteFieldIndexCollection,
    DeletePayloadPoints, DeletePoints, FieldType, PointStruct, PointsSelector, SetPayloadPoints,
    UpdateMode, UpdateResult, UpdateStatus, UpsertPoints,
};
use tonic::Status;

use super::Api;
use super::admission::Call;
use super::filter;
use super::message::{keys, point_id, point_vector};
use super::refusal::{self, invalid, unless_absent, unsupported};
use super::search::prepared;
use crate::collection::alter::{Action, Alter, Selection};
use crate::collection::payload;
use crate::collection::point::{Payload, Point};
use crate::collection::store::Change;
use crate::collection::writer::{Work, WriteError};
use crate::collection::{Collection, field_index};
use crate::memory::InFlight;
use crate::scheduling::Watch;

/// Payload fields that a collection may have declared.
const MOST_FIELDS: usize = 1_000;

impl Api {
    pub(crate) async fn upsert(
        &self,
        call: &Call,
        message: UpsertPoints,
    ) -> Result<UpdateResult, Status> {
        let mode = message.update_mode.unwrap_or(UpdateMode::Upsert as i32);
        unless_absent(&[
            (message.shard_key_selector.is_some(), "shard keys"),
            (message.update_filter.is_some(), "filters of upserts"),
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
        unless_absent(&[(message.shard_key_selector.is_some(), "shard keys")])?;
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
        unless_absent(&[
            (message.shard_key_selector.is_some(), "shard keys"),
            (
                message.key.is_some_and(|key| !key.is_empty()),
                "setting a payload below a key",
            ),
        ])?;
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
        unless_absent(&[(message.shard_key_selector.is_some(), "shard keys")])?;
        let collection = self.find(&message.collection_name)?;
        if message.keys.is_empty() {
            return Err(invalid("no keys are named"));
        }
        let keys = keys(message.keys)?;
        let points = self.selection(call, &collection, message.points_selector, message.timeout);
        let work = self.alter(points.await?, Action::Remove(keys));
        self.change(call, &collection, work, message.wait, message.timeout)
            .await
    }

    pub(crate) async fn clear_payload(
        &self,
        call: &Call,
        message: ClearPayloadPoints,
    ) -> Result<UpdateResult, Status> {
        unless_absent(&[(message.shard_key_selector.is_some(), "shard keys")])?;
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

    pub(crate) async fn create_field(
        &self,
        call: &Call,
        message: CreateFieldIndexCollection,
    ) -> Result<UpdateResult, Status> {
        let collection = self.find(&message.collection_name)?;
        let name = field_name(message.field_name)?;
        filter::path(&name)?;
        let kind = message.field_type.unwrap_or(FieldType::Keyword as i32);
        match FieldType::try_from(kind) {
            Ok(known) if field_index::can_index(known) => {}
            Ok(known) => {
                return Err(unsupported(&format!(
                    "payload indexes of type {}; declare keyword, integer, float or bool",
                    known.as_str_name()
                )));
            }
            Err(_) => return Err(invalid(format!("{kind} is no type of a payload field"))),
        }
        let declared = collection.with_settings(|settings| settings.fields.len());
        if declared >= MOST_FIELDS {
            return Err(invalid(format!(
                "{declared} payload fields are declared; that is enough"
            )));
        }
        // Made before it is declared, so that no filter has to wait for it.
        let (indexed, key) = (Arc::clone(&collection), name.clone());
        let deadline = self.deadline(call, message.timeout);
        // Gone as soon as the call is.
        let waiting = Arc::new(());
        let caller = Arc::downgrade(&waiting);
        let wanted = move || caller.strong_count() > 0 && Instant::now() < deadline;
        let whole = self
            .blocking
            .run(move || indexed.index_field(&key, kind, &wanted))
            .await?;
        drop(waiting);
        if !whole && Instant::now() >= deadline {
            return Err(refusal::deadline());
        }
        if !whole {
            self.meters.shed("memory_limit");
            return Err(refusal::no_memory(collection.budget().limit()));
        }
        let work = Work::Changes(vec![Change::Field(name, kind)]);
        self.change(call, &collection, work, message.wait, message.timeout)
            .await
    }

    pub(crate) async fn delete_field(
        &self,
        call: &Call,
        message: DeleteFieldIndexCollection,
    ) -> Result<UpdateResult, Status> {
        let collection = self.find(&message.collection_name)?;
        let changes = vec![Change::ForgetField(field_name(message.field_name)?)];
        let work = Work::Changes(changes);
        self.change(call, &collection, work, message.wait, message.timeout)
            .await
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

fn field_name(name: String) -> Result<String, Status> {
    if name.is_empty() || name.len() > 1_024 {
        return Err(invalid("a field's name has 1 to 1,024 bytes"));
    }
    Ok(name)
}
