//! Ids, vectors and payloads, from messages and into them.

use std::sync::Arc;
use std::time::Instant;

use prost::Message;

use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::vectors::VectorsOptions;
use qdrant_client::qdrant::with_payload_selector::SelectorOptions as PayloadOptions;
use qdrant_client::qdrant::with_vectors_selector::SelectorOptions as VectorOptions;
use qdrant_client::qdrant::{
    self, DenseVector, RetrievedPoint, ScoredPoint, VectorOutput, Vectors, VectorsOutput,
    WithPayloadSelector, WithVectorsSelector, vector, vector_output, vectors_output,
};
use tonic::{Response, Status};

use super::Api;
use super::admission::Call;
use super::outgoing::Ready;
use super::refusal::{self, invalid, quoted, unless_absent, unsupported};
use crate::collection::Collection;
use crate::collection::path::{LONGEST_PATH, Path, Paths, What};
use crate::collection::payload::{self, Encoded};
use crate::collection::point::{Payload, PointId};
use crate::collection::rows::{Row, Stored, View};
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

/// A point's id, score and version in an answer, about.
const POINT_BYTES: usize = 64;

/// The tag of a point's payload in every message that has points.
const PAYLOAD: u8 = 0x12;

/// Bytes before a message: a flag, and its length.
const HEAD: usize = 5;

/// The points of an answer, encoded as they are sent: payloads are copied as they are kept, and nothing is decoded.
/// What an answer may still take is asked for before a point is copied, of `limits.answer_bytes` and of the server's
/// memory, which is held until the client has the answer.
pub(crate) struct Points {
    bytes: Vec<u8>,
    left: usize,
    all: usize,
    memory: Arc<InFlight>,
}

impl Points {
    pub(crate) fn new(api: &Api, call: &Call) -> Self {
        Self {
            bytes: vec![0; HEAD],
            left: api.limits.answer_bytes,
            all: api.limits.answer_bytes,
            memory: Arc::clone(&call.answer),
        }
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self, sent: usize) -> Result<(), Status> {
        self.left = self.left.checked_sub(sent).ok_or_else(|| {
            invalid(format!(
                "the answer is over {} bytes (limits.answer_bytes); ask for fewer points, or without payload or vectors",
                self.all
            ))
        })?;
        match self.memory.try_take(sent as u64) {
            true => Ok(()),
            false => Err(refusal::no_memory(self.memory.limit())),
        }
    }

    fn add(&mut self, tag: u8, point: &impl Message, payload: &[Encoded<'_>]) {
        let fields = payload.iter().map(|field| {
            let length = field.entry.len();
            1 + prost::length_delimiter_len(length) + length
        });
        let length = point.encoded_len() + fields.sum::<usize>();
        self.bytes.push(tag);
        prost::encode_length_delimiter(length, &mut self.bytes).expect("vectors grow");
        point.encode(&mut self.bytes).expect("vectors grow");
        for field in payload {
            payload::append(&mut self.bytes, PAYLOAD, &field.entry);
        }
    }

    /// Begins the points of another query of a batch.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        std::mem::replace(&mut self.bytes, vec![0; HEAD])
    }

    /// Has the points of a batch's queries, each in a message of its own.
    pub(crate) fn batch(mut self, parts: Vec<Vec<u8>>) -> Self {
        self.bytes = vec![0; HEAD];
        for part in parts {
            payload::append(&mut self.bytes, RESULT, &part[HEAD..]);
        }
        self
    }

    /// The answer that has these points, beside what is in `rest`.
    pub(crate) fn answer<T: Message + Default>(mut self, rest: &T) -> Response<T> {
        rest.encode(&mut self.bytes).expect("vectors grow");
        let length = u32::try_from(self.bytes.len() - HEAD).unwrap_or(u32::MAX);
        self.bytes[1..HEAD].copy_from_slice(&length.to_be_bytes());
        let mut response = Response::new(T::default());
        let ready = Ready(self.bytes.into());
        response.extensions_mut().insert(ready);
        response
    }
}

/// An answer that was built whole, whose bytes are counted until it has been taken.
pub(super) fn counted<T: Message + Default>(
    call: &Call,
    answer: &T,
) -> Result<Response<T>, Status> {
    let bytes = answer.encoded_len() + HEAD;
    if !call.answer.try_take(bytes as u64) {
        return Err(refusal::no_memory(call.answer.limit()));
    }
    let points = Points {
        bytes: {
            let mut room = Vec::with_capacity(bytes);
            room.resize(HEAD, 0);
            room
        },
        left: 0,
        all: 0,
        memory: Arc::clone(&call.answer),
    };
    Ok(points.answer(answer))
}

/// Tags of the points in the answers that have them.
pub(super) const RESULT: u8 = 0x0a;
pub(super) const SCROLLED: u8 = 0x12;

/// Points whose answers are copied on the network's threads, as they are so few bytes.
const FEW_BYTES: usize = 16 << 10;

/// How many points are copied between two looks at whether anybody still waits.
const POINTS_AT_ONCE: usize = 64;

/// Points of an answer, and what is said of each.
pub(super) struct Page {
    pub(super) view: Arc<View>,
    pub(super) rows: Vec<(Row, f32)>,
    pub(super) parts: Arc<Parts>,
}

impl Page {
    /// Whether it takes so little that it is copied where it is found.
    pub(super) fn is_small(&self) -> bool {
        let vector = match self.parts.vector {
            true => self.view.dim * size_of::<f32>(),
            false => 0,
        };
        let payload = |row: Row| match self.parts.payload {
            PayloadPart::None => 0,
            _ => self.view.stored(row).payload.len(),
        };
        let mut left = FEW_BYTES;
        self.rows.iter().all(|&(row, _)| {
            let bytes = payload(row) + vector;
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        })
    }

    /// Copies its points, unless nobody waits any more.
    pub(super) fn copy(
        &self,
        points: &mut Points,
        point: fn(&Parts, &Stored<'_>, f32, &mut Points) -> Result<(), Status>,
        is_wanted: impl Fn() -> bool,
    ) -> Result<(), Status> {
        for rows in self.rows.chunks(POINTS_AT_ONCE) {
            if !is_wanted() {
                return Err(refusal::deadline());
            }
            for &(row, score) in rows {
                point(&self.parts, &self.view.stored(row), score, points)?;
            }
        }
        Ok(())
    }
}

impl Api {
    /// Copies the points of a page to those of an answer; on a worker, unless they are few bytes.
    pub(super) async fn copy(
        &self,
        collection: &Collection,
        deadline: Instant,
        page: Page,
        mut points: Points,
        point: fn(&Parts, &Stored<'_>, f32, &mut Points) -> Result<(), Status>,
    ) -> Result<Points, Status> {
        if page.is_small() {
            page.copy(&mut points, point, || true)?;
            return Ok(points);
        }
        self.work(collection, deadline, move |watch| {
            page.copy(&mut points, point, || watch.is_wanted())?;
            watch.read(points.len() as u64);
            Ok(points)
        })
        .await?
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
    Some(What, Paths),
}

impl Parts {
    pub(crate) fn read(
        payload: Option<WithPayloadSelector>,
        vectors: Option<WithVectorsSelector>,
    ) -> Result<Self, Status> {
        let payload = match payload.and_then(|selector| selector.selector_options) {
            None | Some(PayloadOptions::Enable(false)) => PayloadPart::None,
            Some(PayloadOptions::Enable(true)) => PayloadPart::All,
            Some(PayloadOptions::Include(include)) => {
                PayloadPart::Some(What::Keep, paths(include.fields)?)
            }
            Some(PayloadOptions::Exclude(exclude)) => {
                PayloadPart::Some(What::LeaveOut, paths(exclude.fields)?)
            }
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

    /// The fields of a payload that are wanted.
    fn fields<'a>(&self, kept: &'a Payload) -> Result<Vec<Encoded<'a>>, Status> {
        let fields = match &self.payload {
            PayloadPart::None => return Ok(Vec::new()),
            PayloadPart::All => payload::encoded(kept).collect(),
            PayloadPart::Some(what, paths) => payload::selected(kept, paths, *what),
        };
        fields.ok_or_else(|| Status::data_loss("a payload cannot be decoded"))
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

    /// Takes room for a point; the fields of its payload that are wanted.
    fn take<'a>(
        &self,
        point: &Stored<'a>,
        points: &mut Points,
    ) -> Result<Vec<Encoded<'a>>, Status> {
        let fields = self.fields(point.payload)?;
        let payload: usize = fields.iter().map(|field| field.entry.len() + 5).sum();
        let vector = match self.vector {
            true => size_of_val(point.vector),
            false => 0,
        };
        points.take(POINT_BYTES + payload + vector)?;
        Ok(fields)
    }

    pub(crate) fn scored(
        &self,
        point: &Stored<'_>,
        score: f32,
        points: &mut Points,
    ) -> Result<(), Status> {
        let payload = self.take(point, points)?;
        let message = ScoredPoint {
            id: Some(id_message(point.id)),
            score,
            version: point.version,
            vectors: self.vectors(point.vector),
            ..ScoredPoint::default()
        };
        points.add(RESULT, &message, &payload);
        Ok(())
    }

    fn retrieved(&self, tag: u8, point: &Stored<'_>, points: &mut Points) -> Result<(), Status> {
        let payload = self.take(point, points)?;
        let message = RetrievedPoint {
            id: Some(id_message(point.id)),
            vectors: self.vectors(point.vector),
            ..RetrievedPoint::default()
        };
        points.add(tag, &message, &payload);
        Ok(())
    }

    pub(crate) fn got(
        &self,
        point: &Stored<'_>,
        _: f32,
        points: &mut Points,
    ) -> Result<(), Status> {
        self.retrieved(RESULT, point, points)
    }

    pub(crate) fn scrolled(
        &self,
        point: &Stored<'_>,
        _: f32,
        points: &mut Points,
    ) -> Result<(), Status> {
        self.retrieved(SCROLLED, point, points)
    }
}

/// Fields that a request may name.
const MOST_NAMES: usize = 1_000;

/// Paths of payload fields that a request names.
pub(super) fn paths(fields: Vec<String>) -> Result<Paths, Status> {
    if fields.len() > MOST_NAMES {
        return Err(invalid(format!(
            "more than {MOST_NAMES} names of payload fields"
        )));
    }
    let paths: Result<Vec<_>, _> = fields.iter().map(|field| path(field)).collect();
    Ok(Paths::new(paths?))
}

/// The path that a key of a payload is.
pub(super) fn path(key: &str) -> Result<Path, Status> {
    Path::parse(key).ok_or_else(|| {
        invalid(format!(
            "{} is no key of a payload; say a, a.b, a[].b or a[0].b, with a name of other signs than letters, digits, _ \
             and - in double quotes, in at most {LONGEST_PATH} bytes",
            quoted(key)
        ))
    })
}
