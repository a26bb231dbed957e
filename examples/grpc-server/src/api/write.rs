//! Upserts, deletions, and declared payload fields.

use std::sync::Arc;

use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{
    CreateFieldIndexCollection, DeleteFieldIndexCollection, DeletePoints, FieldType, PointStruct,
    UpdateMode, UpdateResult, UpdateStatus, UpsertPoints,
};
use tonic::Status;

use super::Api;
use super::gate::Call;
use super::message::{keep_payload, point_id, point_vector};
use super::refusal::{self, invalid, unless_absent};
use super::search::prepared;
use crate::collection::Collection;
use crate::collection::point::Point;
use crate::collection::store::Change;
use crate::collection::writer::WriteError;

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
            (message.update_filter.is_some(), "filters"),
            (
                mode != UpdateMode::Upsert as i32,
                "update modes other than upsert",
            ),
        ])?;
        let collection = self.find(&message.collection_name)?;
        let most = self.limits.upsert_points;
        if message.points.len() > most {
            return Err(refusal::too_many_points(message.points.len(), most));
        }
        let changes = message
            .points
            .into_iter()
            .map(|point| put(&collection, point).map(Change::Put))
            .collect::<Result<_, _>>()?;
        let wait = message.wait.unwrap_or(false);
        self.change(call, &collection, changes, wait, message.timeout)
            .await
    }

    pub(crate) async fn delete_points(
        &self,
        call: &Call,
        message: DeletePoints,
    ) -> Result<UpdateResult, Status> {
        unless_absent(&[(message.shard_key_selector.is_some(), "shard keys")])?;
        let collection = self.find(&message.collection_name)?;
        let selected = message
            .points
            .and_then(|selector| selector.points_selector_one_of);
        let ids = match selected {
            Some(PointsSelectorOneOf::Points(list)) => list.ids,
            Some(PointsSelectorOneOf::Filter(_)) => return Err(refusal::unsupported("filters")),
            None => return Err(invalid("no points are selected; name their ids")),
        };
        let most = self.limits.upsert_points;
        if ids.len() > most {
            return Err(invalid(format!(
                "{} ids in one deletion; at most {most} (limits.upsert_points)",
                ids.len()
            )));
        }
        let changes = ids
            .into_iter()
            .map(|id| point_id(Some(id)).map(Change::Delete))
            .collect::<Result<_, _>>()?;
        let wait = message.wait.unwrap_or(false);
        self.change(call, &collection, changes, wait, message.timeout)
            .await
    }

    pub(crate) async fn create_field(
        &self,
        call: &Call,
        message: CreateFieldIndexCollection,
    ) -> Result<UpdateResult, Status> {
        let collection = self.find(&message.collection_name)?;
        let name = field_name(message.field_name)?;
        let kind = message.field_type.unwrap_or(FieldType::Keyword as i32);
        if FieldType::try_from(kind).is_err() {
            return Err(invalid(format!("{kind} is no type of a payload field")));
        }
        let declared = collection.with_settings(|settings| settings.fields.len());
        if declared >= MOST_FIELDS {
            return Err(invalid(format!(
                "{declared} payload fields are declared; that is enough"
            )));
        }
        let wait = message.wait.unwrap_or(false);
        let changes = vec![Change::Field(name, kind)];
        self.change(call, &collection, changes, wait, message.timeout)
            .await
    }

    pub(crate) async fn delete_field(
        &self,
        call: &Call,
        message: DeleteFieldIndexCollection,
    ) -> Result<UpdateResult, Status> {
        let collection = self.find(&message.collection_name)?;
        let changes = vec![Change::ForgetField(field_name(message.field_name)?)];
        let wait = message.wait.unwrap_or(false);
        self.change(call, &collection, changes, wait, message.timeout)
            .await
    }

    /// Queues changes and, if the client waits, says when they are on disk and visible.
    async fn change(
        &self,
        call: &Call,
        collection: &Arc<Collection>,
        changes: Vec<Change>,
        wait: bool,
        timeout: Option<u64>,
    ) -> Result<UpdateResult, Status> {
        let queue = self.limits.write_queue_bytes;
        let runtime = tokio::runtime::Handle::current();
        let written = collection
            .write(changes, queue, &self.builder, &runtime)
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
        if !wait {
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
        payload: keep_payload(message.payload),
    })
}

fn field_name(name: String) -> Result<String, Status> {
    if name.is_empty() || name.len() > 1_024 {
        return Err(invalid("a field's name has 1 to 1,024 bytes"));
    }
    Ok(name)
}
