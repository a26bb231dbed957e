//! One domain of four workers, one table of 1 ms queries: bursts of eight single queries with deadlines, and batches of
//! 256 in between.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use chiplet::{Context, Error, Neighbor, Query, SearchError, Table};

use super::{machine, start};

const QUERY: Duration = Duration::from_millis(1);
const BURST: usize = 8;
const BATCH: usize = 256;
const RUN: Duration = Duration::from_secs(8);
const BATCH_EVERY: Duration = Duration::from_millis(200);

struct Sleeps;

impl Table for Sleeps {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        4
    }

    fn search(&self, _: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        thread::sleep(QUERY);
        Ok(Vec::new())
    }
}

pub fn run() {
    println!("  single queries that expired, of those asked between the batches");
    for (what, batches, deadline) in [
        ("no batches, 15 ms", false, 15),
        ("batches of 256, 15 ms", true, 15),
        ("batches of 256, 25 ms", true, 25),
    ] {
        println!(
            "  {what:28} {}",
            scenario(batches, Duration::from_millis(deadline))
        );
    }
}

fn scenario(batches: bool, deadline: Duration) -> String {
    let executor = Arc::new(start(
        machine(1, 4).queue_limit(2_000).table_queue_limit(1_000),
    ));
    let table = executor.add_table("t", Sleeps);
    let (began, query) = (Instant::now(), Query::new([0.0]));
    let (mut asked, mut expired, mut batch) = (0, 0, 0);
    while began.elapsed() < RUN {
        if batches && began.elapsed() >= BATCH_EVERY * batch {
            batch += 1;
            let many = vec![query.clone(); BATCH];
            let _ = executor.search_batch(table, many).wait();
        }
        // Nothing else is under way now.
        let burst: Vec<_> = (0..BURST)
            .map(|_| executor.search(table, query.clone().within(deadline)))
            .collect();
        asked += BURST;
        for ticket in burst {
            expired += usize::from(matches!(ticket.wait(), Err(Error::Expired)));
        }
        thread::sleep(Duration::from_millis(20));
    }
    format!("{expired} of {asked}")
}
