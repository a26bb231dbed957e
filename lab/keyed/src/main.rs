//! Keys a second of `KeyedRows`, of maps and of embedded stores, on the same keys, on one thread.
//!
//! Each gets all keys with values of 40 bytes, then is asked for one key or for 100 at a time, drawn evenly or by
//! Zipf's law; a tenth of the keys asked for is absent. All copy what they find to the same place. They take turns,
//! round after round.

mod arguments;
mod sharding;
mod spread;
mod stores;

use std::hint::black_box;
use std::time::{Duration, Instant};

use arguments::{counts, seconds};
use clap::{Args, Parser};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};
use spread::spread;
use stores::{Data, Store, VALUE, all};

/// Keys that each case asks for, again and again.
const ASKED: usize = 1 << 20;

/// Keyed rows beside what else would do.
#[derive(Parser)]
enum Command {
    /// Keys a second beside maps and embedded stores: 40-byte values, a tenth of the keys absent, one thread
    Stores(Stores),
    /// Whether cutting a batch into the shards of several caches pays
    Sharding(sharding::Arguments),
}

#[derive(Args)]
struct Stores {
    /// Keys of each store
    #[arg(long, default_value = "10000000", value_parser = counts(1_000, 1 << 31))]
    keys: usize,
    /// Seconds for each case of a round
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Rounds in which all take turns
    #[arg(long, default_value = "5", value_parser = counts(1, 1_000))]
    rounds: usize,
    /// The exponent of Zipf's law
    #[arg(long, default_value_t = 1.0)]
    skew: f64,
    /// Stores whose names begin so; all without it
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

struct Case {
    name: &'static str,
    keys: Vec<u64>,
    batch: usize,
}

fn main() {
    match Command::parse() {
        Command::Stores(args) => stores(&args),
        Command::Sharding(args) => sharding::run(&args),
    }
}

fn stores(args: &Stores) {
    let mut random = SmallRng::seed_from_u64(1);
    let mut keys: Vec<u64> = (0..args.keys as u64 * 2).collect();
    keys.shuffle(&mut random);
    let absent = keys.split_off(args.keys);
    let values: Vec<[u8; VALUE]> = keys.iter().map(|key| [*key as u8; VALUE]).collect();
    let data = Data { keys, values };
    let cases = cases(&data.keys, &absent, args.skew, &mut random);
    let wanted = |name: &str| {
        args.only.is_empty() || args.only.iter().any(|only| name.starts_with(only.as_str()))
    };
    let mut stores: Vec<(&str, Box<dyn Store>, f64)> = Vec::new();
    for (name, build) in all() {
        if wanted(name) {
            eprintln!("{name}: taking {} keys", args.keys);
            let start = Instant::now();
            let store = build(&data);
            stores.push((name, store, start.elapsed().as_secs_f64()));
        }
    }
    // What each must find, so that none is fast because it finds nothing.
    for case in &cases {
        let mut found = Vec::new();
        for (name, store, _) in &stores {
            let mut out = [[0; VALUE]; 100];
            let count: usize = case.keys[..10_000]
                .chunks(100)
                .map(|keys| store.get(keys, &mut out))
                .sum();
            found.push((count, *name));
        }
        assert!(
            found
                .iter()
                .all(|(count, _)| *count == found[0].0 && *count > 8_000),
            "{found:?}"
        );
    }
    let mut rates = vec![vec![Vec::new(); cases.len()]; stores.len()];
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for (case, of_case) in cases.iter().enumerate() {
            // Each round begins with another.
            for at in (0..stores.len()).map(|at| (at + round) % stores.len()) {
                let (_, store, _) = &stores[at];
                rates[at][case].push(rate(&**store, of_case, args.seconds));
            }
        }
    }
    let titles = cases.iter().map(|case| format!(" {} |", case.name));
    println!(
        "| million keys a second |{} bytes a key | taken in s |",
        titles.collect::<String>()
    );
    println!("| --- |{} --: | --: |", " --: |".repeat(cases.len()));
    for ((name, store, took), rates) in stores.iter().zip(&rates) {
        print!("| {name} |");
        for rates in rates {
            print!(
                " {} |",
                spread(rates.iter().map(|rate| rate / 1e6).collect())
            );
        }
        let bytes = store.bytes().map_or("".into(), |bytes| {
            format!("{:.1}", bytes as f64 / args.keys as f64)
        });
        println!(" {bytes} | {took:.1} |");
    }
}

fn cases(keys: &[u64], absent: &[u64], skew: f64, random: &mut SmallRng) -> Vec<Case> {
    let zipf = Zipf::new(keys.len() as f64, skew).expect("a law of some keys");
    let mut draw = |even: bool| -> Vec<u64> {
        let rank = |random: &mut SmallRng| match even {
            true => random.random_range(0..keys.len()),
            false => zipf.sample(random) as usize - 1,
        };
        let asked = (0..ASKED).map(|_| {
            let from = if random.random_range(0..10) == 0 {
                absent
            } else {
                keys
            };
            from[rank(random)]
        });
        asked.collect()
    };
    let (even, skewed) = (draw(true), draw(false));
    let case = |name, keys: &Vec<u64>, batch| Case {
        name,
        keys: keys.clone(),
        batch,
    };
    vec![
        case("1 key, even", &even, 1),
        case("100 keys, even", &even, 100),
        case("1 key, Zipf", &skewed, 1),
        case("100 keys, Zipf", &skewed, 100),
    ]
}

fn rate(store: &dyn Store, case: &Case, seconds: f64) -> f64 {
    let limit = Duration::from_secs_f64(seconds);
    let mut out = [[0; VALUE]; 100];
    let (start, mut asked) = (Instant::now(), 0);
    loop {
        for block in case.keys.chunks(4_000) {
            for keys in block.chunks(case.batch) {
                black_box(store.get(keys, &mut out));
                black_box(&out);
            }
            asked += block.len();
            let took = start.elapsed();
            if took >= limit {
                return asked as f64 / took.as_secs_f64();
            }
        }
    }
}
