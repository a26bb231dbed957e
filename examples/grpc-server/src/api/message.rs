//! Ids, vectors and payloads, from messages and into them.

use std::collections::HashMap;

use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::vectors::VectorsOptions;
use qdrant_client::qdrant::with_payload_selector::SelectorOptions as PayloadOptions;
use qdrant_client::qdrant::with_vectors_selector::SelectorOptions as VectorOptions;
use qdrant_client::qdrant::{
    self, DenseVector, RetrievedPoint, ScoredPoint, Value, VectorOutput, Vectors, VectorsOutput,
    WithPayloadSelector, WithVectorsSelector, vector, vector_output, vectors_output,
};
use tonic::Status;

use super::Api;
use super::admission::Call;
use super::refusal::{self, invalid, quoted, unless_absent, unsupported};
use super::schema::Schema;
use super::walk::Walk;
use crate::collection::payload;
use crate::collection::point::{Payload, PointId};
use crate::collection::rows::Stored;
use crate::memory::InFlight;

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

pub(super) fn id_message(id: PointId) -> qdrant::PointId {
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

fn payload_message(kept: &Payload) -> Result<HashMap<String, Value>, Status> {
    payload::open(kept)
        .map_err(|error| Status::data_loss(format!("a payload cannot be decoded: {error}")))
}

/// A point's id, score and version in an answer, about.
const POINT_BYTES: usize = 64;

/// What an answer may still take, as it is sent. Taken before a payload is decoded or a vector copied; and then what that takes
/// is taken of the server's memory, until the client has the answer.
pub(crate) struct Room<'a> {
    left: usize,
    all: usize,
    memory: &'a InFlight,
    schema: &'a Schema,
}

impl<'a> Room<'a> {
    pub(crate) fn new(api: &'a Api, call: &'a Call) -> Self {
        let all = api.limits.answer_bytes;
        Self {
            left: all,
            all,
            memory: &call.answer,
            schema: &api.schema,
        }
    }

    /// Takes room for a point, of which `payload` is decoded and so many bytes of vector are copied.
    fn take(&mut self, payload: Option<&Payload>, vector: usize) -> Result<(), Status> {
        let sent = POINT_BYTES + payload.map_or(0, |payload| payload.len()) + vector;
        self.left = self.left.checked_sub(sent).ok_or_else(|| {
            invalid(format!(
                "the answer is over {} bytes (limits.answer_bytes); ask for fewer points, or without payload or vectors",
                self.all
            ))
        })?;
        let payload = match payload {
            Some(payload) if !payload.is_empty() => decoded_bytes(self.schema, payload)?,
            _ => 0,
        };
        // The list of points, what they point to, and all of it once more as it is sent.
        let memory = (size_of::<ScoredPoint>() + vector + sent) as u64 + payload;
        match self.memory.try_take(memory) {
            true => Ok(()),
            false => Err(refusal::no_memory(self.memory.limit())),
        }
    }
}

/// What a kept payload takes once it is decoded.
fn decoded_bytes(schema: &Schema, kept: &Payload) -> Result<u64, Status> {
    let walked = schema
        .named(POINT)
        .and_then(|point| Walk::through(schema, point, kept).ok());
    walked.ok_or_else(|| Status::data_loss("a payload cannot be decoded"))
}

/// The message that payloads are kept as.
const POINT: &str = ".qdrant.PointStruct";

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

    fn take(&self, point: &Stored<'_>, room: &mut Room<'_>) -> Result<(), Status> {
        let payload = match self.payload {
            PayloadPart::None => None,
            _ => Some(point.payload),
        };
        let vector = match self.vector {
            true => size_of_val(point.vector),
            false => 0,
        };
        room.take(payload, vector)
    }

    pub(crate) fn scored(
        &self,
        point: &Stored<'_>,
        score: f32,
        room: &mut Room<'_>,
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
        room: &mut Room<'_>,
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
pub(super) fn keys(fields: Vec<String>) -> Result<Vec<String>, Status> {
    let nested = fields.iter().any(|field| field.contains(['.', '[']));
    unless_absent(&[(nested, "payload selectors with a path (`.` or `[`)")])?;
    Ok(fields)
}
