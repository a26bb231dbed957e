//! What happens to every request before and after its service: the key is checked, deadline and trace context are
//! read, and the outcome is counted.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use ring::hmac;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service;
use tracing::Span;

use super::outgoing::{Outgoing, Permit};
use super::schema::Schema;
use super::slots::RequestSlots;
use super::{incoming, refusal};
use crate::admin::metrics::Meters;
use crate::authentication::{Authentication, ConnectionInfo};
use crate::config::{Limits, Secret};
use crate::memory::{Budget, InFlight};
use crate::scheduling::Pace;
use crate::telemetry;

/// How much longer than its deadline a request may take before it is given up from outside.
pub(crate) const MARGIN: Duration = Duration::from_secs(5);

/// How long a probe of health may take, most of it until its few bytes have come.
const PROBE: Duration = Duration::from_secs(5);

/// What is known of a request besides its message.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) received: Instant,
    pub(crate) deadline: Option<Instant>,
    /// Lists that the client wants an IVF query to visit, from the header `chiplet-nprobe`.
    pub(crate) nprobe: Option<usize>,
    pub(crate) span: Span,
    /// What the answer takes, until the client has taken it.
    pub(crate) answer: Arc<InFlight>,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            received: Instant::now(),
            deadline: None,
            nprobe: None,
            span: Span::none(),
            answer: Arc::default(),
        }
    }
}

const BEARER: &[u8] = b"Bearer ";

/// The key that clients must bring. Only a keyed hash of it is kept and compared, in constant time: neither the key's
/// bytes nor its length show in how long a comparison takes.
pub(crate) struct ApiKey {
    key: hmac::Key,
    expected: hmac::Tag,
}

impl ApiKey {
    pub(crate) fn new(secret: &Secret) -> Result<Self, ring::error::Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new())?;
        let expected = hmac::sign(&key, secret.reveal().as_bytes());
        Ok(Self { key, expected })
    }

    fn is_shown_in(&self, headers: &HeaderMap) -> bool {
        let bearer = headers
            .get(http::header::AUTHORIZATION)
            .and_then(|value| value.as_bytes().split_at_checked(BEARER.len()))
            // A scheme's name is of letters in any case (RFC 9110, 11.1).
            .and_then(|(scheme, key)| scheme.eq_ignore_ascii_case(BEARER).then_some(key));
        let brought = headers.get("api-key").map(|value| value.as_bytes());
        let is_key =
            |brought: &[u8]| hmac::verify(&self.key, brought, self.expected.as_ref()).is_ok();
        brought.or(bearer).is_some_and(is_key)
    }
}

/// Checks every request of one server before it is decoded, and counts it afterwards.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) api_key: Option<Arc<ApiKey>>,
    pub(crate) meters: Arc<Meters>,
    /// A slot for each request that may be under way.
    pub(crate) slots: Arc<RequestSlots>,
    pub(crate) pace: Arc<Pace>,
    /// The longest that a request may take.
    pub(crate) longest: Duration,
    pub(crate) limits: Arc<Limits>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) budget: Arc<Budget>,
    /// A place for each probe of health under way, stream of health, and stream of reflection. Strangers have others.
    pub(crate) probes: Arc<Semaphore>,
    pub(crate) health_streams: Arc<Semaphore>,
    pub(crate) reflection_streams: Arc<Semaphore>,
}

impl<S> tower::Layer<S> for Admission {
    type Service = Admitted<S>;

    fn layer(&self, inner: S) -> Admitted<S> {
        Admitted {
            admission: self.clone(),
            inner,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Admitted<S> {
    admission: Admission,
    inner: S,
}

impl<S> Service<Request<Body>> for Admitted<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let received = Instant::now();
        let method = telemetry::method(request.uri().path());
        let meters = Arc::clone(&self.admission.meters);
        let peer = request.extensions().get::<ConnectionInfo>();
        let peer = peer.map_or_else(Arc::default, |info| Arc::clone(&info.0));
        let admitted = self.admission.admit(&mut request, &peer, method, received);
        peer.judge();
        let (place, message) = match admitted {
            Ok(admitted) => admitted,
            Err(status) => {
                meters.answered(method, status.code(), received.elapsed());
                return Box::pin(async move { Ok(status.into_http()) });
            }
        };
        // Until the answer begins: streams of health and reflection begin at once, and stay open as long as they like.
        let limit = match request.uri().path() {
            CHECK => received + PROBE,
            _ => received + self.admission.longest + MARGIN,
        };
        // A call that there is not is refused without a word.
        let called = request.uri().clone();
        let deadline = request
            .extensions()
            .get()
            .and_then(|call: &Call| call.deadline);
        // tonic would end a call whose deadline passes too, but as cancelled, which no client has done.
        let give_up = deadline.map_or(limit, |deadline| deadline.min(limit));
        let taken = request
            .extensions()
            .get()
            .map(|call: &Call| Arc::clone(&call.answer));
        let request = incoming::bounded(
            request,
            &self.admission.limits,
            &self.admission.schema,
            &meters,
            &message,
            match &place {
                Permit::Request(place) => Some(Arc::clone(place)),
                Permit::Shared(_) | Permit::Stranger(_) => None,
            },
        );
        let answer = self.inner.call(request);
        // If the client hangs up, this future is dropped with the answer's; that is counted too.
        let mut unanswered = Unanswered(Some((meters, method, received)));
        Box::pin(async move {
            // The handlers keep to their deadlines; a message that does not arrive never reaches one.
            let response = match tokio::time::timeout_at(give_up.into(), answer).await {
                Ok(response) => response?,
                Err(_) => refusal::deadline().into_http(),
            };
            // Whoever answers has let go of the message.
            drop(message);
            let code = response
                .headers()
                .get("grpc-status")
                .map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes()));
            let response = match code {
                Code::Unimplemented if !response.headers().contains_key("grpc-message") => {
                    refusal::unknown_call(called.path()).into_http()
                }
                _ => response,
            };
            if let Some((meters, method, received)) = unanswered.0.take() {
                meters.answered(method, code, received.elapsed());
            }
            Ok(Outgoing::wrap(response, (place, taken)))
        })
    }
}

/// Counts a request as cancelled unless it is answered.
struct Unanswered(Option<(Arc<Meters>, &'static str, Instant)>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some((meters, method, received)) = self.0.take() {
            meters.answered(method, Code::Cancelled, received.elapsed());
        }
    }
}

impl Admission {
    /// Lets a request in: its place, and the memory that its message will take, which holds what its headers do.
    fn admit(
        &self,
        request: &mut Request<Body>,
        peer: &Arc<Authentication>,
        method: &'static str,
        received: Instant,
    ) -> Result<(Permit, Arc<InFlight>), Status> {
        let health = request.uri().path().starts_with(HEALTH);
        if let Some(api_key) = &self.api_key {
            if api_key.is_shown_in(request.headers()) {
                peer.confirm();
            } else if !health {
                // Probes have no keys, and health is no secret.
                return Err(Status::unauthenticated(
                    "the request brings no valid key; send it as `api-key` or `authorization: Bearer`",
                ));
            }
        }
        let place = self.place(request.uri().path(), peer)?;
        if health {
            keep_what_health_needs(request.headers_mut());
        }
        let headers = request.headers();
        let message = Arc::new(InFlight::new(&self.budget));
        if !message.try_take(header_bytes(headers)) {
            self.meters.shed("memory_limit");
            return Err(refusal::no_memory(message.limit()));
        }
        let call = Call {
            received,
            deadline: timeout(headers)?.and_then(|timeout| received.checked_add(timeout)),
            nprobe: nprobe(headers)?,
            span: telemetry::request_span(method, headers),
            answer: Arc::new(InFlight::new(&self.budget)),
        };
        request.extensions_mut().insert(call);
        Ok((place, message))
    }

    /// A place for a request of the API. Streams of health and reflection stay open, and have places of their own, and
    /// so have strangers.
    fn place(&self, path: &str, peer: &Arc<Authentication>) -> Result<Permit, Status> {
        let places = match path {
            _ if path.starts_with("/qdrant.") => {
                return match self.slots.take() {
                    Some(place) => Ok(Permit::Request(place)),
                    None => {
                        self.meters.shed("requests");
                        let message =
                            "as many requests are under way as limits.requests allows; retry later";
                        Err(refusal::overloaded(message.into(), self.pace.retry_after()))
                    }
                };
            }
            // With a key set, nobody else comes so far without it.
            _ if !peer.is_confirmed() => {
                return peer
                    .open_call()
                    .map(Permit::Stranger)
                    .ok_or_else(|| self.too_many_streams());
            }
            CHECK => &self.probes,
            _ if path.starts_with(HEALTH) => &self.health_streams,
            // Reflection, and what there is not.
            _ => &self.reflection_streams,
        };
        let place = Arc::clone(places).try_acquire_owned();
        place
            .map(Permit::Shared)
            .map_err(|_| self.too_many_streams())
    }

    fn too_many_streams(&self) -> Status {
        self.meters.shed("streams");
        Status::resource_exhausted(
            "too many calls of this kind are open; ask once instead, or show the key first",
        )
    }
}

const HEALTH: &str = "/grpc.health.v1.Health/";
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// Lets go of all headers of a probe but those that gRPC reads: a stream of health is open for long.
fn keep_what_health_needs(headers: &mut HeaderMap) {
    let mut kept = HeaderMap::new();
    for name in [
        "content-type",
        "te",
        "grpc-timeout",
        "grpc-encoding",
        "grpc-accept-encoding",
        "traceparent",
    ] {
        if let Some(value) = headers.get(name) {
            // A copy of its own: a header's bytes are part of the buffer that it came in.
            let copied = HeaderValue::from_bytes(value.as_bytes());
            kept.extend(
                copied
                    .ok()
                    .map(|value| (HeaderName::from_static(name), value)),
            );
        }
    }
    *headers = kept;
}

/// What a request's headers take, about.
fn header_bytes(headers: &HeaderMap) -> u64 {
    /// A name, a value, and where they are.
    const ENTRY: usize = 128;
    let texts = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    (headers.capacity() * ENTRY + texts.sum::<usize>()) as u64
}

/// gRPC's `grpc-timeout`: up to eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get("grpc-timeout") else {
        return Ok(None);
    };
    let bad = || refusal::invalid("grpc-timeout is not up to eight digits and one of H M S m u n");
    let text = value.to_str().map_err(|_| bad())?;
    let (digits, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .filter(|(digits, _)| (1..=8).contains(&digits.len()))
        .ok_or_else(bad)?;
    let number: u32 = digits.parse().map_err(|_| bad())?;
    let unit = match unit {
        "H" => Duration::from_secs(3_600),
        "M" => Duration::from_secs(60),
        "S" => Duration::from_secs(1),
        "m" => Duration::from_millis(1),
        "u" => Duration::from_micros(1),
        "n" => Duration::from_nanos(1),
        _ => return Err(bad()),
    };
    Ok(Some(unit.saturating_mul(number)))
}

fn nprobe(headers: &HeaderMap) -> Result<Option<usize>, Status> {
    let Some(value) = headers.get("chiplet-nprobe") else {
        return Ok(None);
    };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    match number {
        Some(number) if number > 0 => Ok(Some(number)),
        _ => Err(refusal::invalid(
            "chiplet-nprobe is no number of lists; send 1 or more",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn only_the_whole_key_is_taken() {
        let api_key = ApiKey::new(&Secret::new("open sesame")).unwrap();
        assert!(api_key.is_shown_in(&headers("api-key", "open sesame")));
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let shown = headers("authorization", &format!("{scheme} open sesame"));
            assert!(api_key.is_shown_in(&shown), "{scheme}");
        }
        for wrong in ["", "open", "open sesamf", "open sesame "] {
            assert!(
                !api_key.is_shown_in(&headers("api-key", wrong)),
                "{wrong:?}"
            );
        }
        for wrong in [
            "open sesame",
            "Basic open sesame",
            "Bearer",
            "Bearerx open sesame",
        ] {
            assert!(
                !api_key.is_shown_in(&headers("authorization", wrong)),
                "{wrong}"
            );
        }
        assert!(!api_key.is_shown_in(&HeaderMap::new()));
    }

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let read = |text: &str| timeout(&headers("grpc-timeout", text)).map_err(|s| s.code());
        assert_eq!(read("250m"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(read("1H"), Ok(Some(Duration::from_secs(3_600))));
        assert_eq!(
            read("99999999n"),
            Ok(Some(Duration::from_nanos(99_999_999)))
        );
        for wrong in ["", "5", "m", "-1m", "123456789m", "1x", "1.5S"] {
            assert_eq!(read(wrong), Err(Code::InvalidArgument), "{wrong:?}");
        }
        assert_eq!(timeout(&HeaderMap::new()).unwrap(), None);
    }
}
