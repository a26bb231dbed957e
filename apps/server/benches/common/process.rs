//! A server process: started on free ports with a data folder of its own, stopped with SIGTERM.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
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
    pub(crate) fn start(binary: &Path, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let mut command = Command::new(binary);
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

    /// Waits until nothing is left of earlier load: a pool without bounds goes on long after its clients have given up,
    /// and would take its share of the next measurement.
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

    /// Processor time used so far.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        cpu_time(self.child.id())
    }
}

/// The server that was built with the benchmark.
pub(crate) fn built() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_chiplet-server"))
}

/// Processor time of a process and of its children, also of those that have ended (Linux).
pub(crate) fn cpu_time(process: u32) -> anyhow::Result<Duration> {
    let top = Usage::of(process)?;
    let mut sum = top.own + top.ended_children;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        // Processes may end while they are looked at.
        if let Some(usage) = number.and_then(|number| Usage::of(number).ok())
            && usage.parent == process
        {
            sum += usage.own;
        }
    }
    Ok(sum)
}

/// What the system knows of a process (Linux).
struct Usage {
    parent: u32,
    /// Its processor time.
    own: Duration,
    /// That of its children that have ended.
    ended_children: Duration,
}

impl Usage {
    fn of(process: u32) -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name before it may hold anything.
        let (_, fields) = stat.rsplit_once(')').context("there is no name")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |field: usize| -> anyhow::Result<u64> {
            Ok(fields.get(field).context("a field is missing")?.parse()?)
        };
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let time = |first: usize| -> anyhow::Result<Duration> {
            let ticks = number(first)? + number(first + 1)?;
            Ok(Duration::from_secs_f64(ticks as f64 / per_second))
        };
        Ok(Self {
            parent: u32::try_from(number(1)?)?,
            own: time(11)?,
            ended_children: time(13)?,
        })
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
