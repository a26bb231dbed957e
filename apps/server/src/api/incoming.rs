//! Requests on their way in: what they decode to is known, and bounded, before they are decoded.
//!
//! Two bytes of a message may take some hundreds once they are decoded, so a message within its length could take
//! gigabytes. Here each message is walked through as it arrives (`walk`). What it takes, as bytes and decoded, counts
//! in `limits.memory_bytes` until the request is answered. The rest of a message that takes too much, or whose points
//! or queries are too many, is read and thrown away, so that the client gets to hear why.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body::{Body as _, Frame};
use tokio::time::{Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;

use super::refusal::{self, invalid};
use super::schema::{Schema, ShapeId};
use super::slots::{self, Arrival};
use super::walk::Walk;
use crate::admin::metrics::Meters;
use crate::config::Limits;
use crate::memory::InFlight;

/// A message may decode to so many times the bytes that its call may have. Vectors and texts decode to twice theirs at
/// most, small payload values to some ten times.
const DECODED: u64 = 8;

/// How large a call's message may be.
#[derive(Clone, Copy)]
struct Size {
    bytes: usize,
    setting: &'static str,
}

impl Size {
    fn of(path: &str, limits: &Limits) -> Self {
        match path {
            "/qdrant.Points/Upsert"
            | "/qdrant.Points/Delete"
            | "/qdrant.Points/SetPayload"
            | "/qdrant.Points/OverwritePayload"
            | "/qdrant.Points/DeletePayload"
            | "/qdrant.Points/ClearPayload"
            | "/qdrant.Points/SearchBatch"
            | "/qdrant.Points/QueryBatch" => Self {
                bytes: limits.message_bytes,
                setting: "limits.message_bytes",
            },
            _ => Self {
                bytes: limits.read_bytes,
                setting: "limits.read_bytes",
            },
        }
    }

    fn decoded(self) -> u64 {
        (self.bytes as u64).saturating_mul(DECODED)
    }
}

/// How many of a message's repeated field there may be.
#[derive(Clone, Copy)]
struct Rule {
    field: u32,
    most: usize,
    refuse: fn(usize) -> Status,
}

impl Rule {
    /// The field's number is the API's.
    fn of(path: &str, limits: &Limits) -> Option<Self> {
        let (field, most, refuse): (_, _, fn(usize) -> Status) = match path {
            "/qdrant.Points/Upsert" => (3, limits.upsert_points, refusal::too_many_points),
            "/qdrant.Points/SearchBatch" | "/qdrant.Points/QueryBatch" => {
                (2, limits.batch, refusal::too_many_queries)
            }
            "/qdrant.Points/Get" => (2, limits.results, refusal::too_many_ids),
            // These would only be decoded to be refused.
            "/qdrant.Points/RecommendBatch" => {
                (2, 0, |_| refusal::unsupported(refusal::RECOMMENDATIONS))
            }
            "/qdrant.Points/DiscoverBatch" => {
                (2, 0, |_| refusal::unsupported(refusal::DISCOVERIES))
            }
            "/qdrant.Points/UpdateBatch" => {
                (3, 0, |_| refusal::unsupported(refusal::UPDATE_BATCHES))
            }
            _ => return None,
        };
        Some(Self {
            field,
            most,
            refuse,
        })
    }
}

/// Has a request's message walked through before it is decoded. What it takes is held by `memory`.
pub(crate) fn bounded(
    request: Request<Body>,
    limits: &Limits,
    schema: &Arc<Schema>,
    meters: &Arc<Meters>,
    memory: &Arc<InFlight>,
    arrival: Option<Arc<Arrival>>,
) -> Request<Body> {
    let path = request.uri().path();
    // Other services have bounds of their own, and no description here.
    let Some(shape) = schema.input(path) else {
        return request;
    };
    let (size, rule) = (Size::of(path, limits), Rule::of(path, limits));
    request.map(|body| {
        Body::new(Incoming {
            body,
            schema: Arc::clone(schema),
            shape,
            size,
            rule,
            head: [0; 5],
            known: 0,
            left: 0,
            walk: None,
            memory: Arc::clone(memory),
            taken: 0,
            meters: Arc::clone(meters),
            refused: None,
            arrival,
            received: 0,
            until: Instant::now() + Duration::from_secs(limits.message_seconds),
            patience: None,
        })
    })
}

/// What a body yields.
type Received = Result<Frame<Bytes>, Status>;

/// A body of one message: a flag, its length in four bytes, and its fields.
struct Incoming {
    body: Body,
    schema: Arc<Schema>,
    shape: ShapeId,
    size: Size,
    rule: Option<Rule>,
    head: [u8; 5],
    /// Bytes of the head that have come.
    known: usize,
    /// Bytes of the message that have not.
    left: u64,
    walk: Option<Walk>,
    memory: Arc<InFlight>,
    /// What `memory` holds.
    taken: u64,
    meters: Arc<Meters>,
    /// Why the message is not decoded; what is left of it is thrown away first.
    refused: Option<Status>,
    /// The call's place, which another may take while the message is on its way.
    arrival: Option<Arc<Arrival>>,
    /// Bytes that have come.
    received: u64,
    /// Until when it has to be there, but for the time that its bytes take.
    until: Instant,
    /// Until when more have to. Most messages come at once, and never need it.
    patience: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            let frame = ready!(this.poll_body(context)?);
            let data = match &frame {
                Some(Ok(frame)) => frame.data_ref(),
                Some(Err(_)) => return Poll::Ready(frame),
                None => None,
            };
            if let Some(data) = data {
                if let Err(status) = this.take_in(data) {
                    return Poll::Ready(Some(Err(status)));
                }
            } else if let Some(status) = this.refused.take() {
                return Poll::Ready(Some(Err(status)));
            }
            match &this.refused {
                None => return Poll::Ready(frame),
                Some(_) if this.left == 0 => {
                    return Poll::Ready(this.refused.take().map(Err));
                }
                Some(_) => {}
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.refused.is_none() && self.body.is_end_stream()
    }
}

impl Incoming {
    /// The body's next frame, if it comes in good time and no other call has got the place meanwhile.
    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Received>, Status>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            if let Some(Ok(frame)) = &frame {
                self.received += frame.data_ref().map_or(0, Bytes::len) as u64;
            }
            // Only with its end is a call no longer open.
            if (frame.is_none() || self.body.is_end_stream())
                && let Some(arrival) = &self.arrival
            {
                arrival.arrived();
            }
            return Poll::Ready(Ok(frame));
        }
        if let Some(arrival) = &self.arrival
            && arrival.is_given_up(context)
        {
            self.meters.shed("requests");
            return Poll::Ready(Err(refusal::given_up()));
        }
        let until = self.until + slots::patience(self.received);
        let patience = self
            .patience
            .get_or_insert_with(|| Box::pin(sleep_until(until.into())));
        if patience.deadline() != until.into() {
            patience.as_mut().reset(until.into());
        }
        ready!(patience.as_mut().poll(context));
        Poll::Ready(Err(refusal::too_slow()))
    }

    /// Takes in more of the body.
    ///
    /// # Errors
    /// What makes no sense to read any further.
    fn take_in(&mut self, mut data: &[u8]) -> Result<(), Status> {
        if self.known < self.head.len() {
            let missing = (self.head.len() - self.known).min(data.len());
            self.head[self.known..][..missing].copy_from_slice(&data[..missing]);
            self.known += missing;
            data = &data[missing..];
            if self.known < self.head.len() {
                return Ok(());
            }
            self.begin()?;
        }
        // A compressed message is refused by its flag; the server takes none.
        let Some(walk) = &mut self.walk else {
            return Ok(());
        };
        if data.len() as u64 > self.left {
            return Err(invalid("a call has one message"));
        }
        self.left -= data.len() as u64;
        if self.refused.is_some() {
            return Ok(());
        }
        let walked = walk.go_on(&self.schema, data);
        let (decoded, found) = (walk.decoded(), walk.found());
        self.refused = walked
            .map_err(|why| invalid(format!("the message cannot be decoded: {}", why.0)))
            .and_then(|()| self.check(data.len() as u64, decoded, found))
            .err();
        Ok(())
    }

    /// The head is there.
    fn begin(&mut self) -> Result<(), Status> {
        let [flag, length @ ..] = self.head;
        let length = u32::from_be_bytes(length);
        let Size { bytes, setting } = self.size;
        if length as usize > bytes {
            return Err(invalid(format!(
                "the message has {length} bytes; at most {bytes} ({setting})"
            )));
        }
        if flag == 0 {
            let counted = self.rule.map_or(0, |rule| rule.field);
            self.left = u64::from(length);
            self.walk = Some(Walk::new(&self.schema, self.shape, self.left, counted));
        }
        Ok(())
    }

    fn check(&mut self, bytes: u64, decoded: u64, found: usize) -> Result<(), Status> {
        if let Some(rule) = self.rule
            && found > rule.most
        {
            return Err((rule.refuse)(rule.most));
        }
        let most = self.size.decoded();
        if decoded > most {
            return Err(invalid(format!(
                "the message decodes to more than {most} bytes, {DECODED} times {}; send less at once",
                self.size.setting
            )));
        }
        // The bytes are there until the whole message is, and what they decode to is besides.
        let more = bytes + decoded - std::mem::replace(&mut self.taken, decoded);
        if !self.memory.try_take(more) {
            self.meters.shed("memory_limit");
            return Err(refusal::no_memory(self.memory.limit()));
        }
        Ok(())
    }
}
