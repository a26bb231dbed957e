//! Requests on their way in: points and queries are counted before they are decoded.
//!
//! An empty point or query takes two bytes on its way and some hundreds once it is decoded, so a message within
//! `limits.message_bytes` could take gigabytes before anybody counted them. Here the message's outermost fields are walked
//! through as they arrive, and the end of a message that has too many never reaches the decoder.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use tonic::Status;
use tonic::body::Body;

use super::refusal;
use crate::config::Limits;

/// How many of a message's repeated field there may be.
#[derive(Clone, Copy)]
struct Rule {
    field: u64,
    most: usize,
    refuse: fn(usize, usize) -> Status,
}

impl Rule {
    /// The field's number is the API's.
    fn of(path: &str, limits: &Limits) -> Option<Self> {
        let (field, most, refuse): (_, _, fn(usize, usize) -> Status) = match path {
            "/qdrant.Points/Upsert" => (3, limits.upsert_points, refusal::too_many_points),
            "/qdrant.Points/SearchBatch" | "/qdrant.Points/QueryBatch" => {
                (2, limits.batch, refusal::too_many_queries)
            }
            "/qdrant.Points/Get" => (2, limits.results, refusal::too_many_ids),
            // These would only be decoded to be refused.
            "/qdrant.Points/RecommendBatch" => (2, limits.batch, |_, _| {
                refusal::unsupported(refusal::RECOMMENDATIONS)
            }),
            "/qdrant.Points/DiscoverBatch" => (2, limits.batch, |_, _| {
                refusal::unsupported(refusal::DISCOVERIES)
            }),
            "/qdrant.Points/UpdateBatch" => (3, limits.batch, |_, _| {
                refusal::unsupported(refusal::UPDATE_BATCHES)
            }),
            _ => return None,
        };
        Some(Self {
            field,
            most,
            refuse,
        })
    }
}

/// Has a request's message counted, if there is something to count.
pub(crate) fn counted(request: Request<Body>, limits: &Limits) -> Request<Body> {
    match Rule::of(request.uri().path(), limits) {
        Some(rule) => request.map(|body| {
            Body::new(Incoming {
                body,
                rule,
                message: Message::default(),
            })
        }),
        None => request,
    }
}

struct Incoming {
    body: Body,
    rule: Rule,
    message: Message,
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && this.message.ends_in(data, this.rule.field)
            && this.message.fields.found > this.rule.most
        {
            let status = (this.rule.refuse)(this.message.fields.found, this.rule.most);
            return Poll::Ready(Some(Err(status)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// A body's only message: a flag, its length in four bytes, and its fields.
#[derive(Default)]
struct Message {
    head: [u8; 5],
    /// Bytes of the head that have come.
    known: usize,
    /// Bytes of the fields that have come.
    walked: usize,
    fields: Fields,
}

impl Message {
    /// Takes in more of the body; whether the message ends there.
    fn ends_in(&mut self, mut data: &[u8], field: u64) -> bool {
        let missing = (self.head.len() - self.known).min(data.len());
        self.head[self.known..][..missing].copy_from_slice(&data[..missing]);
        self.known += missing;
        data = &data[missing..];
        // Of a compressed message nothing can be said; the server takes none.
        if self.known < self.head.len() || self.head[0] != 0 {
            return false;
        }
        let [_, length @ ..] = self.head;
        let left = u32::from_be_bytes(length) as usize - self.walked;
        let walked = left.min(data.len());
        self.fields.walk(&data[..walked], field);
        self.walked += walked;
        walked == left
    }
}

/// A walk through a message's outermost fields, wherever its bytes are cut.
#[derive(Default)]
struct Fields {
    at: At,
    /// The number being read, seven bits to a byte.
    number: u64,
    bits: u32,
    /// Groups that are open.
    depth: u32,
    /// How often the field was there.
    found: usize,
}

#[derive(Clone, Copy, Default)]
enum At {
    #[default]
    Tag,
    Number,
    Length,
    Content(u64),
    /// The decoder comes no further either.
    Nonsense,
}

impl Fields {
    fn walk(&mut self, mut bytes: &[u8], field: u64) {
        while let Some((&first, rest)) = bytes.split_first() {
            match self.at {
                At::Content(left) => {
                    let here = left.min(bytes.len() as u64);
                    bytes = &bytes[here as usize..];
                    self.skip(left - here);
                }
                At::Nonsense => return,
                At::Tag | At::Number | At::Length => {
                    bytes = rest;
                    self.read(first, field);
                }
            }
        }
    }

    /// Takes in one byte of a number.
    fn read(&mut self, byte: u8, field: u64) {
        self.number |= u64::from(byte & 0x7f) << self.bits;
        self.bits += 7;
        if byte & 0x80 != 0 {
            // A number has ten bytes at most.
            if self.bits > 63 {
                self.at = At::Nonsense;
            }
            return;
        }
        let number = std::mem::take(&mut self.number);
        self.bits = 0;
        match self.at {
            At::Tag => self.begin(number, field),
            At::Length => self.skip(number),
            _ => self.at = At::Tag,
        }
    }

    fn begin(&mut self, tag: u64, field: u64) {
        self.at = match tag & 7 {
            0 => At::Number,
            1 => At::Content(8),
            2 => {
                self.found += usize::from(tag >> 3 == field && self.depth == 0);
                At::Length
            }
            3 => {
                self.depth += 1;
                At::Tag
            }
            4 => {
                self.depth = self.depth.saturating_sub(1);
                At::Tag
            }
            5 => At::Content(4),
            _ => At::Nonsense,
        };
    }

    fn skip(&mut self, bytes: u64) {
        self.at = match bytes {
            0 => At::Tag,
            left => At::Content(left),
        };
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use qdrant_client::qdrant::{PointStruct, UpsertPoints};

    use super::*;

    /// A message as it comes, with its head.
    fn framed(fields: &[u8]) -> Vec<u8> {
        let mut framed = vec![0];
        framed.extend_from_slice(&(fields.len() as u32).to_be_bytes());
        framed.extend_from_slice(fields);
        framed
    }

    /// How often field 3 is in the message, which comes in pieces of `size` bytes.
    fn count(fields: &[u8], size: usize) -> usize {
        let mut message = Message::default();
        let body = framed(fields);
        let mut pieces = body.chunks(size).peekable();
        while let Some(piece) = pieces.next() {
            let ends = message.ends_in(piece, 3);
            assert_eq!(ends, pieces.peek().is_none());
        }
        message.fields.found
    }

    #[test]
    fn a_field_is_counted_wherever_the_bytes_are_cut() {
        let points = vec![
            PointStruct::default(),
            PointStruct::new(7, vec![0.5; 100], [("text", "x".repeat(300).into())]),
            PointStruct::default(),
        ];
        let upsert = UpsertPoints {
            collection_name: "line".into(),
            wait: Some(true),
            points,
            timeout: Some(1 << 40),
            ..UpsertPoints::default()
        };
        let mut fields = upsert.encode_to_vec();
        // Fields that nobody knows: eight bytes, four bytes, and a group that has a field 3 of its own.
        fields.extend_from_slice(&[0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7d, 1, 2, 3, 4]);
        fields.extend_from_slice(&[0x7b, 0x1a, 0, 0x7c]);
        // And an empty point whose tag is longer than it had to be.
        fields.extend_from_slice(&[0x9a, 0x80, 0, 0]);
        let decoded = UpsertPoints::decode(&*fields).unwrap();
        assert_eq!(decoded.points.len(), 4);
        for size in [1, 2, 3, 7, 64, fields.len() + 5] {
            assert_eq!(count(&fields, size), 4, "in pieces of {size}");
        }
    }

    #[test]
    fn what_was_found_before_nonsense_counts() {
        assert_eq!(count(&[], 5), 0);
        assert_eq!(count(&[0x1a, 0, 0x1a, 0, 0x07, 0x1a, 0], 1), 2);
        let endless = [[0x1a, 0].as_slice(), &[0xff; 20]].concat();
        assert_eq!(count(&endless, 3), 1);
    }
}
