//! The README's example, which `tests/it/readme.rs` holds it to: build a graph, search it.
//!
//! `cargo run --release --example quickstart`

use chiplet::index::{HnswConfig, HnswTable, Metric};
use chiplet::{Executor, Query};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dim = 32; // a thousand vectors, one after the other
    let rows: Vec<f32> = (0..1_000 * dim).map(|i| (i * i % 10_007) as f32).collect();

    let executor = Executor::builder().build()?; // detects the machine, pins, starts workers
    let songs = HnswTable::build(&rows, dim, &HnswConfig::new(Metric::Cosine))?;
    let songs = executor.add_table("songs", songs);

    let query = Query::new(&rows[..dim]).top(5).ef(64);
    for hit in executor.search(songs, query).wait()? {
        println!("song {:3} at {:.4}", hit.id, hit.distance); // or `.await`, on any runtime
    }
    executor.spawn(songs, || println!("any closure")).wait()?; // runs beside that table
    Ok(())
}
