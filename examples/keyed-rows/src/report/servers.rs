//! Server processes: this very command, started with `serve`.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context as _, bail};

/// How a server is started.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) keys: u64,
    pub(super) shard: (usize, usize),
    pub(super) small_pages: bool,
    pub(super) threads: u16,
    /// Any, if there are none.
    pub(super) cpus: Vec<u32>,
    /// A library to load first, which has another allocator.
    pub(super) preload: Option<PathBuf>,
}

impl Setting {
    pub(super) fn usual(keys: u64) -> Self {
        Self {
            keys,
            shard: (0, 1),
            small_pages: false,
            threads: 1,
            cpus: Vec::new(),
            preload: None,
        }
    }
}

/// A server; it ends when this is dropped.
pub(super) struct Server {
    child: Child,
    address: String,
    log: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(setting: &Setting) -> anyhow::Result<Self> {
        let (own, all) = setting.shard;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "--with-parent", "--listen", "127.0.0.1:0"]);
        command.args(["--keys", &setting.keys.to_string()]);
        command.args(["--shard", &format!("{own}/{all}")]);
        command.args(["--threads", &setting.threads.to_string()]);
        command.args([
            "--pages",
            if setting.small_pages { "small" } else { "huge" },
        ]);
        if !setting.cpus.is_empty() {
            let cpus: Vec<String> = setting.cpus.iter().map(u32::to_string).collect();
            command.args(["--cpus", &cpus.join(",")]);
        }
        if let Some(library) = &setting.preload {
            command.env("LD_PRELOAD", library);
        }
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().context("its log is piped")?;
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let address = lines.by_ref().find_map(|line| {
            let address = line
                .split_once(" keys on ")
                .and_then(|(_, rest)| Some(rest.split_once(';')?.0.to_owned()));
            said.push(line);
            address
        });
        // The loader goes on without a library that it cannot load.
        if setting.preload.is_some()
            && let Some(line) = said
                .iter()
                .find(|line| line.contains("cannot be preloaded"))
        {
            let _ = child.kill();
            child.wait()?;
            bail!("{line}");
        }
        let Some(address) = address else {
            let status = child.wait()?;
            bail!(
                "a server ended before it listened, {status}: {}",
                said.join("; ")
            );
        };
        // A log that nobody reads would block the server.
        let log = std::thread::spawn(move || lines.for_each(|line| eprintln!("server: {line}")));
        Ok(Self {
            child,
            address,
            log: Some(log),
        })
    }

    pub(super) fn address(&self) -> String {
        self.address.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that must be written.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
    }
}
