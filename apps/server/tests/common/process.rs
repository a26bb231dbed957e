//! A server in a process of its own: for what is measured of a process, or how one ends.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

pub struct Process {
    child: Child,
    pub grpc: SocketAddr,
    pub admin: SocketAddr,
    log: Option<JoinHandle<String>>,
}

/// The server's command, without what the tests' own environment says.
pub fn command(data: &Path, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chiplet-server"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHIPLET_")) {
        command.env_remove(name);
    }
    command
        .env("CHIPLET_DATA_DIR", data)
        .env("CHIPLET_GRPC_ADDR", "127.0.0.1:0")
        .env("CHIPLET_ADMIN_ADDR", "127.0.0.1:0")
        .env("CHIPLET_SCHEDULER__PIN", "none")
        .envs(
            settings
                .iter()
                .map(|(name, value)| (format!("CHIPLET_{name}"), value)),
        )
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

impl Process {
    /// Starts it and waits until it listens.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut log = String::new();
        let (grpc, admin) = loop {
            let Some(Ok(line)) = lines.next() else {
                panic!("the server ended before it listened: {log}");
            };
            log.push_str(&line);
            log.push('\n');
            let addresses = line.split_once("gRPC on ").and_then(|(_, rest)| {
                let (grpc, rest) = rest.split_once(", admin page on http://")?;
                Some((grpc.parse().ok()?, rest.trim_end_matches('/').parse().ok()?))
            });
            if let Some(addresses) = addresses {
                break addresses;
            }
        };
        // A log that nobody reads would block the server.
        let log = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                log.push_str(&line);
                log.push('\n');
            }
            log
        });
        Self {
            child,
            grpc,
            admin,
            log: Some(log),
        }
    }

    /// The most memory that was resident so far, in bytes (Linux).
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for its end, and returns with that what it has logged.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        (status, self.log.take().unwrap().join().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
