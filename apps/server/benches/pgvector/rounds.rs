//! How widely a peer has to search, and one measurement of it.

use std::time::{Duration, Instant};

use anyhow::bail;
use chiplet_bench::workload::dataset::GloveSample;
use chiplet_bench::workload::latency::LatencyRecorder;
use tokio::task::JoinSet;

use super::peers::{Peer, RESULTS};

/// The widest that pgvector searches.
const WIDEST: usize = 1_000;

/// What a measurement came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement {
    pub(crate) queries_per_second: f64,
    /// In microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The server's processor time for a query, in microseconds.
    pub(crate) cpu: f64,
}

/// Finds the narrowest search that finds `least` of the true neighbours, and leaves the peer set to it. Returns what
/// part that search finds.
pub(crate) async fn tune(peer: &mut Peer, words: &GloveSample, least: f64) -> anyhow::Result<f64> {
    let (mut low, mut high) = (RESULTS, WIDEST);
    while low < high {
        let middle = low.midpoint(high);
        peer.set_ef(middle);
        match recall(peer, words).await? >= least {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    peer.set_ef(low);
    let found = recall(peer, words).await?;
    if found < least {
        bail!("{} finds {found:.4} at best", peer.name());
    }
    Ok(found)
}

async fn recall(peer: &Peer, words: &GloveSample) -> anyhow::Result<f64> {
    let mut client = peer.connect(words).await?;
    let mut hits = 0;
    for query in 0..words.queries.len() {
        let truth = words.cosine.row(query);
        let found = client.ids(query).await?;
        hits += found.iter().filter(|id| truth.contains(id)).count();
    }
    Ok(hits as f64 / (words.queries.len() * RESULTS) as f64)
}

/// Has each of so many clients ask its next query when the last one is answered.
pub(crate) async fn run(
    peer: &Peer,
    words: &GloveSample,
    clients: usize,
    lasting: Duration,
) -> anyhow::Result<Measurement> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        let mut connection = peer.connect(words).await?;
        // PostgreSQL plans a statement anew for the first few times.
        for query in 0..20 {
            connection.ask(query).await?;
        }
        connections.push(connection);
    }
    let recorder = LatencyRecorder::new();
    let queries = words.queries.len();
    let mut asking = JoinSet::new();
    let (before, began) = (peer.cpu_time()?, Instant::now());
    for (number, mut connection) in connections.into_iter().enumerate() {
        let latency = recorder.handle();
        asking.spawn(async move {
            let mut query = number * queries / clients;
            while began.elapsed() < lasting {
                let asked = Instant::now();
                connection.ask(query % queries).await?;
                latency.record(asked.elapsed());
                query += 1;
            }
            anyhow::Ok(connection)
        });
    }
    // Connections stay open until the processor time is read: of processes that have ended there is less to see.
    let mut open = Vec::new();
    while let Some(ended) = asking.join_next().await {
        open.push(ended??);
    }
    let (seconds, used) = (began.elapsed().as_secs_f64(), peer.cpu_time()? - before);
    drop(open);
    let summary = recorder.summary();
    Ok(Measurement {
        queries_per_second: summary.count as f64 / seconds,
        p50: summary.p50,
        p99: summary.p99,
        cpu: used.as_secs_f64() * 1e6 / summary.count as f64,
    })
}
