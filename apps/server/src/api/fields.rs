//! Declared payload fields.

use std::sync::Arc;
use std::time::Instant;

use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_client::qdrant::{
    BoolIndexParams, CreateFieldIndexCollection, DeleteFieldIndexCollection, FieldType,
    FloatIndexParams, IntegerIndexParams, KeywordIndexParams, Memory, PayloadIndexParams,
    UpdateResult,
};
use tonic::Status;

use super::Api;
use super::admission::Call;
use super::message::path;
use super::refusal::{self, invalid, unless_absent, unsupported};
use crate::collection::field_index;
use crate::collection::store::Change;
use crate::collection::writer::Work;

/// Payload fields that a collection may have declared.
const MOST_FIELDS: usize = 1_000;

impl Api {
    pub(crate) async fn create_field(
        &self,
        call: &Call,
        message: CreateFieldIndexCollection,
    ) -> Result<UpdateResult, Status> {
        let collection = self.find(&message.collection_name)?;
        let name = path(&message.field_name)?.text().to_owned();
        let kind = kind(message.field_type, message.field_index_params)? as i32;
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
        let known =
            |name: &str| collection.with_settings(|settings| settings.fields.contains_key(name));
        // Earlier versions took names that are no paths.
        let name = match known(&message.field_name) {
            true => message.field_name,
            false => path(&message.field_name)?.text().to_owned(),
        };
        let work = Work::Changes(vec![Change::ForgetField(name)]);
        self.change(call, &collection, work, message.wait, message.timeout)
            .await
    }
}

/// The type of a field that is to be indexed. Of its parameters those are taken that say what is so: it is in memory,
/// all integers are found by value and by range, and filters need no links of a graph.
fn kind(asked: Option<i32>, params: Option<PayloadIndexParams>) -> Result<FieldType, Status> {
    let asked = asked.map(|kind| {
        FieldType::try_from(kind)
            .map_err(|_| invalid(format!("{kind} is no type of a payload field")))
    });
    let asked = asked.transpose()?;
    let (described, more) = match params.and_then(|params| params.index_params) {
        None => (None, false),
        Some(params) => {
            let (kind, more) = described(params);
            (Some(kind), more)
        }
    };
    let kind = described.or(asked).unwrap_or(FieldType::Keyword);
    if let Some(asked) = asked.filter(|asked| *asked != kind) {
        return Err(invalid(format!(
            "the type is {}, and its parameters are those of {}",
            asked.as_str_name(),
            kind.as_str_name()
        )));
    }
    if !field_index::can_index(kind) {
        return Err(unsupported(&format!(
            "payload indexes of type {}; declare keyword, integer, float or bool",
            kind.as_str_name()
        )));
    }
    const MORE: &str = "is_tenant, is_principal, prefix, nested and on_disk of payload indexes";
    unless_absent(&[(more, MORE)])?;
    Ok(kind)
}

/// The type that parameters are of, and whether they ask for more than there is.
#[expect(deprecated, reason = "older clients send `on_disk`")]
fn described(params: IndexParams) -> (FieldType, bool) {
    // Whole, so that what a later API adds is not overlooked.
    let (kind, asks, memory) = match params {
        IndexParams::KeywordIndexParams(KeywordIndexParams {
            is_tenant,
            on_disk,
            enable_hnsw: _,
            prefix,
            memory,
            nested,
        }) => {
            let more = prefix.is_some() || nested.is_some();
            (FieldType::Keyword, [is_tenant, on_disk, Some(more)], memory)
        }
        IndexParams::IntegerIndexParams(IntegerIndexParams {
            lookup: _,
            range: _,
            is_principal,
            on_disk,
            enable_hnsw: _,
            memory,
            nested,
        }) => {
            let asks = [is_principal, on_disk, Some(nested.is_some())];
            (FieldType::Integer, asks, memory)
        }
        IndexParams::FloatIndexParams(FloatIndexParams {
            on_disk,
            is_principal,
            enable_hnsw: _,
            memory,
            nested,
        }) => {
            let asks = [is_principal, on_disk, Some(nested.is_some())];
            (FieldType::Float, asks, memory)
        }
        IndexParams::BoolIndexParams(BoolIndexParams {
            on_disk,
            enable_hnsw: _,
            memory,
            nested,
        }) => {
            let asks = [on_disk, Some(nested.is_some()), None];
            (FieldType::Bool, asks, memory)
        }
        IndexParams::GeoIndexParams(_) => return (FieldType::Geo, true),
        IndexParams::TextIndexParams(_) => return (FieldType::Text, true),
        IndexParams::DatetimeIndexParams(_) => return (FieldType::Datetime, true),
        IndexParams::UuidIndexParams(_) => return (FieldType::Uuid, true),
    };
    let is_cold = memory == Some(Memory::Cold as i32);
    (kind, is_cold || asks.contains(&Some(true)))
}
