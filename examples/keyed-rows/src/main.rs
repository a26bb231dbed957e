//! `keyed-rows serve` and `keyed-rows report`.

use std::net::SocketAddr;

use anyhow::Context as _;
use chiplet_index::{KeyedRows, Pages};
use clap::{Args, Parser, ValueEnum};
use keyed_rows::{Service, made_up, report};

/// Values by key over gRPC: a server, and what it and its client cost.
#[derive(Parser)]
#[command(version)]
enum Command {
    /// Serve values until Ctrl-C.
    Serve(Serve),
    /// Start servers, ask them as Cube's report did, and print its tables beside ours.
    Report(report::Arguments),
}

#[derive(Args)]
struct Serve {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:50052")]
    listen: SocketAddr,
    /// Keys of all shards together, from 0 on, with made-up values of 40 bytes.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// The part of them that this server has, as 3/10: the fourth of ten.
    #[arg(long, value_parser = shard, default_value = "0/1")]
    shard: (usize, usize),
    /// Serve the values of this file instead (`KeyedRows::save`).
    #[arg(long, conflicts_with_all = ["keys", "shard"])]
    file: Option<std::path::PathBuf>,
    /// Pages that the values are kept in.
    #[arg(long, value_enum, default_value_t = Size::Huge)]
    pages: Size,
    /// Threads of the network.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Cpus to run on, as 0,1,2; those of one socket keep the memory near as well. Any without it.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<u32>,
    /// End when the process that started this one does.
    #[arg(long, hide = true)]
    with_parent: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Size {
    /// 2 MiB, where the kernel has them at hand.
    Huge,
    /// 4 KiB.
    Small,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parsed = text
        .split_once('/')
        .and_then(|(own, all)| Some((own.parse::<usize>().ok()?, all.parse().ok()?)));
    match parsed {
        Some((own, all)) if own < all => Ok((own, all)),
        _ => Err("give the number from 0 on and how many there are, as 3/10".to_owned()),
    }
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Serve(arguments) => serve(&arguments),
        Command::Report(arguments) => report::run(&arguments),
    }
}

fn serve(arguments: &Serve) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    if arguments.with_parent {
        use rustix::process::{Signal, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::TERM))?;
    }
    if !arguments.cpus.is_empty() {
        // Before other threads are started, which inherit it, and before memory is touched.
        chiplet_topology::pin::pin_current_thread(&arguments.cpus)?;
    }
    let pages = match arguments.pages {
        Size::Huge => Pages::Transparent,
        Size::Small => Pages::Small,
    };
    let (own, all) = arguments.shard;
    let rows = match &arguments.file {
        Some(file) => KeyedRows::load(file, pages).with_context(|| file.display().to_string())?,
        None => made_up::rows(arguments.keys, own, all, pages)?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(arguments.threads))
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(arguments.listen)
            .await
            .with_context(|| format!("{} cannot be listened on", arguments.listen))?;
        eprintln!(
            "serving {} keys on {}; Ctrl-C stops",
            rows.len(),
            listener.local_addr()?
        );
        Ok(Service::new(rows).serve(listener, stop()).await?)
    })
}

/// Ctrl-C, or what a service manager sends.
async fn stop() {
    #[cfg(unix)]
    if let Ok(mut terminate) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    {
        tokio::select! {
            _ = terminate.recv() => return,
            Ok(()) = tokio::signal::ctrl_c() => return,
            else => {}
        }
    }
    // Without a handler Ctrl-C ends the process, which is right too.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
