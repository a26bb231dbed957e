//! Answers on their way out: each holds its place among the requests under way until the client has taken it.
//!
//! HTTP/2 lets a client take nothing for as long as it likes, and an answer takes memory until then. Answers are handed
//! over in slices, the next one when the client has room for it, so that a request counts as under way
//! (`limits.requests`) until its answer is nearly gone, and so long its memory counts. Clients that never read are let
//! go when their connection is as old as it may be.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;
use tonic::body::Body;

use super::slots::Arrival;
use crate::authentication::OpenCall;
use crate::memory::InFlight;

/// As much as is handed over at once: HTTP/2's initial window.
const SLICE: usize = 65_535;

/// A place among the requests under way, which is free again when this is dropped.
#[expect(dead_code, reason = "they are held, not looked at")]
pub(crate) enum Permit {
    /// Of the API's requests.
    Request(Arc<Arrival>),
    Shared(OwnedSemaphorePermit),
    /// Of those that each stranger's connection has.
    Stranger(OpenCall),
}

/// An answer as it is sent: a message with its head. It takes the place of the empty one that its handler returns.
#[derive(Clone)]
pub(super) struct Ready(pub(super) Bytes);

/// The place of a request, and the memory of its answer.
type Held = (Permit, Option<Arc<InFlight>>);

pub(crate) struct Outgoing {
    body: Body,
    /// What has been taken from the body and not yet been handed over.
    rest: Bytes,
    ready: Option<Bytes>,
    _held: Held,
}

impl Outgoing {
    pub(crate) fn wrap(mut response: Response<Body>, held: Held) -> Response<Body> {
        let ready = response.extensions_mut().remove::<Ready>();
        response.map(|body| {
            Body::new(Self {
                body,
                rest: Bytes::new(),
                ready: ready.map(|ready| ready.0),
                _held: held,
            })
        })
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Status;

    /// Called when the client has room for more.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => this.rest = this.ready.take().unwrap_or(data),
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let slice = this.rest.split_to(this.rest.len().min(SLICE));
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}
