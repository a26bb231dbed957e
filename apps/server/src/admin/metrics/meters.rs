//! What the server counts itself, at each request: the executor counts the rest.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use tonic::Code;

use super::page::BUCKETS;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Answered {
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Method {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reason {
    reason: &'static str,
}

type TimedByMethod = Family<Method, Histogram, fn() -> Histogram>;

/// What the server itself counts; the executor counts the rest.
pub(crate) struct Meters {
    pub(super) answered: Family<Answered, Counter>,
    pub(super) took: TimedByMethod,
    pub(super) shed: Family<Reason, Counter>,
    pub(crate) connections: AtomicU64,
}

impl Meters {
    pub(crate) fn new() -> Self {
        Self {
            answered: Family::default(),
            took: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            shed: Family::default(),
            connections: AtomicU64::new(0),
        }
    }

    pub(crate) fn answered(&self, method: &'static str, code: Code, took: Duration) {
        let code = code_name(code);
        self.answered
            .get_or_create(&Answered { method, code })
            .inc();
        self.took
            .get_or_create(&Method { method })
            .observe(took.as_secs_f64());
    }

    /// Counts a request that was refused for want of capacity.
    pub(crate) fn shed(&self, reason: &'static str) {
        self.shed.get_or_create(&Reason { reason }).inc();
    }
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
