//! What the same searches do without Python: `clients TABLE QUERIES SECONDS THREADS` prints queries a second. With 0
//! threads it submits all queries as one block, again and again.
//!
//! `QUERIES` holds `f32`, little-endian, one vector after the other; k is 10 and ef 64.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chiplet::index::{self, Pages};
use chiplet::{Block, Executor, Query, Table};

const K: usize = 10;
const EF: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what| arguments.next().ok_or(what);
    let table = index::open(PathBuf::from(next("a table")?), Pages::default())?;
    let queries: Vec<f32> = std::fs::read(next("a file of queries")?)?
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    let time = Duration::from_secs_f64(next("seconds")?.parse()?);
    let threads: usize = next("a number of threads")?.parse()?;

    let dim = table.dim();
    let executor = Executor::builder().build()?;
    let id = executor.add_table("table", table);
    let began = Instant::now();
    let done = AtomicU64::new(0);
    if threads == 0 {
        let rows: Arc<[f32]> = queries.as_slice().into();
        while began.elapsed() < time {
            let block = Block::new(Arc::clone(&rows), dim).like(Query::new([]).top(K).ef(EF));
            let answers = executor.search_block(id, block).wait()?;
            done.fetch_add(answers.len() as u64, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        for first in 0..threads {
            let (queries, executor, done) = (&queries, &executor, &done);
            scope.spawn(move || {
                let mine = queries.chunks_exact(dim).cycle().skip(first * 61);
                for query in mine.take_while(|_| began.elapsed() < time) {
                    let query = Query::new(query).top(K).ef(EF);
                    if executor.search(id, query).wait().is_ok() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!(
        "{:.0}",
        done.into_inner() as f64 / began.elapsed().as_secs_f64()
    );
    Ok(())
}
