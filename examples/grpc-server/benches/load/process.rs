//! A server process: started on free ports with a data folder of its own, stopped with SIGTERM.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How long a server may work on what it was asked before.
const LONGEST_BACKLOG: Duration = Duration::from_secs(120);
/// How long its processor time is watched; a twentieth of that is idle.
const LOOK: Duration = Duration::from_millis(400);

pub(crate) struct Process {
    child: Child,
    pub(crate) grpc: SocketAddr,
    log: Option<JoinHandle<()>>,
    _data: tempfile::TempDir,
}

impl Process {
    /// Starts a server with these settings, given as environment variables without their prefix.
    pub(crate) fn start(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_chiplet-grpc-server"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHIPLET_")) {
            command.env_remove(name);
        }
        command
            .env("CHIPLET_DATA_DIR", data.path())
            .env("CHIPLET_GRPC_ADDR", "127.0.0.1:0")
            .env("CHIPLET_ADMIN_ADDR", "127.0.0.1:0")
            .envs(
                settings
                    .iter()
                    .map(|(name, value)| (format!("CHIPLET_{name}"), value)),
            )
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("the server could not be started")?;
        let stderr = child.stderr.take().context("its log is piped")?;
        let mut lines = BufReader::new(stderr).lines();
        let grpc = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("gRPC on ")?;
            rest.split(',').next()?.parse().ok()
        });
        let Some(grpc) = grpc else {
            let _ = child.kill();
            bail!("the server ended before it listened: {}", child.wait()?);
        };
        // A log that nobody reads would block the server.
        let log = std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(Self {
            child,
            grpc,
            log: Some(log),
            _data: data,
        })
    }

    /// Waits until nothing is left of earlier load: a pool without bounds goes on long after its clients have given up, and
    /// would take its share of the next measurement.
    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        let give_up = Instant::now() + LONGEST_BACKLOG;
        while Instant::now() < give_up {
            let before = self.cpu_time()?;
            std::thread::sleep(LOOK);
            if self.cpu_time()? - before < LOOK / 20 {
                return Ok(());
            }
        }
        bail!("the server was still busy {LONGEST_BACKLOG:?} after its load had ended")
    }

    /// Processor time used so far (Linux).
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().collect())
            .unwrap_or_default();
        let ticks: u64 = [11, 12]
            .iter()
            .filter_map(|&field| fields.get(field)?.parse::<u64>().ok())
            .sum();
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let ended = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        if ended.is_ok() {
            let _ = self.child.wait();
        }
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
    }
}
