//! The gRPC services: a subset of Qdrant's API, by the types and server traits that the `qdrant-client` crate carries.
//!
//! | file | what |
//! |---|---|
//! | `admission` | before every request: key, deadline, trace context; after it: its metrics |
//! | `incoming` | requests are bounded by what they decode to, before they are decoded |
//! | `schema`, `walk`, `text` | what that is, by the API's description |
//! | `slots` | how many requests are under way, and which of them may lose their slot |
//! | `outgoing` | answers that the client has not taken yet |
//! | `blocking` | creating and deleting collections and payload indexes, a few at a time |
//! | `collections`, `points`, `health` | the services: one short method for each call |
//! | `create`, `search`, `select`, `write`, `fields` | what the larger calls do |
//! | `message`, `filter` | ids, vectors, payloads and filters from and into messages |
//! | `refusal` | every way to say no, as a status |

pub(crate) mod admission;
pub(crate) mod blocking;
mod collections;
mod create;
mod fields;
mod filter;
mod health;
mod incoming;
mod message;
mod outgoing;
mod points;
mod quantization;
pub(crate) mod refusal;
pub(crate) mod schema;
mod search;
mod select;
pub(crate) mod slots;
mod text;
mod walk;
mod write;

use std::sync::Arc;
use std::time::Instant;

use tonic::{Request, Status};

use crate::admin::metrics::Meters;
use crate::collection::builder::Builder;
use crate::collection::{Catalog, Collection};
use crate::config::{IndexSettings, Limits};
use crate::scheduling::{Pace, Scheduler, Watch};

use admission::Call;
use blocking::Blocking;
use schema::Schema;

/// What the services share.
pub(crate) struct Api {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) builder: Arc<Builder>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) limits: Limits,
    pub(crate) index: IndexSettings,
    pub(crate) pace: Arc<Pace>,
    pub(crate) blocking: Blocking,
    pub(crate) schema: Arc<Schema>,
}

impl Api {
    fn find(&self, name: &str) -> Result<Arc<Collection>, Status> {
        self.catalog.find(name).map_err(refusal::catalog)
    }

    /// Does what may take its time as a task of the collection's table: on its workers, in its share of their queue.
    async fn work<T: Send + 'static>(
        &self,
        collection: &Collection,
        deadline: Instant,
        code: impl FnOnce(&Watch<'_>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let begun = Instant::now();
        let done = self.scheduler.run(&collection.slot, deadline, code).await;
        let done = done.map_err(|error| self.ended(error))?;
        self.pace.answered(begun.elapsed());
        Ok(done)
    }

    /// Why a task of the scheduler ended without a result.
    fn ended(&self, error: chiplet::Error) -> Status {
        if let chiplet::Error::Refused(reason) = &error
            && let Some(reason) = refusal::shed_reason(reason)
        {
            self.meters.shed(reason);
        }
        refusal::search(error, &self.pace)
    }
}

/// The services' handle on what they share.
#[derive(Clone)]
pub(crate) struct Service(pub(crate) Arc<Api>);

impl Service {
    /// Runs what blocks on the disk on a thread that may.
    async fn blocking<T: Send + 'static>(
        &self,
        code: impl FnOnce(&Api) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let api = Arc::clone(&self.0);
        self.0.blocking.run(move || code(&api)).await
    }
}

/// A request's message and what was found out before about it.
fn open<T>(request: Request<T>) -> (Call, T) {
    let (_, mut extensions, message) = request.into_parts();
    let call = extensions.remove::<Call>().unwrap_or_default();
    (call, message)
}

/// Seconds since a request came in, as every answer reports.
fn seconds(call: &Call) -> f64 {
    Instant::now()
        .saturating_duration_since(call.received)
        .as_secs_f64()
}
