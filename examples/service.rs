//! What a vector-search service does with the library: limits, deadlines, overload, clients that hang up, bulk work,
//! cores for its runtime, metrics, and an orderly end.
//!
//! The network is left out: a request is a function call. `apps/server` is a whole server, `examples/grpc-server` a
//! small one.
//!
//! `cargo run --release --example service`; [docs/guide.md](../docs/guide.md) goes through its parts.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chiplet::index::{HnswConfig, HnswTable, Metric};
use chiplet::shutdown::{Shutdown, ShutdownReport};
use chiplet::snapshot::Snapshot;
use chiplet::topology::pin::pin_current_thread;
use chiplet::{
    Class, Context, Error, Executor, Query, QueryLimits, SubmitError, TableId, TableOptions,
};

const DIM: usize = 32;

/// After which pauses clients are told to come back, at least and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(5)];

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
    /// Try again after this pause: gRPC's `RetryInfo`, HTTP's `Retry-After`.
    ResourceExhausted(Duration),
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
    /// What the last scrape saw.
    scraped: Mutex<Snapshot>,
    slow: SlowLog,
}

/// Counts queries that waited long, and tells of the first few: a log of each would be what a busy service does most.
#[derive(Default)]
struct SlowLog(AtomicU64);

impl SlowLog {
    const LONG: Duration = Duration::from_millis(50);
    const TOLD: u64 = 3;

    /// What is to be logged of this query.
    fn note(&self, wait: Duration, ran: Duration) -> Option<String> {
        let told = wait > Self::LONG && self.0.fetch_add(1, Ordering::Relaxed) < Self::TOLD;
        told.then(|| format!("slow: waited {wait:?}, ran {ran:?}"))
    }
}

impl Service {
    fn start() -> Result<Self, Box<dyn std::error::Error>> {
        // One core for the runtime that talks to clients, if the machine has one to spare. See `runtime`.
        let cores = std::thread::available_parallelism()?.get();
        let executor = Executor::builder()
            .reserve_cores(usize::from(cores > 2))
            // One query may not ask for more than that, whoever sends it.
            .limits(QueryLimits::new().max_k(Some(1_000)).max_ef(Some(4_096)))
            // Beyond that a query waits longer than clients do: refuse it at once. In all domains it is
            // `Executor::queue_limit`.
            .queue_per_worker(256)
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
            scraped: Mutex::new(executor.snapshot()),
            executor,
            songs,
            chores,
            slow: SlowLog::default(),
        })
    }

    /// The runtime that talks to clients, on the cpus that no worker is tied to. Where there are none, as on a small
    /// machine or under `Pin::None`, its threads share the workers'.
    fn runtime(&self) -> std::io::Result<tokio::runtime::Runtime> {
        let free = self.executor.free_cpus();
        let settle = {
            let free = free.clone();
            move || {
                if !free.is_empty()
                    && let Err(error) = pin_current_thread(&free)
                {
                    eprintln!("a thread of the runtime floats: {error}");
                }
            }
        };
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(free.len().max(1))
            .on_thread_start(settle)
            .enable_all()
            .build()
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
        match ticket.with_report().await {
            Ok((hits, report)) => {
                if let Some(line) = self.slow.note(report.wait, report.service) {
                    println!("{line}");
                }
                Reply::Found(hits.into_iter().map(|hit| hit.id).collect())
            }
            Err(error) => Reply::failed(error),
        }
    }

    /// Work without a client who waits: it gives way to queries, runs on the same cores, and does not hold them while
    /// it reads from elsewhere.
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

    /// For a scraper. Everything comes from one snapshot, for which nobody is stopped.
    fn metrics(&self) -> String {
        let now = self.executor.snapshot();
        // Percentiles are of what came since the last scrape: a bad minute is over some time.
        let interval = {
            let mut scraped = self.scraped.lock().expect("nothing panics under this lock");
            let interval = now.since(&scraped);
            *scraped = now.clone();
            interval
        };
        let mut text = String::new();
        let ends = [
            ("done", now.total.done),
            ("expired", now.total.expired),
            ("cancelled", now.total.cancelled),
            ("shed", now.total.shed),
        ];
        for (end, count) in ends {
            let _ = writeln!(text, "queries_total{{end=\"{end}\"}} {count}");
        }
        for domain in now.domains {
            let id = domain.id.0;
            let _ = writeln!(text, "queued{{domain=\"{id}\"}} {}", domain.queued);
            let seconds = domain.busy.as_secs_f64();
            let _ = writeln!(text, "busy_seconds_total{{domain=\"{id}\"}} {seconds:.3}");
        }
        for table in interval.tables {
            // A label's value has `\\`, `"` and line breaks escaped, as Rust does it.
            let name = table.name.escape_debug();
            for (what, latencies) in [("wait", &table.wait), ("service", &table.service)] {
                let p99 = latencies.percentile(99.0).as_micros();
                let _ = writeln!(text, "{what}_p99_us{{table=\"{name}\"}} {p99}");
            }
        }
        text
    }

    /// Stops: what was accepted gets so long to be answered. The runtime's threads send the answers meanwhile.
    async fn stop(&self, patience: Duration) -> ShutdownReport {
        self.executor
            .shutdown_async(Shutdown::Drain(patience))
            .await
    }
}

impl Reply {
    fn refused(reason: SubmitError) -> Self {
        match reason {
            SubmitError::Overloaded { .. }
            | SubmitError::TableOverloaded { .. }
            | SubmitError::OutOfMemory => {
                // As long as what waits takes to be begun; bounded, as it is a guess.
                let wait = reason.expected_wait().unwrap_or(RETRY[1]);
                Self::ResourceExhausted(wait.clamp(RETRY[0], RETRY[1]))
            }
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Arc::new(Service::start()?);
    service.runtime()?.block_on(serve(Arc::clone(&service)))
}

async fn serve(service: Arc<Service>) -> Result<(), Box<dyn std::error::Error>> {
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
            Ok(Reply::ResourceExhausted(_)) => refused += 1,
            Ok(other) => println!("{other:?}"),
            Err(_) => gone += 1,
        }
    }
    println!("a burst: {found} answered, {refused} told to come back, {gone} hung up");
    let slow = service.slow.0.load(Ordering::Relaxed);
    println!(
        "{slow} of the answered waited for more than {:?}",
        SlowLog::LONG
    );
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
    let report = service.stop(2 * second).await;
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

#[cfg(test)]
#[path = "../tests/service/load.rs"]
mod load;
