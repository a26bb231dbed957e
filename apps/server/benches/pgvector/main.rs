//! The server beside PostgreSQL with pgvector: the same 30,000 words, the same queries, the same number of clients, at
//! the same recall, over TCP on loopback.
//!
//! One thread of this program drives both alike (`peers.rs`): as many connections as there are clients, each with one
//! query under way, prepared before the clock starts. A gRPC client has its requests' bytes, a PostgreSQL client a
//! prepared statement and binary vectors. The servers are asked turn by turn. With `--stock` the clients of both from
//! PyPI are measured too (`stock.py`), each in a process of its own.
//!
//! `scripts/pgvector.sh` installs what is needed and starts this. Everything is bounded and stops by itself; if this
//! program is killed, PostgreSQL is stopped by the helper that started it.

#[path = "../common/mod.rs"]
mod common;
mod helper;
mod peers;
mod rounds;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use chiplet_bench::workload::dataset::GloveSample;
use clap::Parser;

use common::process::{self, Process};
use helper::Postgres;
use peers::Peer;

/// Measures chiplet-server beside PostgreSQL with pgvector, over loopback.
#[derive(Parser)]
struct Arguments {
    /// A Python that has the packages of requirements.txt; scripts/pgvector.sh makes one.
    #[arg(long, value_name = "FILE")]
    python: PathBuf,

    /// Rounds; each measures every server once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,

    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,

    /// Clients, each with a connection and one query under way.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    clients: u16,

    /// The least part of the true 10 nearest that a server has to find.
    #[arg(long, default_value_t = 0.999)]
    recall: f64,

    /// Measure the clients from PyPI too.
    #[arg(long)]
    stock: bool,

    /// Leave PostgreSQL out, to compare builds of the server.
    #[arg(long)]
    alone: bool,

    /// Another build of the server, measured in the same rounds; may be given several times.
    #[arg(long = "server", value_name = "NAME=FILE", value_parser = common::setting)]
    servers: Vec<(String, String)>,

    /// A setting of the servers, as `SCHEDULER__NETWORK_THREADS=1`; may be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = common::setting)]
    settings: Vec<(String, String)>,

    /// The repository's folder `datasets`.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../datasets"))]
    datasets: PathBuf,

    /// cargo bench passes this.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let words = GloveSample::read(arguments.datasets.join(GloveSample::FOLDER))?;
    let settings: Vec<_> = arguments
        .settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    // One thread: two would take the cores from the servers.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut peers = vec![Peer::server(
        "chiplet",
        Process::start(process::built(), &settings)?,
    )];
    for (name, file) in &arguments.servers {
        peers.push(Peer::server(
            name,
            Process::start(file.as_ref(), &settings)?,
        ));
    }
    if !arguments.alone {
        peers.push(Peer::postgres(Postgres::start(&arguments.python)?));
    }
    println!(
        "{} clients, {} rounds of {} s each, {} cpus",
        arguments.clients,
        arguments.rounds,
        arguments.seconds,
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    for peer in &mut peers {
        runtime.block_on(peer.load(&words))?;
        let found = runtime.block_on(rounds::tune(peer, &words, arguments.recall))?;
        println!("{}: ef {}, recall@10 {found:.4}", peer.name(), peer.ef());
    }
    let lasting = Duration::from_secs(arguments.seconds);
    let mut runs = vec![Vec::new(); peers.len()];
    let mut stock = vec![Vec::new(); peers.len()];
    for round in 0..arguments.rounds as usize {
        // Nobody always comes after the same other.
        for turn in 0..peers.len() {
            let at = (round + turn) % peers.len();
            let peer = &peers[at];
            peer.settle()?;
            let run = rounds::run(peer, &words, arguments.clients.into(), lasting);
            runs[at].push(runtime.block_on(run)?);
            if arguments.stock {
                peer.settle()?;
                let clients = arguments.clients;
                let (python, datasets) = (&arguments.python, &arguments.datasets);
                stock[at].push(helper::stock(python, peer, datasets, clients, lasting)?);
            }
        }
    }
    let names: Vec<_> = peers.iter().map(Peer::name).collect();
    table::print(
        "prepared requests, one native client program",
        &names,
        &runs,
    );
    if arguments.stock {
        table::print("the clients from PyPI", &names, &stock);
    }
    Ok(())
}
