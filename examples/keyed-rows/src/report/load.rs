//! Calls that wait for each other, and calls at fixed times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use chiplet_topology::pin;
use chiplet_workload::latency::{LatencyHandle, LatencyRecorder};
use chiplet_workload::load;
use chiplet_workload::traffic::{Arrivals, Group, Traffic};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::client::{Client, Found};
use crate::{cpu_ns, made_up};

/// Connections to each server.
const CONNECTIONS: usize = 4;

/// Behind this share of the time sent in, a rate is not kept up with.
const BEHIND: f64 = 0.02;

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) struct Load {
    keys: u64,
    batch: usize,
    lasting: Duration,
}

impl Load {
    /// Calls of `batch` of the first `keys` keys, drawn evenly.
    pub(super) fn new(keys: u64, batch: usize, seconds: f64) -> Self {
        Self {
            keys,
            batch,
            lasting: Duration::from_secs_f64(seconds),
        }
    }

    fn draw(&self, random: &mut SmallRng) -> Vec<u64> {
        let key = |_| random.random_range(0..self.keys);
        (0..self.batch).map(key).collect()
    }
}

/// What became of the calls.
pub(super) struct Outcome {
    calls: u64,
    /// Calls that no server answered.
    pub(super) refused: u64,
    keys: u64,
    seconds: f64,
    pub(super) latency: LatencyRecorder,
    /// How late calls were sent, 99 % in microseconds.
    pub(super) lag: f64,
    lasting: f64,
    /// Processor time of the servers and of the client, in nanoseconds.
    servers: u64,
    client: u64,
}

impl Outcome {
    pub(super) fn calls_a_second(&self) -> f64 {
        self.calls as f64 / self.seconds
    }

    /// Mean latency in microseconds.
    pub(super) fn mean(&self) -> f64 {
        self.latency.summary().mean
    }

    /// Microseconds of the servers for a key, and of the client and of what sends the calls.
    pub(super) fn processor_a_key(&self) -> [f64; 2] {
        [self.servers, self.client].map(|ns| ns as f64 / 1e3 / self.keys as f64)
    }

    /// Of one core, in the time measured.
    pub(super) fn server_share(&self) -> f64 {
        self.servers as f64 / 1e9 / self.seconds
    }

    /// Whether answers came as fast as calls were sent.
    pub(super) fn kept_up(&self) -> bool {
        self.refused == 0 && self.seconds <= self.lasting * (1.0 + BEHIND)
    }
}

/// A client in a runtime of its own.
pub(super) struct Side {
    runtime: Runtime,
    client: Client,
    cpus: Option<Vec<u32>>,
}

impl Side {
    /// Connects to `[shards][replicas]`. The client's threads run on `cpus`, if there are any.
    pub(super) fn connect(addresses: &[Vec<String>], cpus: Option<&[u32]>) -> anyhow::Result<Self> {
        let bound = Bound::to(cpus)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let client = runtime
            .block_on(Client::connect(addresses, CONNECTIONS))
            .context("a server does not answer")?;
        drop(bound);
        Ok(Self {
            runtime,
            client,
            cpus: cpus.map(<[u32]>::to_vec),
        })
    }

    /// As many calls as are answered, `under_way` at a time.
    pub(super) fn closed(&self, load: &Load, under_way: usize) -> anyhow::Result<Outcome> {
        let counts = Arc::new(Counts::default());
        let begun = Begun::now(self)?;
        let result = self.runtime.block_on(async {
            let mut asking = JoinSet::new();
            for number in 0..under_way {
                let (client, counts) = (self.client.clone(), Arc::clone(&counts));
                let load = *load;
                let mut random = SmallRng::seed_from_u64(number as u64);
                asking.spawn(async move {
                    while begun.at.elapsed() < load.lasting {
                        let keys = load.draw(&mut random);
                        counts.ask(&client, keys, Instant::now()).await?;
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(ended) = asking.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        });
        result?;
        begun.end(self, load, &counts, 0.0)
    }

    /// `rate` calls a second at random times, whatever becomes of those before.
    pub(super) fn open(&self, load: &Load, rate: f64) -> anyhow::Result<Outcome> {
        let traffic = Traffic::new(1, Arrivals::Poisson { rate }).group(Group::new(0..1, 1));
        let counts = Arc::new(Counts::default());
        let mut random = SmallRng::seed_from_u64(1);
        let mut under_way = JoinSet::new();
        let mut failed = None;
        let bound = Bound::to(self.cpus.as_deref())?;
        let begun = Begun::now(self)?;
        let report = load::run(
            traffic.stream()?,
            &load::Load::lasting(load.lasting),
            |due| {
                let (client, counts) = (self.client.clone(), Arc::clone(&counts));
                let keys = load.draw(&mut random);
                under_way.spawn_on(
                    async move { counts.ask(&client, keys, due.intended).await },
                    self.runtime.handle(),
                );
                while let Some(ended) = under_way.try_join_next() {
                    failed = failed.take().or(ended.map_err(Into::into).flatten().err());
                }
            },
        );
        self.runtime.block_on(async {
            while let Some(ended) = under_way.join_next().await {
                failed = failed.take().or(ended.map_err(Into::into).flatten().err());
            }
        });
        drop(bound);
        match failed {
            Some(error) => Err(error),
            None => begun.end(self, load, &counts, report.lag.p99),
        }
    }

    fn servers_ns(&self) -> anyhow::Result<u64> {
        let all = self.runtime.block_on(self.client.status())?;
        Ok(all.iter().map(|status| status.cpu_ns).sum())
    }
}

/// The thread's cpus as they were, to go back to.
struct Bound(Option<Vec<u32>>);

impl Bound {
    fn to(cpus: Option<&[u32]>) -> anyhow::Result<Self> {
        let Some(cpus) = cpus else {
            return Ok(Self(None));
        };
        let before = pin::current_affinity();
        pin::pin_current_thread(cpus)?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // They were granted before.
            let _ = pin::pin_current_thread(before);
        }
    }
}

#[derive(Clone, Copy)]
struct Begun {
    at: Instant,
    servers: u64,
    client: u64,
}

impl Begun {
    fn now(side: &Side) -> anyhow::Result<Self> {
        Ok(Self {
            servers: side.servers_ns()?,
            client: cpu_ns(),
            at: Instant::now(),
        })
    }

    fn end(self, side: &Side, load: &Load, counts: &Counts, lag: f64) -> anyhow::Result<Outcome> {
        let seconds = self.at.elapsed().as_secs_f64();
        let client = cpu_ns() - self.client;
        let calls = counts.calls.load(Ordering::Relaxed);
        if calls == 0 {
            bail!("no call was answered in {seconds:.1} s");
        }
        let latency = LatencyRecorder::new();
        latency.merge(&counts.latency);
        Ok(Outcome {
            calls,
            refused: counts.refused.load(Ordering::Relaxed),
            keys: calls * load.batch as u64,
            seconds,
            latency,
            lag,
            lasting: load.lasting.as_secs_f64(),
            servers: side.servers_ns()? - self.servers,
            client,
        })
    }
}

struct Counts {
    calls: AtomicU64,
    refused: AtomicU64,
    latency: LatencyRecorder,
    handle: LatencyHandle,
}

impl Default for Counts {
    fn default() -> Self {
        let latency = LatencyRecorder::new();
        Self {
            calls: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            handle: latency.handle(),
            latency,
        }
    }
}

impl Counts {
    /// Asks, and counts the answer from `since` on. The first value is compared, so that nothing is fast because it is
    /// wrong.
    async fn ask(&self, client: &Client, keys: Vec<u64>, since: Instant) -> anyhow::Result<()> {
        let first = keys[0];
        let Ok(Found { values, found }) = client.get(keys).await else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        self.handle.record(since.elapsed());
        self.calls.fetch_add(1, Ordering::Relaxed);
        if !found.iter().all(|&found| found == 1)
            || values[..made_up::VALUE] != made_up::value(first)
        {
            bail!("a server answered wrongly");
        }
        Ok(())
    }
}
