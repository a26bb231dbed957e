//! What a vector-search service does with the library: limits, deadlines, overload, clients that hang up, bulk work, cores
//! for its runtime, metrics, and an orderly end.
//!
//! The network is left out: a request is a function call. `crates/server` is a whole server, `examples/grpc-server` a small one.
//!
//! `cargo run --release --example service`

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chiplet::index::{HnswConfig, HnswTable, Metric};
use chiplet::{
    Class, Context, Error, Executor, Latencies, Query, QueryLimits, Shutdown, ShutdownReport,
    Snapshot, SubmitError, TableId, TableOptions,
};

const DIM: usize = 32;

/// What a client asks for.
struct Request {
    vector: Vec<f32>,
    top: usize,
    /// The client waits until then.
    deadline: Instant,
}

/// What a client is told. The names are those of gRPC's status codes.
#[derive(Debug, PartialEq)]
enum Reply {
    Found(Vec<u64>),
    /// The request itself is wrong.
    InvalidArgument(String),
    /// Try again after a pause.
    ResourceExhausted,
    DeadlineExceeded,
    /// The server stops.
    Unavailable,
    Internal(String),
}

struct Service {
    executor: Executor,
    songs: TableId,
    /// What is done for nobody who waits.
    chores: TableId,
    /// Waits and service times at the last scrape.
    scraped: Mutex<HashMap<TableId, [Latencies; 2]>>,
}

impl Service {
    fn start() -> Result<Self, Box<dyn std::error::Error>> {
        // One core for the runtime that talks to clients, if the machine has one to spare.
        let cores = std::thread::available_parallelism()?.get();
        let executor = Executor::builder()
            .reserve_cores(usize::from(cores > 2))
            // One query may not ask for more than that, whoever sends it.
            .limits(QueryLimits::new().max_k(Some(1_000)).max_ef(Some(4_096)))
            // Beyond that a query waits longer than clients do: refuse it at once.
            .queue_limit(512)
            .on_remap(|event| println!("placement {}: {}", event.version, event.reason))
            .build()?;
        let rows: Vec<f32> = (0..20_000 * DIM)
            .map(|i| ((i * 7_919) % 1_009) as f32 / 1_009.0)
            .collect();
        let songs = HnswTable::build(&rows, DIM, &HnswConfig::new(Metric::Cosine).threads(cores))?;
        let songs = executor.add_table("songs", songs);
        let bulk = TableOptions::new().class(Class::Bulk);
        let chores = executor.add_closure_table("chores", 0);
        executor.set_table_options(chores, bulk)?;
        Ok(Self {
            executor,
            songs,
            chores,
            scraped: Mutex::default(),
        })
    }

    /// Answers one request. If the client hangs up, its server drops this future, and with it the ticket: the query is
    /// cancelled if it has not started, and stops at its next look if it has.
    async fn search(&self, request: Request) -> Reply {
        let query = Query::new(request.vector)
            .top(request.top)
            .ef(64)
            .deadline(request.deadline);
        // Refused queries come back at once, so the service can say so while it still can.
        let ticket = match self.executor.submit(self.songs, query) {
            Ok(ticket) => ticket,
            Err(refused) => return Reply::refused(refused.reason),
        };
        // `reported` tells how it was served: for slow-query logs and traces.
        match ticket.reported().await {
            Ok((hits, report)) => {
                if report.wait > Duration::from_millis(50) {
                    println!("slow: waited {:?}, ran {:?}", report.wait, report.service);
                }
                Reply::Found(hits.into_iter().map(|hit| hit.id).collect())
            }
            Err(error) => Reply::failed(error),
        }
    }

    /// Work without a client who waits: it gives way to queries, runs on the same cores, and does not hold them while it
    /// reads from elsewhere.
    async fn export(&self) -> Result<usize, Error> {
        let work = |context: &mut Context| {
            let settings = context.block_in_place(|| std::fs::read_to_string("Cargo.toml"));
            let lines = settings.map_or(0, |text| text.lines().count());
            // Four parts, for idle cores of the same CCD.
            context.par_map(4, move |part, _| part * lines).len()
        };
        let ticket = self.executor.submit_fn(self.chores, None, work);
        ticket.map_err(|refused| refused.reason)?.await
    }

    /// For a scraper. Everything comes from one snapshot, which stops nobody.
    fn metrics(&self) -> String {
        let Snapshot {
            total,
            domains,
            tables,
            ..
        } = self.executor.snapshot();
        let mut text = String::new();
        let ends = [
            ("done", total.done),
            ("expired", total.expired),
            ("cancelled", total.cancelled),
            ("shed", total.shed),
        ];
        for (end, count) in ends {
            let _ = writeln!(text, "queries_total{{end=\"{end}\"}} {count}");
        }
        for domain in domains {
            let id = domain.id.0;
            let _ = writeln!(text, "queued{{domain=\"{id}\"}} {}", domain.queued);
            let seconds = domain.busy.as_secs_f64();
            let _ = writeln!(text, "busy_seconds_total{{domain=\"{id}\"}} {seconds:.3}");
        }
        // Of what came since the last scrape: a bad minute is over some time.
        let mut scraped = self.scraped.lock().expect("nothing panics under this lock");
        for table in tables {
            let now = [table.wait, table.service];
            let [wait, service] = match scraped.get(&table.id) {
                Some([wait, service]) => [now[0].since(wait), now[1].since(service)],
                None => now.clone(),
            }
            .map(|of| of.percentile(99.0));
            scraped.insert(table.id, now);
            // A label's value has `\\`, `"` and line breaks escaped, as Rust does it.
            let name = table.name.escape_debug();
            let _ = writeln!(text, "wait_p99_us{{table=\"{name}\"}} {}", wait.as_micros());
            let _ = writeln!(
                text,
                "service_p99_us{{table=\"{name}\"}} {}",
                service.as_micros()
            );
        }
        text
    }

    /// Stops: what was accepted gets so long to be answered. This waits, and answers are sent by the runtime's threads
    /// meanwhile, so it does not run on one of them.
    async fn stop(
        self: Arc<Self>,
        patience: Duration,
    ) -> Result<ShutdownReport, tokio::task::JoinError> {
        tokio::task::spawn_blocking(move || self.executor.shutdown(Shutdown::Drain(patience))).await
    }
}

impl Reply {
    fn refused(reason: SubmitError) -> Self {
        match reason {
            SubmitError::Overloaded { .. }
            | SubmitError::TableOverloaded { .. }
            | SubmitError::OutOfMemory => Self::ResourceExhausted,
            SubmitError::OverLimit { .. } => Self::InvalidArgument(reason.to_string()),
            SubmitError::ShuttingDown => Self::Unavailable,
            other => Self::Internal(other.to_string()),
        }
    }

    fn failed(error: Error) -> Self {
        match error {
            Error::Expired => Self::DeadlineExceeded,
            Error::Refused(reason) => Self::refused(reason),
            Error::ShutDown => Self::Unavailable,
            Error::Search(problem) if problem.is_callers() => {
                Self::InvalidArgument(problem.to_string())
            }
            other => Self::Internal(other.to_string()),
        }
    }
}

fn request(top: usize, patience: Duration) -> Request {
    Request {
        vector: vec![0.5; DIM],
        top,
        deadline: Instant::now() + patience,
    }
}

// As many threads as there are cores left for clients.
#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Arc::new(Service::start()?);
    let second = Duration::from_secs(1);

    let reply = service.search(request(3, second)).await;
    println!("a query: {reply:?}");
    let reply = service.search(request(5_000, second)).await;
    println!("one that asks for too much: {reply:?}");
    let reply = service.search(request(3, Duration::ZERO)).await;
    println!("one whose client has given up already: {reply:?}");

    println!("exported: {}", service.export().await?);

    // More at once than the queue holds, and every fourth client hangs up: the server drops its future then.
    let burst = (0..4_000).map(|n| {
        let service = Arc::clone(&service);
        let stays = if n % 4 == 0 { Duration::ZERO } else { second };
        let answer = async move { service.search(request(3, second)).await };
        tokio::spawn(tokio::time::timeout(stays, answer))
    });
    let (mut found, mut refused, mut gone) = (0, 0, 0);
    for reply in burst.collect::<Vec<_>>() {
        match reply.await? {
            Ok(Reply::Found(_)) => found += 1,
            Ok(Reply::ResourceExhausted) => refused += 1,
            Ok(other) => println!("{other:?}"),
            Err(_) => gone += 1,
        }
    }
    println!("a burst: {found} answered, {refused} told to come back, {gone} hung up");
    print!("{}", service.metrics());

    // What was accepted is answered, though the service stops meanwhile.
    let mut accepted = Vec::new();
    while let Ok(ticket) = service
        .executor
        .submit(service.songs, Query::new(vec![0.5; DIM]).top(3))
    {
        accepted.push(tokio::spawn(ticket));
        if accepted.len() == 100 {
            break;
        }
    }
    let report = Arc::clone(&service).stop(2 * second).await?;
    let mut answered = 0;
    for ticket in &mut accepted {
        answered += usize::from(ticket.await?.is_ok());
    }
    println!(
        "stopped: of {} accepted requests {answered} answered, {} abandoned",
        accepted.len(),
        report.abandoned
    );
    let late = service.search(request(3, second)).await;
    println!("one that comes later: {late:?}");
    Ok(())
}
