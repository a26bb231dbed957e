//! The smallest gRPC server on chiplet: one call, some tables in memory. Copy it and put your own tables in.
//!
//! What a service has to decide is here: which cores are the executor's and which the network's, what one query may ask
//! for, what becomes of a call's deadline, of a client that hangs up, of overload and of a shutdown. `apps/server` is a
//! whole server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chiplet::index::{HnswConfig, HnswTable, Metric};
use chiplet::shutdown::Shutdown;
use chiplet::{BuildError, Error, Executor, Query, QueryLimits, SubmitError, Table, TableId};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status};

/// What `build.rs` makes of `proto/search.proto`.
#[expect(missing_docs, reason = "generated")]
pub mod protocol {
    tonic::include_proto!("search");
}

use protocol::search_server::{Search, SearchServer};
use protocol::{Hit, SearchReply, SearchRequest};

/// How long accepted queries may take to end when the server stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// The tables and who searches them.
pub struct Service {
    executor: Arc<Executor>,
    tables: HashMap<String, TableId>,
}

impl Service {
    /// An executor on all cores but `reserved`, which are left to the network's threads.
    ///
    /// # Errors
    /// The machine cannot be read, or no core is left.
    pub fn start(reserved: usize) -> Result<Self, BuildError> {
        // Whoever asks for more is refused: one such query holds a core for as long as thousands of others.
        let limits = QueryLimits::new().max_k(Some(1_000));
        let executor = Executor::builder()
            .reserve_cores(reserved)
            .limits(limits)
            .build()?;
        Ok(Self {
            executor: Arc::new(executor),
            tables: HashMap::new(),
        })
    }

    /// Adds a table. Any [`Table`] will do.
    pub fn add(&mut self, name: &str, table: impl Table) {
        let id = self.executor.add_table(name, table);
        self.tables.insert(name.to_owned(), id);
    }

    /// Serves until `stop` comes true, answers what was accepted, and ends the executor.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve(
        self,
        listener: tokio::net::TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), tonic::transport::Error> {
        let executor = Arc::clone(&self.executor);
        let served = tonic::transport::Server::builder()
            .add_service(SearchServer::new(self))
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop)
            .await;
        executor.shutdown_async(Shutdown::Drain(PATIENCE)).await;
        served
    }
}

#[tonic::async_trait]
impl Search for Service {
    async fn search(
        &self,
        request: Request<SearchRequest>,
    ) -> Result<Response<SearchReply>, Status> {
        let deadline = timeout(request.metadata());
        let asked = request.into_inner();
        let Some(&table) = self.tables.get(&asked.table) else {
            return Err(Status::not_found(format!("no table {:?}", asked.table)));
        };
        let mut query = Query::new(asked.vector);
        if asked.k > 0 {
            query = query.top(asked.k as usize);
        }
        if let Some(time) = deadline {
            query = query.within(time);
        }
        let ticket = self.executor.submit(table, query);
        let ticket = ticket.map_err(|refused| status(&refused.reason.into()))?;
        // A client that hangs up drops this future, and with it the ticket: a query that has not started never will,
        // and one that runs is given up.
        let (hits, report) = ticket.with_report().await.map_err(|error| status(&error))?;
        let hits = hits.into_iter().map(|hit| Hit {
            id: hit.id,
            distance: hit.distance,
        });
        Ok(Response::new(SearchReply {
            hits: hits.collect(),
            wait_us: report.wait.as_micros() as u64,
            service_us: report.service.as_micros() as u64,
        }))
    }
}

/// The time that the client gives the call, as gRPC writes it: up to eight digits and a unit.
fn timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u32 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(3_600) * number,
        "M" => Duration::from_secs(60) * number,
        "S" => Duration::from_secs(1) * number,
        "m" => Duration::from_millis(1) * number,
        "u" => Duration::from_micros(1) * number,
        "n" => Duration::from_nanos(1) * number,
        _ => return None,
    })
}

/// What a client is told. Overload is `RESOURCE_EXHAUSTED`, so that it goes elsewhere or waits.
fn status(error: &Error) -> Status {
    let code = match error {
        Error::Refused(SubmitError::Overloaded { .. } | SubmitError::TableOverloaded { .. }) => {
            Code::ResourceExhausted
        }
        Error::Refused(SubmitError::OverLimit { .. }) => Code::InvalidArgument,
        Error::Refused(SubmitError::UnknownTable) => Code::NotFound,
        Error::Refused(SubmitError::ShuttingDown) | Error::ShutDown => Code::Unavailable,
        Error::Expired => Code::DeadlineExceeded,
        Error::Cancelled => Code::Cancelled,
        Error::Search(error) if error.is_callers() => Code::InvalidArgument,
        _ => Code::Internal,
    };
    Status::new(code, error.to_string())
}

/// A graph over `rows` made-up rows of `dim` components in `0.0..1.0`, to try the server with. Row 0 is all zeros.
///
/// # Errors
/// There are no rows, or no components.
pub fn made_up(
    rows: usize,
    dim: usize,
    seed: u32,
) -> Result<HnswTable, chiplet::index::BuildError> {
    let mut state = seed | 1;
    let mut next = move || {
        // Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8, 2003.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32
    };
    let values: Vec<f32> = (0..rows * dim)
        .map(|at| if at < dim { 0.0 } else { next() })
        .collect();
    HnswTable::build(&values, dim, &HnswConfig::new(Metric::L2))
}
