//! Whether cutting a batch into the shards of several caches pays: keys a second and the time of a batch, three ways.
//!
//! *Here*: the thread that has the batch looks it up itself. *Whole*: it is one task of chiplet's executor. *Sharded*:
//! each domain has the keys of a shard, a batch becomes a task for each, and is done when the last of them is. Domains
//! are the cores of one L3, or of one L2 where there is one L3.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet::{Executor, PlannerConfig, TableId, TriggerConfig};
use chiplet::topology::LevelChoice;
use chiplet_index::KeyedRows;
use clap::Args;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::arguments::{counts, seconds};
use crate::spread::spread;
use crate::stores::VALUE;

#[derive(Args)]
pub struct Arguments {
    /// Keys
    #[arg(long, default_value = "10000000", value_parser = counts(1_000, 1 << 31))]
    keys: usize,
    /// Keys of a batch
    #[arg(long, value_delimiter = ',', default_value = "100,500,1000,10000", value_parser = counts(1, 1_000_000))]
    batch: Vec<usize>,
    /// Threads that ask, each when it is answered
    #[arg(long, default_value = "1", value_parser = counts(1, 1_000))]
    clients: usize,
    /// Seconds of each case of a round
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Rounds in which all take turns
    #[arg(long, default_value = "5", value_parser = counts(1, 1_000))]
    rounds: usize,
}

struct Shards {
    executor: Executor,
    /// All keys on any domain, and those of one shard on each.
    whole: (TableId, Arc<KeyedRows>),
    shards: Vec<(TableId, Arc<KeyedRows>)>,
}

#[derive(Clone, Copy)]
enum Way {
    Here,
    Whole,
    Sharded,
}

pub fn run(args: &Arguments) {
    let start = |level| {
        // Tables stay where they are put.
        let still = PlannerConfig::new().trigger(TriggerConfig::new().cooldown(None));
        Executor::builder()
            .level(level)
            .planner(still)
            .build()
            .expect("the machine can be read")
    };
    let mut executor = start(LevelChoice::L3);
    if executor.topology().domains().len() == 1 {
        executor = start(LevelChoice::L2);
    }
    let count = executor.topology().domains().len();
    let build = |own: Option<usize>| {
        let keys: Vec<u64> = (0..args.keys as u64)
            .filter(|&key| own.is_none_or(|own| shard(key, count) == own))
            .collect();
        let value = [1; VALUE];
        Arc::new(KeyedRows::build(&keys, VALUE, |_| &value).expect("different keys"))
    };
    let table = |name: String, own| {
        let rows: Arc<KeyedRows> = build(own);
        (executor.add_closure_table(name, rows.size_bytes()), rows)
    };
    let whole = table("whole".into(), None);
    let shards: Vec<_> = (0..count)
        .map(|own| table(format!("shard-{own}"), Some(own)))
        .collect();
    let homes: Vec<String> = shards
        .iter()
        .map(|(table, _)| format!("{:?}", executor.placement().homes(*table)))
        .collect();
    eprintln!("homes of the shards: {}", homes.join("; "));
    let shards = Shards {
        executor,
        whole,
        shards,
    };
    println!(
        "{} keys, {count} domains, {} clients. Ratios to *here*: medians of {} rounds, lowest and highest.\n",
        args.keys, args.clients, args.rounds
    );
    println!(
        "| keys a batch | here: us a batch | whole: time of a batch | sharded | whole: keys a second | sharded |"
    );
    println!("| --: | --: | --: | --: | --: | --: |");
    let ways = [Way::Here, Way::Whole, Way::Sharded];
    for &batch in &args.batch {
        let (mut times, mut rates) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
        for round in 0..args.rounds {
            // Each round begins with another.
            for at in (0..ways.len()).map(|at| (at + round) % ways.len()) {
                let way = ways[at];
                let (time, rate) = measure(&shards, args, batch, way);
                times[at].push(time);
                rates[at].push(rate);
            }
        }
        let to_here = |values: &[Vec<f64>], at: usize| {
            spread(
                values[at]
                    .iter()
                    .zip(&values[0])
                    .map(|(own, here)| own / here)
                    .collect(),
            )
        };
        println!(
            "| {batch} | {} | {} | {} | {} | {} |",
            spread(times[0].clone()),
            to_here(&times, 1),
            to_here(&times, 2),
            to_here(&rates, 1),
            to_here(&rates, 2)
        );
    }
}

/// Median microseconds of a batch, and keys a second.
fn measure(shards: &Shards, args: &Arguments, batch: usize, way: Way) -> (f64, f64) {
    let lasting = Duration::from_secs_f64(args.seconds);
    let begun = Instant::now();
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let ask = |client: usize| {
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(client as u64);
                let mut times = Vec::new();
                let drawn: Vec<u64> = (0..(1 << 18) + batch)
                    .map(|_| random.random_range(0..args.keys as u64))
                    .collect();
                let mut asked = drawn.windows(batch).step_by(batch).cycle();
                while begun.elapsed() < lasting {
                    let keys = asked.next().expect("it begins again").to_vec();
                    let start = Instant::now();
                    let count = match way {
                        Way::Here => look_up(&shards.whole.1, &keys).2,
                        Way::Whole => {
                            shards
                                .send(&shards.whole, keys)
                                .wait()
                                .expect("it is answered")
                                .2
                        }
                        Way::Sharded => shards.sharded(&keys),
                    };
                    assert_eq!(count, batch);
                    times.push(start.elapsed().as_secs_f64() * 1e6);
                }
                times
            })
        };
        let asking: Vec<_> = (0..args.clients).map(ask).collect();
        asking
            .into_iter()
            .flat_map(|thread| thread.join().expect("a client does not panic"))
            .collect()
    });
    let rate = (times.len() * batch) as f64 / begun.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], rate)
}

type Found = (Vec<u8>, Vec<bool>, usize);

impl Shards {
    fn send(
        &self,
        (table, rows): &(TableId, Arc<KeyedRows>),
        keys: Vec<u64>,
    ) -> chiplet::Ticket<Found> {
        let rows = Arc::clone(rows);
        self.executor.spawn(*table, move || look_up(&rows, &keys))
    }

    fn sharded(&self, keys: &[u64]) -> usize {
        let count = self.shards.len();
        let mut out = vec![0; keys.len() * VALUE];
        let mut parts = vec![(Vec::new(), Vec::new()); count];
        for (at, &key) in keys.iter().enumerate() {
            let (places, part) = &mut parts[shard(key, count)];
            places.push(at);
            part.push(key);
        }
        let sent: Vec<_> = parts
            .into_iter()
            .zip(&self.shards)
            .map(|((places, part), own)| (places, self.send(own, part)))
            .collect();
        let mut all = 0;
        for (places, ticket) in sent {
            let (values, _, found) = ticket.wait().expect("it is answered");
            for (at, value) in places.into_iter().zip(values.chunks_exact(VALUE)) {
                out[at * VALUE..][..VALUE].copy_from_slice(value);
            }
            all += found;
        }
        all
    }
}

fn look_up(rows: &KeyedRows, keys: &[u64]) -> Found {
    let (mut values, mut found) = (vec![0; keys.len() * VALUE], vec![false; keys.len()]);
    let count = rows.get_many(keys, &mut values, &mut found);
    (values, found, count)
}

fn shard(key: u64, shards: usize) -> usize {
    ((u128::from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * shards as u128) >> 64) as usize
}
