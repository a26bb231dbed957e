//! From a shared pool to chiplet: `rayon::spawn` or `tokio::task::spawn_blocking` becomes `spawn` on a table.
//!
//! The search code stays as it is. What changes is that each table's closures run on that table's CCD, the
//! queue has a bound, and a request that is dropped (a client that hung up) is cancelled if it has not started.
//!
//! `cargo run --release --example replace_pool`

use std::sync::Arc;
use std::time::Duration;

use chiplet::{Error, Executor, SubmitError, TableId};

/// Whatever the service searches today.
struct Shard {
    values: Vec<f32>,
}

impl Shard {
    fn nearest(&self, x: f32) -> usize {
        let distance = |i: &usize| (self.values[*i] - x).abs();
        (0..self.values.len())
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .unwrap_or(0)
    }
}

/// A request handler. Before: `tokio::task::spawn_blocking(move || shard.nearest(x)).await`.
async fn handle(
    executor: &Executor,
    table: TableId,
    shard: Arc<Shard>,
    x: f32,
) -> Result<usize, Error> {
    executor.spawn(table, move || shard.nearest(x)).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Leave a core to the runtime if the machine has one to spare.
    let spare = usize::from(std::thread::available_parallelism()?.get() > 2);
    let executor = Executor::builder().reserve_cores(spare).build()?;
    let shards: Vec<(TableId, Arc<Shard>)> = (0..4)
        .map(|n| {
            let values = (0..50_000)
                .map(|i| ((i * 31 + n * 17) % 50_021) as f32)
                .collect();
            let bytes = 50_000 * 4;
            (
                executor.add_closure_table(format!("shard-{n}"), bytes),
                Arc::new(Shard { values }),
            )
        })
        .collect();

    for (table, shard) in &shards {
        let row = handle(&executor, *table, Arc::clone(shard), 123.0).await?;
        println!("nearest to 123 is row {row}");
    }

    // A time limit is a dropped future, and a dropped future is a cancelled task.
    let (table, shard) = &shards[0];
    let request = handle(&executor, *table, Arc::clone(shard), 5.0);
    match tokio::time::timeout(Duration::from_secs(1), request).await {
        Ok(Ok(row)) => println!("in time: row {row}"),
        Ok(Err(Error::Refused(SubmitError::Overloaded { .. }))) => {
            println!("overloaded: tell the client")
        }
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => println!("too late: cancelled"),
    }
    Ok(())
}
