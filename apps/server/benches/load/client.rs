//! A client that sends at fixed times and never waits for one answer before the next query.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use chiplet_bench::workload::dataset::VectorSet;
use chiplet_bench::workload::latency::{LatencyHandle, LatencyRecorder, LatencySummary};
use chiplet_bench::workload::load::{self, Load};
use chiplet_bench::workload::traffic::{Arrivals, Group, Traffic};
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::{Condition, CountPoints, Filter, Query, QueryPoints, SearchParams};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use super::common::process::Process;
use super::common::words;

/// Connections to the server, taken in turn.
const CHANNELS: usize = 8;

/// An answer that takes longer is worth nothing; the server is told so.
pub(crate) const PATIENCE: Duration = Duration::from_millis(250);

/// Points of one upsert.
const BATCH: usize = 2_000;

pub(crate) struct Client {
    runtime: Runtime,
    points: Vec<PointsClient<Channel>>,
    channel: Channel,
}

/// What became of a run's queries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    /// Answered within [`PATIENCE`].
    pub(crate) good: u64,
    pub(crate) shed: u64,
    /// Not answered in time.
    pub(crate) late: u64,
    pub(crate) seconds: f64,
    /// Of good answers, from the intended time, in microseconds.
    pub(crate) latency: LatencySummary,
    /// How far behind its times the client sent, in microseconds.
    pub(crate) lag_p99: f64,
}

impl Outcome {
    pub(crate) fn goodput(&self) -> f64 {
        self.good as f64 / self.seconds
    }
}

/// Counts of one run.
struct Counts {
    good: AtomicU64,
    shed: AtomicU64,
    late: AtomicU64,
    failed: AtomicU64,
    recorder: LatencyRecorder,
    latency: LatencyHandle,
}

impl Default for Counts {
    fn default() -> Self {
        let recorder = LatencyRecorder::new();
        Self {
            good: AtomicU64::new(0),
            shed: AtomicU64::new(0),
            late: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            latency: recorder.handle(),
            recorder,
        }
    }
}

/// What a client asks for.
#[derive(Clone)]
enum Asked {
    Search(Box<QueryPoints>),
    Count(Box<CountPoints>),
}

impl Asked {
    async fn ask(self, client: &mut PointsClient<Channel>) -> Result<(), tonic::Status> {
        fn patient<T>(message: T) -> Request<T> {
            let mut request = Request::new(message);
            request.set_timeout(PATIENCE);
            request
        }
        match self {
            Self::Search(message) => client.query(patient(*message)).await.map(|_| ()),
            Self::Count(message) => client.count(patient(*message)).await.map(|_| ()),
        }
    }
}

/// Queries to a few collections.
#[derive(Clone)]
pub(crate) struct Stream<'a> {
    pub(crate) collections: &'a [String],
    pub(crate) rate: f64,
    pub(crate) ef: u64,
    /// Filtered counts instead of searches.
    pub(crate) count: bool,
    pub(crate) seed: u64,
}

impl Client {
    pub(crate) fn connect(process: &Process) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let endpoint = Endpoint::from_shared(format!("http://{}", process.grpc))?;
        let channels = runtime.block_on(async {
            let mut channels = Vec::new();
            for _ in 0..CHANNELS {
                channels.push(endpoint.connect().await?);
            }
            anyhow::Ok(channels)
        })?;
        let channel = channels[0].clone();
        let points = channels.into_iter().map(PointsClient::new).collect();
        Ok(Self {
            runtime,
            points,
            channel,
        })
    }

    pub(crate) fn connections(&self) -> usize {
        self.points.len()
    }

    /// Makes a collection of some of the words; returns when it is stored.
    pub(crate) fn fill(&self, name: &str, words: &VectorSet, rows: usize) -> anyhow::Result<()> {
        let fill = words::fill(&self.channel, name, words, rows, BATCH);
        self.runtime.block_on(fill)
    }

    /// Waits until a collection has an index.
    pub(crate) fn wait_for_index(&self, name: &str) -> anyhow::Result<()> {
        self.runtime
            .block_on(words::wait_for_index(&self.channel, name, 1))
    }

    fn query(stream: &Stream<'_>, words: &VectorSet, table: usize, query: usize) -> Asked {
        let collection_name = stream.collections[table].clone();
        if stream.count {
            // A text that few words are: nearly all points are counted, each for what is in its payload.
            let word = format!("word-{query}");
            return Asked::Count(Box::new(CountPoints {
                collection_name,
                filter: Some(Filter::must_not([Condition::matches("word", word)])),
                ..CountPoints::default()
            }));
        }
        Asked::Search(Box::new(QueryPoints {
            collection_name,
            query: Some(Query::new_nearest(words.row(query % words.len()).to_vec())),
            limit: Some(10),
            params: Some(SearchParams {
                hnsw_ef: Some(stream.ef),
                ..SearchParams::default()
            }),
            ..QueryPoints::default()
        }))
    }

    /// Sends several streams side by side, each at its rate, and waits for what is still under way.
    pub(crate) fn open_loop(
        &self,
        words: &VectorSet,
        streams: &[Stream<'_>],
        lasting: Duration,
    ) -> anyhow::Result<Vec<Outcome>> {
        std::thread::scope(|scope| {
            let running: Vec<_> = streams
                .iter()
                .map(|stream| scope.spawn(|| self.send(words, stream, lasting)))
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("a sender does not panic"))
                .collect()
        })
    }

    fn send(
        &self,
        words: &VectorSet,
        stream: &Stream<'_>,
        lasting: Duration,
    ) -> anyhow::Result<Outcome> {
        let traffic = Traffic::new(stream.seed, Arrivals::Poisson { rate: stream.rate })
            .group(Group::new(0..stream.collections.len(), 2_000));
        let counts = Arc::new(Counts::default());
        let mut under_way = tokio::task::JoinSet::new();
        let mut turn = 0;
        let report = load::run(traffic.stream()?, &Load::lasting(lasting), |due| {
            turn += 1;
            let mut client = self.points[turn % CHANNELS].clone();
            let request = Self::query(stream, words, due.arrival.table, due.arrival.query);
            let counts = Arc::clone(&counts);
            let ask = async move {
                let answer = request.ask(&mut client).await;
                counts.record(answer, due.intended);
            };
            under_way.spawn_on(ask, self.runtime.handle());
            while under_way.try_join_next().is_some() {}
        });
        self.runtime
            .block_on(async { while under_way.join_next().await.is_some() {} });
        counts.outcome(report.sent, report.elapsed, report.lag.p99)
    }

    /// Sends the next query when one is answered, `clients` at a time: what the server can do.
    pub(crate) fn closed_loop(
        &self,
        words: &VectorSet,
        stream: &Stream<'_>,
        clients: usize,
        lasting: Duration,
    ) -> anyhow::Result<Outcome> {
        let counts = Arc::new(Counts::default());
        let sent = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        self.runtime.block_on(async {
            let mut asking = tokio::task::JoinSet::new();
            for number in 0..clients {
                let (counts, sent) = (Arc::clone(&counts), Arc::clone(&sent));
                let mut client = self.points[number % CHANNELS].clone();
                let requests: Vec<_> = (0..64)
                    .map(|query| {
                        let query = number * 64 + query;
                        Self::query(stream, words, query % stream.collections.len(), query * 7)
                    })
                    .collect();
                asking.spawn(async move {
                    for request in requests.iter().cycle() {
                        if begun.elapsed() >= lasting {
                            return;
                        }
                        let again = request.clone();
                        sent.fetch_add(1, Ordering::Relaxed);
                        let asked = Instant::now();
                        let answer = again.ask(&mut client).await;
                        counts.record(answer, asked);
                    }
                });
            }
            while asking.join_next().await.is_some() {}
        });
        counts.outcome(sent.load(Ordering::Relaxed), begun.elapsed(), 0.0)
    }
}

impl Counts {
    fn record(&self, answer: Result<(), tonic::Status>, since: Instant) {
        let took = since.elapsed();
        let count = match answer {
            Ok(()) if took <= PATIENCE => {
                self.latency.record(took);
                &self.good
            }
            Ok(()) => &self.late,
            Err(status) => match status.code() {
                Code::ResourceExhausted => &self.shed,
                Code::DeadlineExceeded | Code::Cancelled => &self.late,
                _ => {
                    if self.failed.load(Ordering::Relaxed) == 0 {
                        eprintln!("a query failed: {status}");
                    }
                    &self.failed
                }
            },
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn outcome(&self, sent: u64, elapsed: Duration, lag_p99: f64) -> anyhow::Result<Outcome> {
        let failed = self.failed.load(Ordering::Relaxed);
        if failed > 0 {
            bail!("{failed} of {sent} queries failed");
        }
        Ok(Outcome {
            sent,
            good: self.good.load(Ordering::Relaxed),
            shed: self.shed.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            seconds: elapsed.as_secs_f64(),
            latency: self.recorder.summary(),
            lag_p99,
        })
    }
}
