//! Every way to say no, as a gRPC status that says what to do instead.

use std::time::Duration;

use chiplet::{Error, SubmitError};
use prost::Message;
use qdrant_client::qdrant::ShardKeySelector;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::collection::catalog::CatalogError;
use crate::collection::store::StoreError;
use crate::collection::writer::WriteError;
use crate::scheduling::Pace;

/// Bytes of a message that only says what is so, at most.
const LONGEST_SETTING: usize = 1_024;

/// The longest piece of a client's own input that a message repeats.
const QUOTED_CHARS: usize = 100;

/// `text`, cut to a length that fits in a message.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

pub(crate) const RECOMMENDATIONS: &str = "recommendation queries";
pub(crate) const DISCOVERIES: &str = "discovery queries";
pub(crate) const UPDATE_BATCHES: &str = "batches of different updates; send them one by one";

/// Something that the API has and this server does not.
pub(crate) fn unsupported(what: &str) -> Status {
    Status::unimplemented(format!("this server does not support {what}"))
}

pub(crate) fn unknown_call(path: &str) -> Status {
    Status::unimplemented(format!(
        "this server does not have the call {}; its README names those that it has",
        quoted(path)
    ))
}

pub(crate) fn invalid(message: impl Into<String>) -> Status {
    Status::invalid_argument(message)
}

pub(crate) fn too_many_queries(most: usize) -> Status {
    invalid(format!(
        "more than {most} queries in one batch (limits.batch)"
    ))
}

pub(crate) fn too_many_ids(most: usize) -> Status {
    invalid(format!("more than {most} ids (limits.results)"))
}

pub(crate) fn too_many_points(most: usize) -> Status {
    invalid(format!(
        "more than {most} points in one request (limits.upsert_points)"
    ))
}

/// No hint when to come back: clients that follow hints would retry until somebody deletes points.
pub(crate) fn no_memory(limit: u64) -> Status {
    Status::resource_exhausted(format!(
        "the request would take more than points, indexes and other requests leave of {limit} bytes \
         (limits.memory_bytes); send or ask for less at once, delete points, or raise it"
    ))
}

/// Refuses the first of `found` that is there.
pub(crate) fn unless_absent(found: &[(bool, &str)]) -> Result<(), Status> {
    match found.iter().find(|(there, _)| *there) {
        Some((_, what)) => Err(unsupported(what)),
        None => Ok(()),
    }
}

/// Whether a message says anything else than what is so anyway: what says nothing need not be refused.
pub(crate) fn says<T: Message + Clone + PartialEq + Default>(said: &Option<T>, so: &T) -> bool {
    said.as_ref().is_some_and(|said| {
        let mut both = so.clone();
        // What says nothing is short, so nothing long is copied.
        said.encoded_len() > LONGEST_SETTING
            || both.merge(said.encode_to_vec().as_slice()).is_err()
            || both != *so
    })
}

pub(crate) fn unless_sharded(selector: &Option<ShardKeySelector>) -> Result<(), Status> {
    unless_absent(&[(says(selector, &ShardKeySelector::default()), "shard keys")])
}

/// Over capacity: come back after `wait`, said in the three ways that clients look for.
pub(crate) fn overloaded(message: String, wait: Duration) -> Status {
    let details = ErrorDetails::with_retry_info(Some(wait));
    let mut status = Status::with_error_details(Code::ResourceExhausted, message, details);
    let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let seconds = millis.div_ceil(1_000).max(1);
    let metadata = status.metadata_mut();
    // gRPC's own retry policies read the first; Qdrant's clients the second, in whole seconds.
    metadata.insert("grpc-retry-pushback-ms", MetadataValue::from(millis));
    metadata.insert("retry-after", MetadataValue::from(seconds));
    status
}

pub(crate) fn catalog(error: CatalogError) -> Status {
    let message = match &error {
        CatalogError::Unknown(name) => format!("there is no collection {}", quoted(name)),
        other => other.to_string(),
    };
    match error {
        CatalogError::Unknown(_) => Status::not_found(message),
        CatalogError::Exists(_) => Status::already_exists(message),
        CatalogError::Changing(_) => Status::aborted(message),
        CatalogError::Loading(_) => Status::unavailable(message),
        CatalogError::BadName(_) => Status::invalid_argument(message),
        CatalogError::TooMany(_) | CatalogError::NoMemory(_) => Status::resource_exhausted(message),
        CatalogError::Damaged { problem, .. } if problem.memory => {
            Status::resource_exhausted(message)
        }
        CatalogError::Damaged { .. } => Status::data_loss(message),
        CatalogError::Store(error) => store(&error),
    }
}

fn store(error: &StoreError) -> Status {
    match error {
        StoreError::Damaged { .. } => Status::data_loss(error.to_string()),
        StoreError::Full { .. } => Status::resource_exhausted(error.to_string()),
        StoreError::Unflushed { .. } | StoreError::Gone { .. } => {
            Status::failed_precondition(error.to_string())
        }
        _ => Status::internal(error.to_string()),
    }
}

pub(crate) fn write(error: WriteError, pace: &Pace) -> Status {
    let message = error.to_string();
    match error {
        WriteError::QueueFull { .. } => overloaded(message, pace.retry_after()),
        // No hint: clients that follow hints would retry until somebody deletes points.
        WriteError::Memory { .. } => Status::resource_exhausted(message),
        WriteError::Dimension { .. } => Status::invalid_argument(message),
        WriteError::NoPoint { .. } => Status::not_found(message),
        WriteError::TooLong { .. } => Status::deadline_exceeded(message),
        WriteError::TooMany { .. } => Status::failed_precondition(message),
        WriteError::BadPayload { .. } => Status::data_loss(message),
        WriteError::Broken => Status::failed_precondition(message),
        WriteError::Deleted => Status::not_found(message),
        WriteError::Store(error) => store(&error),
    }
}

/// Why a search ended without an answer.
pub(crate) fn search(error: Error, pace: &Pace) -> Status {
    let message = error.to_string();
    match error {
        Error::Refused(reason) => match reason {
            SubmitError::Overloaded { .. }
            | SubmitError::TableOverloaded { .. }
            | SubmitError::OutOfMemory => {
                let wait = reason.expected_wait().map(Pace::told);
                overloaded(message, wait.unwrap_or_else(|| pace.retry_after()))
            }
            SubmitError::UnknownTable => Status::not_found("the collection was deleted"),
            SubmitError::ShuttingDown => shutting_down(),
            _ => Status::internal(message),
        },
        Error::Cancelled => Status::cancelled(message),
        Error::Expired => deadline(),
        Error::ShutDown => shutting_down(),
        Error::Search(error) if error.is_callers() => Status::invalid_argument(message),
        _ => Status::internal(message),
    }
}

pub(crate) fn deadline() -> Status {
    Status::deadline_exceeded("the deadline passed before the request was answered")
}

/// The message of a call was on its way when another needed the call's place.
pub(crate) fn given_up() -> Status {
    Status::resource_exhausted(
        "as many requests are under way as limits.requests allows, and of those whose message had not come this was the \
         oldest; retry later",
    )
}

pub(crate) fn too_slow() -> Status {
    Status::deadline_exceeded(
        "the message did not come in time: send it, and the end of the call, at once after the headers",
    )
}

pub(crate) fn shutting_down() -> Status {
    Status::unavailable("the server is shutting down; connect to another, or retry")
}

/// The label under which a refusal for want of capacity is counted.
pub(crate) fn shed_reason(error: &SubmitError) -> Option<&'static str> {
    match error {
        SubmitError::Overloaded { .. } => Some("queue_full"),
        SubmitError::TableOverloaded { .. } => Some("table_queue_full"),
        SubmitError::OutOfMemory => Some("no_memory"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overload_says_when_to_come_back_in_every_way() {
        let status = overloaded("full".into(), Duration::from_millis(30));
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(
            status.metadata().get("grpc-retry-pushback-ms").unwrap(),
            "30"
        );
        assert_eq!(status.metadata().get("retry-after").unwrap(), "1");
        let retry = status.get_details_retry_info().unwrap();
        assert_eq!(retry.retry_delay, Some(Duration::from_millis(30)));
    }

    #[test]
    fn long_input_is_not_repeated() {
        let message = catalog(CatalogError::Unknown("ü".repeat(10_000)))
            .message()
            .to_owned();
        assert!(message.len() < 300, "{message}");
        assert!(message.contains("ü"));
    }
}
