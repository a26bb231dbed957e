//! Ids, vectors and payloads, from messages and into them.

use std::collections::HashMap;

use prost::Message;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::vectors::VectorsOptions;
use qdrant_client::qdrant::with_payload_selector::SelectorOptions as PayloadOptions;
use qdrant_client::qdrant::with_vectors_selector::SelectorOptions as VectorOptions;
use qdrant_client::qdrant::{
    self, DenseVector, PointStruct, RetrievedPoint, ScoredPoint, Value, VectorOutput, Vectors,
    VectorsOutput, WithPayloadSelector, WithVectorsSelector, vector, vector_output, vectors_output,
};
use tonic::Status;

use super::refusal::{invalid, quoted, unless_absent, unsupported};
use crate::collection::point::{Payload, PointId};
use crate::collection::rows::Stored;
use crate::config::Limits;

pub(crate) fn point_id(id: Option<qdrant::PointId>) -> Result<PointId, Status> {
    match id.and_then(|id| id.point_id_options) {
        Some(PointIdOptions::Num(number)) => Ok(PointId::Number(number)),
        Some(PointIdOptions::Uuid(text)) => uuid::Uuid::parse_str(&text)
            .map(PointId::Uuid)
            .map_err(|_| {
                invalid(format!(
                    "id {} is neither a number nor a UUID",
                    quoted(&text)
                ))
            }),
        None => Err(invalid("a point has no id; give it a number or a UUID")),
    }
}

fn id_message(id: PointId) -> qdrant::PointId {
    let options = match id {
        PointId::Number(number) => PointIdOptions::Num(number),
        PointId::Uuid(uuid) => PointIdOptions::Uuid(uuid.to_string()),
    };
    qdrant::PointId {
        point_id_options: Some(options),
    }
}

/// The one dense, unnamed vector of a point.
pub(crate) fn point_vector(vectors: Option<Vectors>) -> Result<Vec<f32>, Status> {
    match vectors.and_then(|vectors| vectors.vectors_options) {
        Some(VectorsOptions::Vector(vector)) => dense(vector),
        Some(VectorsOptions::Vectors(named)) => {
            let mut vectors = named.vectors;
            match (vectors.remove(""), vectors.is_empty()) {
                (Some(vector), true) => dense(vector),
                _ => Err(unsupported("named vectors")),
            }
        }
        None => Err(invalid("a point has no vector")),
    }
}

fn dense(message: qdrant::Vector) -> Result<Vec<f32>, Status> {
    // Clients from before the `vector` choice existed use the deprecated fields.
    #[expect(deprecated, reason = "older clients send these")]
    let (data, indices, count) = (message.data, message.indices, message.vectors_count);
    unless_absent(&[
        (indices.is_some(), "sparse vectors"),
        (count.is_some_and(|count| count > 1), "multi-vectors"),
    ])?;
    match message.vector {
        None => Ok(data),
        Some(vector::Vector::Dense(dense)) => Ok(dense.data),
        Some(vector::Vector::Sparse(_)) => Err(unsupported("sparse vectors")),
        Some(vector::Vector::MultiDense(_)) => Err(unsupported("multi-vectors")),
        Some(
            vector::Vector::Document(_) | vector::Vector::Image(_) | vector::Vector::Object(_),
        ) => Err(unsupported(
            "inference (documents, images, objects); send the vector",
        )),
    }
}

/// A payload as it is kept: encoded, as most are never looked into.
pub(crate) fn keep_payload(payload: HashMap<String, Value>) -> Payload {
    let message = PointStruct {
        payload,
        ..PointStruct::default()
    };
    message.encode_to_vec().into()
}

fn payload_message(kept: &Payload) -> Result<HashMap<String, Value>, Status> {
    PointStruct::decode(&**kept)
        .map(|message| message.payload)
        .map_err(|error| Status::data_loss(format!("a payload cannot be decoded: {error}")))
}

/// A point's id, score and version in an answer, about.
const POINT_BYTES: usize = 64;

/// Bytes that an answer may still take. Taken before a payload is decoded or a vector copied.
pub(crate) struct Room {
    left: usize,
    all: usize,
}

impl Room {
    pub(crate) fn new(limits: &Limits) -> Self {
        let all = limits.answer_bytes;
        Self { left: all, all }
    }

    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            invalid(format!(
                "the answer is over {} bytes (limits.answer_bytes); ask for fewer points, or without payload or vectors",
                self.all
            ))
        })?;
        Ok(())
    }
}

/// What of a point is to be returned.
pub(crate) struct Parts {
    payload: PayloadPart,
    vector: bool,
}

enum PayloadPart {
    None,
    All,
    Only(Vec<String>),
    AllBut(Vec<String>),
}

impl Parts {
    pub(crate) fn read(
        payload: Option<WithPayloadSelector>,
        vectors: Option<WithVectorsSelector>,
    ) -> Result<Self, Status> {
        let payload = match payload.and_then(|selector| selector.selector_options) {
            None | Some(PayloadOptions::Enable(false)) => PayloadPart::None,
            Some(PayloadOptions::Enable(true)) => PayloadPart::All,
            Some(PayloadOptions::Include(include)) => PayloadPart::Only(keys(include.fields)?),
            Some(PayloadOptions::Exclude(exclude)) => PayloadPart::AllBut(keys(exclude.fields)?),
        };
        let vector = match vectors.and_then(|selector| selector.selector_options) {
            None => false,
            Some(VectorOptions::Enable(enable)) => enable,
            Some(VectorOptions::Include(include)) => {
                let unnamed = include.names.iter().all(String::is_empty);
                unless_absent(&[(!unnamed, "named vectors")])?;
                !include.names.is_empty()
            }
        };
        Ok(Self { payload, vector })
    }

    fn payload(&self, kept: &Payload) -> Result<HashMap<String, Value>, Status> {
        if kept.is_empty() || matches!(self.payload, PayloadPart::None) {
            return Ok(HashMap::new());
        }
        let mut payload = payload_message(kept)?;
        match &self.payload {
            PayloadPart::None | PayloadPart::All => {}
            PayloadPart::Only(keys) => payload.retain(|key, _| keys.contains(key)),
            PayloadPart::AllBut(keys) => payload.retain(|key, _| !keys.contains(key)),
        }
        Ok(payload)
    }

    fn vectors(&self, vector: &[f32]) -> Option<VectorsOutput> {
        let output = || VectorOutput {
            vector: Some(vector_output::Vector::Dense(DenseVector {
                data: vector.to_vec(),
            })),
            ..VectorOutput::default()
        };
        self.vector.then(|| VectorsOutput {
            vectors_options: Some(vectors_output::VectorsOptions::Vector(output())),
        })
    }

    fn take(&self, point: &Stored<'_>, room: &mut Room) -> Result<(), Status> {
        let payload = match self.payload {
            PayloadPart::None => 0,
            _ => point.payload.len(),
        };
        let vector = if self.vector {
            size_of_val(point.vector)
        } else {
            0
        };
        room.take(POINT_BYTES + payload + vector)
    }

    pub(crate) fn scored(
        &self,
        point: &Stored<'_>,
        score: f32,
        room: &mut Room,
    ) -> Result<ScoredPoint, Status> {
        self.take(point, room)?;
        Ok(ScoredPoint {
            id: Some(id_message(point.id)),
            payload: self.payload(point.payload)?,
            score,
            version: point.version,
            vectors: self.vectors(point.vector),
            ..ScoredPoint::default()
        })
    }

    pub(crate) fn retrieved(
        &self,
        point: &Stored<'_>,
        room: &mut Room,
    ) -> Result<RetrievedPoint, Status> {
        self.take(point, room)?;
        Ok(RetrievedPoint {
            id: Some(id_message(point.id)),
            payload: self.payload(point.payload)?,
            vectors: self.vectors(point.vector),
            ..RetrievedPoint::default()
        })
    }
}

/// Names of payload fields; paths into nested ones are not looked up.
fn keys(fields: Vec<String>) -> Result<Vec<String>, Status> {
    let nested = fields.iter().any(|field| field.contains(['.', '[']));
    unless_absent(&[(nested, "payload selectors with a path (`.` or `[`)")])?;
    Ok(fields)
}
