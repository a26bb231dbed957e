//! The two Python programs: one runs PostgreSQL, the other the clients from PyPI.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::peers::Peer;
use super::rounds::Measurement;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/pgvector");

/// A Python program that speaks in lines of JSON and ends when its input does.
struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    fn start(python: &Path, program: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let mut child = Command::new(python)
            .arg(Path::new(FOLDER).join(program))
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} could not be started", python.display()))?;
        let output = child.stdout.take().context("its output is piped")?;
        Ok(Self {
            input: child.stdin.take(),
            lines: BufReader::new(output).lines(),
            child,
        })
    }

    fn read<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let line = self.lines.next().context("a helper ended early")??;
        serde_json::from_str(&line).with_context(|| format!("a helper said {line}"))
    }

    fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("it is not ended")?;
        Ok(writeln!(input, "{line}")?)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.input.take());
        // It has nothing more to say; what it started it has stopped when it ends.
        let _ = self.child.wait();
    }
}

/// A PostgreSQL with pgvector, in a folder of its own, until it is dropped.
pub(crate) struct Postgres {
    pub(crate) port: u16,
    /// The process whose children are the backends.
    pub(crate) process: u32,
    _helper: Helper,
}

#[derive(Deserialize)]
struct Started {
    port: u16,
    process: u32,
    version: String,
}

impl Postgres {
    pub(crate) fn start(python: &Path) -> anyhow::Result<Self> {
        let mut helper = Helper::start(python, "postgres.py", &[])?;
        let started: Started = helper.read()?;
        println!("{}", started.version);
        Ok(Self {
            port: started.port,
            process: started.process,
            _helper: helper,
        })
    }
}

#[derive(Deserialize)]
struct Ready {
    clients: u16,
}

#[derive(Deserialize)]
struct Measured {
    queries: u64,
    seconds: f64,
    p50: f64,
    p99: f64,
}

/// Measures a peer with the clients from PyPI, each in a process of its own.
pub(crate) fn stock(
    python: &Path,
    peer: &Peer,
    datasets: &Path,
    clients: u16,
    lasting: Duration,
) -> anyhow::Result<Measurement> {
    let (kind, address) = peer.address();
    let arguments = [
        kind.to_owned(),
        address,
        datasets.display().to_string(),
        peer.ef().to_string(),
        clients.to_string(),
        lasting.as_secs().to_string(),
    ];
    let mut helper = Helper::start(python, "stock.py", &arguments)?;
    let ready: Ready = helper.read()?;
    ensure!(ready.clients == clients, "{} clients", ready.clients);
    let before = peer.cpu_time()?;
    helper.say("go")?;
    let measured: Measured = helper.read()?;
    let used = peer.cpu_time()? - before;
    Ok(Measurement {
        queries_per_second: measured.queries as f64 / measured.seconds,
        p50: measured.p50,
        p99: measured.p99,
        cpu: used.as_secs_f64() * 1e6 / measured.queries as f64,
    })
}
