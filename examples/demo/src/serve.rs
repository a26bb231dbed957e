//! Sending: the comparison with direct searches, the measurement of saturation, the open-loop phases.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chiplet::table::merge_nearest;
use chiplet::{Context, Error, Executor, Neighbor, TableId, Ticket};
use chiplet_workload::latency::{LatencyRecorder, LatencySummary};
use chiplet_workload::load::{self, Load, LoadReport};
use chiplet_workload::traffic::{Arrivals, Group, Traffic};

use crate::tables::{BuiltTable, HNSW_TABLES, K, Kind, Words};

/// Direct searches compared with the executor's, for each table.
const COMPARED: usize = 100;

/// How many answers equalled those of the table's own search, called directly with the same settings.
pub struct Equal {
    pub equal: usize,
    pub compared: usize,
}

pub fn compare_with_direct(
    executor: &Executor,
    tables: &[TableId],
    built: &[BuiltTable],
) -> anyhow::Result<Equal> {
    let mut outcome = Equal {
        equal: 0,
        compared: 0,
    };
    for (&id, table) in tables.iter().zip(built) {
        let queries: Vec<_> = table.queries.rows().take(COMPARED).collect();
        let tickets: Vec<_> = queries
            .iter()
            .map(|row| executor.search(id, table.query(row)))
            .collect();
        for (row, ticket) in queries.into_iter().zip(tickets) {
            let direct = table
                .index
                .search(&table.query(row), &mut Context::default())?;
            outcome.compared += 1;
            outcome.equal += usize::from(ticket.wait()? == direct);
        }
    }
    Ok(outcome)
}

/// The demo's traffic: nine tenths to the HNSW tables, Zipf over tables and over words.
fn traffic(seed: u64, rate: f64, built: &[BuiltTable]) -> Traffic {
    let queries = built[0].queries.len();
    let hnsw = Group::new(0..HNSW_TABLES, queries)
        .share(9.0)
        .table_skew(1.1)
        .query_skew(0.8);
    let ivf = Group::new(HNSW_TABLES..built.len(), queries)
        .share(1.0)
        .table_skew(1.0)
        .query_skew(0.8);
    Traffic::new(seed, Arrivals::Poisson { rate })
        .group(hnsw)
        .group(ivf)
}

/// Queries per second with enough of them outstanding to keep every worker busy.
pub fn saturate(
    executor: &Executor,
    tables: &[TableId],
    built: &[BuiltTable],
    time: Duration,
) -> anyhow::Result<f64> {
    let outstanding = 16 * executor.workers().len();
    let mut flying: VecDeque<Ticket<Vec<Neighbor>>> = VecDeque::with_capacity(outstanding);
    let mut answered = 0_u64;
    let began = Instant::now();
    for arrival in traffic(3, 1.0, built).stream()? {
        if began.elapsed() >= time {
            break;
        }
        let table = &built[arrival.table];
        let query = table.query(table.queries.row(arrival.query));
        flying.push_back(executor.search(tables[arrival.table], query));
        if flying.len() >= outstanding
            && let Some(ticket) = flying.pop_front()
        {
            match ticket.wait() {
                Ok(_) => answered += 1,
                Err(Error::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let rate = answered as f64 / began.elapsed().as_secs_f64();
    for ticket in flying {
        drop(ticket.wait());
    }
    Ok(rate)
}

/// What the phases share.
pub struct Plan<'a> {
    pub executor: &'a Arc<Executor>,
    pub tables: &'a [TableId],
    pub built: &'a [BuiltTable],
    pub runtime: &'a tokio::runtime::Runtime,
    pub stop: &'a AtomicBool,
    pub rate: f64,
    pub length: Duration,
}

/// Stretches of a phase whose latencies are told apart.
const PARTS: u32 = 15;

/// What a phase gave.
pub struct Phase {
    pub name: &'static str,
    pub latency: LatencySummary,
    /// Latencies of queries due in each stretch of the phase, and when it begins.
    pub parts: Vec<(Instant, LatencyRecorder)>,
    pub load: LoadReport,
    pub answered: u64,
    pub refused: u64,
    /// Sum of recalls and answers, by kind: HNSW, IVF.
    pub recall: [(f64, u64); 2],
}

#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    refused: AtomicU64,
    recall: Mutex<[(f64, u64); 2]>,
}

impl Plan<'_> {
    /// Sends for one phase; the table of popularity rank `r` within its kind is `order[r]`.
    pub fn run(&self, name: &'static str, seed: u64, order: &[usize]) -> anyhow::Result<Phase> {
        let tally = Arc::new(Tally::default());
        let built = self.built;
        let truths: Arc<Vec<_>> = Arc::new(built.iter().map(|table| table.truth.clone()).collect());
        println!("{name}: {} s", self.length.as_secs());
        let stream = traffic(seed, self.rate, built).stream()?;
        let began = Instant::now();
        let part = self.length / PARTS;
        let parts: Vec<_> = (0..PARTS)
            .map(|number| (began + part * number, LatencyRecorder::new()))
            .collect();
        let handles: Arc<Vec<_>> = Arc::new(parts.iter().map(|(_, part)| part.handle()).collect());
        let load = load::run(
            stream,
            &Load::lasting(self.length).stop_on(self.stop),
            |due| {
                let index = order[due.arrival.table];
                let query = due.arrival.query;
                let table = &built[index];
                let vector = table.queries.row(query);
                let ticket = self
                    .executor
                    .search(self.tables[index], table.query(vector));
                let number = due.intended.duration_since(began).as_nanos() / part.as_nanos();
                let number = (number as usize).min(handles.len() - 1);
                let (handles, tally) = (Arc::clone(&handles), Arc::clone(&tally));
                let (truths, kind) = (Arc::clone(&truths), table.kind);
                self.runtime.spawn(async move {
                    let answer = ticket.await;
                    let latency = due.intended.elapsed();
                    match answer {
                        Ok(hits) => {
                            handles[number].record(latency);
                            tally.answered.fetch_add(1, Ordering::Relaxed);
                            let found = hits.iter().map(|hit| hit.id as u32);
                            let recall = truths[index].recall(query, found);
                            let mut sums =
                                tally.recall.lock().expect("nothing panics under this lock");
                            let (sum, count) = &mut sums[usize::from(kind == Kind::Ivf)];
                            *sum += recall;
                            *count += 1;
                        }
                        Err(_) => {
                            tally.refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            },
        );
        // What is still on its way ends by itself: the queues are bounded.
        while tally.answered.load(Ordering::Relaxed) + tally.refused.load(Ordering::Relaxed)
            < load.sent
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let all = LatencyRecorder::new();
        for (_, part) in &parts {
            all.merge(part);
        }
        let recall = *tally.recall.lock().expect("nothing panics under this lock");
        Ok(Phase {
            name,
            latency: all.summary(),
            parts,
            load,
            answered: tally.answered.load(Ordering::Relaxed),
            refused: tally.refused.load(Ordering::Relaxed),
            recall,
        })
    }
}

/// An order of popularity in which the hottest tables of each kind are those that now share a domain.
pub fn hot_on_one_domain(
    executor: &Executor,
    tables: &[TableId],
    built: &[BuiltTable],
) -> Vec<usize> {
    let placement = executor.placement();
    let home = |index: &usize| {
        placement
            .homes(tables[*index])
            .map(|homes| homes.main().domain)
    };
    let tenants = |domain| {
        (0..built.len())
            .filter(|table| home(table) == domain)
            .count()
    };
    let crowded = (0..built.len())
        .map(|table| home(&table))
        .max_by_key(|&domain| tenants(domain));
    let mut order: Vec<usize> = (0..built.len()).collect();
    order.sort_by_key(|table| {
        (
            built[*table].kind == Kind::Ivf,
            home(table) != crowded.flatten(),
        )
    });
    order
}

/// Asks both halves of the vocabulary for the neighbours of some words, and prints them.
pub fn answer_words(
    executor: &Executor,
    tables: &[TableId],
    built: &[BuiltTable],
    words: &Words,
    asked: &[&str],
) -> anyhow::Result<()> {
    println!("\nneighbours (both IVF tables asked, answers merged):");
    for &word in asked {
        let Some(row) = words.vectors.find(word) else {
            continue;
        };
        let vector = words.vectors.row(row);
        let halves: Vec<_> = built
            .iter()
            .zip(tables)
            .filter(|(table, _)| table.kind == Kind::Ivf)
            .map(|(table, &id)| (table, executor.search(id, table.query(vector))))
            .collect();
        let mut parts = Vec::new();
        for (table, ticket) in halves {
            let hits = ticket.wait()?.into_iter();
            parts.push(
                hits.map(|hit| Neighbor {
                    id: table.word(hit.id) as u64,
                    ..hit
                })
                .collect::<Vec<_>>(),
            );
        }
        let near: Vec<&str> = merge_nearest(K, parts)
            .into_iter()
            .filter(|hit| hit.id as usize != row)
            .take(6)
            .filter_map(|hit| words.vectors.label(hit.id as usize))
            .collect();
        println!("  {word:10} {}", near.join(", "));
    }
    Ok(())
}
