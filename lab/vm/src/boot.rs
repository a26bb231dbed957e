//! Boots a machine and shows what it says.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::Image;
use crate::init::PASSED;

/// A machine to emulate. QEMU 7.2 gives each socket its own L3, so sockets stand for CCDs.
#[derive(Clone, Debug)]
pub struct Shape {
    /// L3 domains.
    pub domains: u32,
    /// Cores of each.
    pub cores: u32,
    /// NUMA nodes, of 512 MiB each.
    pub nodes: u32,
    /// Far more than it takes: emulation on a busy machine is slow.
    pub patience: Duration,
}

impl Shape {
    /// 2 x 8 cores.
    pub const SMALL: Self = Self {
        domains: 2,
        cores: 8,
        nodes: 2,
        patience: Duration::from_secs(600),
    };
    /// 12 x 8 cores.
    pub const LARGE: Self = Self {
        domains: 12,
        cores: 8,
        nodes: 4,
        patience: Duration::from_secs(1800),
    };
}

const QEMU: &str = "qemu-system-x86_64";

/// How often a machine that does not come up is started.
const ATTEMPTS: u32 = 3;

/// The newest kernel in `target/vm`.
///
/// # Errors
/// Why nothing can be booted here.
pub fn kernel() -> Result<PathBuf, &'static str> {
    if Command::new(QEMU).arg("--version").output().is_err() {
        return Err("qemu-system-x86_64 is not installed (Debian: qemu-system-x86)");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/vm");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("vmlinuz"))
    };
    let newest = files.map(|entry| entry.path()).filter(is_kernel).max();
    newest.ok_or("there is no kernel in target/vm; scripts/vm-kernel.sh fetches Debian's")
}

/// A machine that is to be booted.
pub struct Boot<'a> {
    /// What it looks like.
    pub shape: &'a Shape,
    /// Of [`kernel`].
    pub kernel: &'a Path,
    /// What it runs.
    pub image: &'a Image,
    /// What its first process is told.
    pub arguments: &'a [String],
    /// What QEMU is told besides.
    pub emulator: &'a [OsString],
}

/// What a machine did whose checks have all passed.
pub struct Outcome {
    /// From its start to its end.
    pub seconds: u64,
    /// What it said.
    pub console: Vec<String>,
}

/// Ends the machine even if the test fails.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Boot<'_> {
    /// Boots the machine and shows its console, until it has turned itself off.
    ///
    /// Emulation of many processors at once sometimes stops in the kernel's own boot, before anything of ours runs.
    /// Then it is tried again; once our first check has begun, nothing is.
    ///
    /// # Errors
    /// If it does not come up, does not end in time, or ends without passing its checks.
    pub fn run(&self) -> io::Result<Outcome> {
        for _ in 1..ATTEMPTS {
            match self.once() {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    println!("vm: {error}; again");
                }
                outcome => return outcome,
            }
        }
        self.once()
    }

    fn once(&self) -> io::Result<Outcome> {
        let begun = Instant::now();
        println!(
            "vm: booting {} domains of {} cores under emulation",
            self.shape.domains, self.shape.cores
        );
        let mut machine = Machine(self.command().spawn()?);
        if let Some(complaints) = machine.0.stderr.take() {
            std::thread::spawn(move || {
                let lines = BufReader::new(complaints).lines().map_while(Result::ok);
                // Of each processor it says which features emulation lacks; none of them matters here.
                for line in lines.filter(|line| !line.contains("TCG doesn't support")) {
                    println!("  {line}");
                }
            });
        }
        let console = machine
            .0
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no console"))?;
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
                let _ = send.send(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        });
        let (mut up, mut console) = (false, Vec::new());
        loop {
            let patience = if up {
                self.shape.patience
            } else {
                self.shape.patience / 4
            };
            let left = patience.saturating_sub(begun.elapsed());
            match lines.recv_timeout(left) {
                Ok(line) => {
                    println!("  {line}");
                    up |= line.starts_with("vm: ");
                    console.push(line);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if !up => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the kernel did not come up in time",
                    ));
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(io::Error::other(
                        "the machine did not end in time; it was stopped",
                    ));
                }
            }
        }
        if console.iter().any(|line| line == PASSED) {
            Ok(Outcome {
                seconds: begun.elapsed().as_secs(),
                console,
            })
        } else {
            Err(io::Error::other(
                "the machine ended without passing its checks; see its console above",
            ))
        }
    }

    fn command(&self) -> Command {
        let Shape {
            domains,
            cores,
            nodes,
            ..
        } = *self.shape;
        let cpus = domains * cores;
        let mut command = Command::new(QEMU);
        command
            .args([
                "-cpu",
                "EPYC-Milan",
                "-accel",
                "tcg,thread=multi",
                "-nodefaults",
                "-display",
                "none",
            ])
            .args(["-serial", "stdio", "-no-reboot"])
            .args(["-smp", &format!("{cpus},sockets={domains},cores={cores}")])
            .args(["-m", &format!("{}M", 512 * nodes)]);
        let each = cpus / nodes;
        for node in 0..nodes {
            let (first, last) = (node * each, (node + 1) * each - 1);
            command
                .args([
                    "-object",
                    &format!("memory-backend-ram,id=m{node},size=512M"),
                ])
                .args([
                    "-numa",
                    &format!("node,nodeid={node},cpus={first}-{last},memdev=m{node}"),
                ]);
        }
        let told = self.arguments.join(" ");
        command
            .arg("-kernel")
            .arg(self.kernel)
            .arg("-initrd")
            .arg(self.image.path())
            .args([
                "-append",
                &format!("console=ttyS0 quiet panic=-1 nowatchdog cryptomgr.notests -- {told}"),
            ])
            .args(self.emulator)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}
