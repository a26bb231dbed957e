//! Values by key over gRPC, as a ranking service asks for the features of its candidates.
//!
//! | file | holds |
//! |---|---|
//! | `lib` | the server: look-ups, writes, the next version |
//! | `client` | a client for shards and replicas |
//! | `made_up` | keys and values to try it with |
//! | `report` | the command that measures both ends, and prints tables |

pub mod client;
pub mod made_up;
pub mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chiplet_index::{KeyedRows, LiveKeyedRows, UpdateError};
use rustix::time::{ClockId, clock_gettime};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// What `build.rs` makes of `proto/keyed.proto`.
#[expect(missing_docs, reason = "generated")]
pub mod protocol {
    tonic::include_proto!("keyed");
}

use protocol::rows_server::{Rows, RowsServer};
use protocol::{GetReply, GetRequest, StatusReply, StatusRequest, WriteReply, WriteRequest};

/// Keys of one call.
pub const MAX_KEYS: usize = 10_000;

/// Bytes of one answer: what clients take unless they are told otherwise, 4 MiB, less some for what is around it.
const MAX_ANSWER: usize = (4 << 20) - (64 << 10);

/// Calls of one connection that are under way; others are refused with `RESOURCE_EXHAUSTED`.
const MAX_CALLS: usize = 1_024;

/// Keys that may be written while a version is served. From half of them on the next version is built.
const MAX_WRITTEN: usize = 1 << 16;

/// The server.
#[derive(Clone)]
pub struct Service {
    rows: Arc<LiveKeyedRows>,
    building: Arc<AtomicBool>,
}

impl Service {
    /// Serves `rows`.
    pub fn new(rows: KeyedRows) -> Self {
        Self {
            rows: Arc::new(LiveKeyedRows::new(rows, MAX_WRITTEN)),
            building: Arc::default(),
        }
    }

    /// Serves until `stop` comes true, and answers what was asked before.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve(
        self,
        listener: tokio::net::TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), tonic::transport::Error> {
        // Or an answer may wait until the one before it is acknowledged.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tonic::transport::Server::builder()
            .concurrency_limit_per_connection(MAX_CALLS)
            .load_shed(true)
            .add_service(RowsServer::new(self))
            .serve_with_incoming_shutdown(incoming, stop)
            .await
    }

    /// Builds the next version on a thread of its own, if half of the keys that may be written are. Look-ups and writes
    /// go on.
    fn renew(&self) {
        if self.rows.written() < MAX_WRITTEN / 2 || self.building.swap(true, Ordering::AcqRel) {
            return;
        }
        let building = Building(Arc::clone(&self.building));
        let rows = Arc::clone(&self.rows);
        tokio::task::spawn_blocking(move || {
            let _building = building;
            if let Err(error) = rows.rebuild() {
                eprintln!("the version before is served on: {error}");
            }
        });
    }
}

/// While the next version is built, whatever comes of it.
struct Building(Arc<AtomicBool>);

impl Drop for Building {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[tonic::async_trait]
impl Rows for Service {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetReply>, Status> {
        let keys = request.into_inner().keys;
        refuse_many(keys.len())?;
        let bytes = keys.len() * (self.rows.value_bytes() + 1);
        if bytes > MAX_ANSWER {
            return Err(Status::invalid_argument(format!(
                "an answer of {bytes} bytes; at most {MAX_ANSWER}: send several calls"
            )));
        }
        // A thousand keys take some 50 us: less than handing them to another thread and back would add under load.
        let mut found = vec![false; keys.len()];
        let mut values = vec![0; keys.len() * self.rows.value_bytes()];
        self.rows.get_many(&keys, &mut values, &mut found);
        let found = found.into_iter().map(u8::from).collect();
        Ok(Response::new(GetReply { values, found }))
    }

    async fn write(&self, request: Request<WriteRequest>) -> Result<Response<WriteReply>, Status> {
        let entries = request.into_inner().entries;
        refuse_many(entries.len())?;
        let entries = entries
            .iter()
            .map(|entry| (entry.key, entry.value.as_deref()));
        let written = self.rows.write_many(entries);
        self.renew();
        written.map_err(|error| match error {
            UpdateError::Full { .. } => Status::resource_exhausted(format!(
                "{error}; the next version is being built, try again"
            )),
            _ => Status::invalid_argument(error.to_string()),
        })?;
        let written = self.rows.written() as u64;
        Ok(Response::new(WriteReply { written }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let version = self.rows.version();
        Ok(Response::new(StatusReply {
            keys: version.len() as u64,
            value_bytes: version.value_bytes() as u64,
            size_bytes: version.size_bytes(),
            huge_bytes: version.granted().huge.unwrap_or(0) as u64,
            written: self.rows.written() as u64,
            cpu_ns: cpu_ns(),
        }))
    }
}

fn refuse_many(keys: usize) -> Result<(), Status> {
    if keys <= MAX_KEYS {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "{keys} keys in one call; at most {MAX_KEYS}: send several calls"
    )))
}

/// Processor time of this process, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
