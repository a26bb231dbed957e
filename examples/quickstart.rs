//! The README's first example: build a graph, search it, look at the counters.
//!
//! `cargo run --release --example quickstart`

use chiplet::index::{HnswConfig, HnswTable, Metric};
use chiplet::{Executor, Query};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Ten thousand vectors of 32 components, one after the other.
    let dim = 32;
    let rows: Vec<f32> = (0..10_000 * dim)
        .map(|i| ((i * 7_919) % 1_009) as f32 / 1_009.0)
        .collect();

    let executor = Executor::builder().build()?; // detects the machine, pins, starts workers
    print!("{}", executor.topology());
    let songs = HnswTable::build(&rows, dim, &HnswConfig::new(Metric::Cosine))?;
    let songs = executor.add_table("songs", songs);

    let query = Query::new(&rows[..dim]).top(5).ef(64);
    for hit in executor.search(songs, query).wait()? {
        println!("song {:5} at {:.4}", hit.id, hit.distance);
    }
    let counts = executor.snapshot().total;
    println!("{} of {} done", counts.done, counts.accepted);
    Ok(())
}
