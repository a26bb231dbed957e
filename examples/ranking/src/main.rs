//! Songs for listeners: a request's three stages in one task of the executor, at the table's home.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use chiplet_executor::Executor;
use chiplet_index::{HnswConfig, HnswTable, KeyedRows, Metric};
use chiplet_ranking::{Network, Ranking, inputs};
use chiplet_table::{Context, Query, Table as _};
use clap::Parser;
use rand::rngs::ChaCha8Rng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

/// Rank songs for listeners: candidates of a graph, their features by key, a network of three layers, in one task.
///
/// Songs and the network are made up: the example shows what the stages cost, not what listeners like.
#[derive(Parser)]
struct Arguments {
    /// Songs in the table
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1_000..=2_000_000))]
    songs: u32,

    /// Requests that are ranked
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,

    /// Candidates of a request
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=5_000))]
    candidates: u32,
}

const DIM: usize = 64;
/// 32 features of a song.
const FEATURE_BYTES: usize = 32 * size_of::<f32>();

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let songs = arguments.songs as usize;
    let candidates = arguments.candidates as usize;
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut floats = |count: usize| -> Vec<f32> { (0..count).map(|_| random.random()).collect() };
    let vectors = floats(songs * DIM);
    let listeners = floats(100 * DIM);
    let mut bytes = vec![0; songs * FEATURE_BYTES];
    ChaCha8Rng::seed_from_u64(2).fill_bytes(&mut bytes);
    // Random bytes as f32 are anything, NaN too: numbers from 0 to 1 instead.
    for value in bytes.as_chunks_mut::<4>().0 {
        let number = u32::from_le_bytes(*value) as f32 / u32::MAX as f32;
        *value = number.to_le_bytes();
    }
    let ids: Vec<u64> = (0..songs as u64).collect();
    let features = KeyedRows::build(&ids, FEATURE_BYTES, |i| {
        &bytes[i * FEATURE_BYTES..][..FEATURE_BYTES]
    })?;
    let graph = HnswTable::build(&vectors, DIM, &HnswConfig::new(Metric::Cosine))?;
    let network = Network::random(inputs(DIM, FEATURE_BYTES), 3);

    let listener = |request: usize| {
        let row = request % (listeners.len() / DIM);
        Query::new(&listeners[row * DIM..][..DIM]).top(10)
    };
    let searched = mean(arguments.requests, |request| {
        let query = listener(request).top(candidates).ef(candidates);
        Ok(graph.search(&query, &mut Context::default()).map(drop)?)
    })?;
    let ranking = Ranking::new(graph, features, network)?.candidates(candidates);
    let ranked = mean(arguments.requests, |request| {
        Ok(ranking
            .search(&listener(request), &mut Context::default())
            .map(drop)?)
    })?;

    let executor = Executor::builder().build().context("the executor")?;
    let table = executor.add_table("songs", ranking);
    println!("for the first listener:");
    for song in executor.search(table, listener(0)).wait()? {
        println!("  song {:6}  score {:8.4}", song.id, -song.distance);
    }
    println!(
        "{candidates} candidates of {songs} songs: search {searched:.0?}, then features and network {:.0?}, {ranked:.0?} in all \
         (means of {} requests, one after the other)",
        ranked.saturating_sub(searched),
        arguments.requests
    );
    Ok(())
}

/// The mean time of a request.
fn mean(
    requests: u32,
    mut one: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<Duration> {
    let began = Instant::now();
    for request in 0..requests as usize {
        one(request)?;
    }
    Ok(began.elapsed() / requests)
}
