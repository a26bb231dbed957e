//! Packs this program into an initramfs, boots it, and shows what it says.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, exit};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use cpio::NewcBuilder;

use crate::guest::CHECKS;

/// A machine to emulate. QEMU 7.2 gives each socket its own L3, so sockets stand for CCDs.
struct Shape {
    domains: u32,
    cores: u32,
    nodes: u32,
    /// Far more than it takes: emulation on a busy machine is slow.
    patience: Duration,
}

const SMALL: Shape = Shape {
    domains: 2,
    cores: 8,
    nodes: 2,
    patience: Duration::from_secs(600),
};
const LARGE: Shape = Shape {
    domains: 12,
    cores: 8,
    nodes: 4,
    patience: Duration::from_secs(1800),
};

const MODE_FOLDER: u32 = 0o040_755;
const MODE_PROGRAM: u32 = 0o100_755;
const MODE_DEVICE: u32 = 0o020_600;

/// How often a machine that does not come up is started.
const ATTEMPTS: u32 = 3;

/// The machine ends with this line on its console; anything else is a failure.
pub const PASSED: &str = "vm: all checks passed";

pub fn main() {
    let shape = if std::env::args().any(|argument| argument == "large") {
        LARGE
    } else {
        SMALL
    };
    if Command::new("qemu-system-x86_64")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("vm: skipped: qemu-system-x86_64 is not installed (Debian: qemu-system-x86)");
        return;
    }
    let Some(kernel) = kernel() else {
        println!(
            "vm: skipped: there is no kernel in target/vm; scripts/vm-kernel.sh fetches Debian's"
        );
        return;
    };
    let image = std::env::temp_dir().join(format!("chiplet-vm-{}.cpio", std::process::id()));
    let outcome = pack(&image).and_then(|()| boot_until_up(&shape, &kernel, &image));
    let _ = fs::remove_file(&image);
    match outcome {
        Ok(seconds) => println!(
            "verify: a kernel that shows {} x {} cores | {CHECKS} checks in the machine | {seconds} s",
            shape.domains, shape.cores
        ),
        Err(error) => {
            println!("vm: FAILED: {error}");
            exit(1);
        }
    }
}

/// The newest kernel in `target/vm`.
fn kernel() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vm");
    let files = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("vmlinuz"))
    };
    files.filter(is_kernel).max()
}

/// Writes an initramfs: this program as `/init`, the libraries it is linked with where it looks for them.
fn pack(image: &Path) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let mut files = vec![(PathBuf::from("/init"), program.clone())];
    let listed = Command::new("ldd").arg(&program).output()?;
    for line in String::from_utf8_lossy(&listed.stdout).lines() {
        // "name => /path (address)", or "/path (address)" for the loader.
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        if let Some(path) = path {
            files.push((PathBuf::from(path), PathBuf::from(path)));
        }
    }
    let mut folders: Vec<PathBuf> = ["/dev", "/proc", "/sys", "/tmp"].map(PathBuf::from).into();
    for (inside, _) in &files {
        folders.extend(inside.ancestors().skip(1).map(Path::to_owned));
    }
    folders.sort();
    folders.dedup();
    folders.retain(|folder| folder != Path::new("/"));

    let mut out = io::BufWriter::new(File::create(image)?);
    let name = |path: &Path| path.to_string_lossy().trim_start_matches('/').to_owned();
    for folder in &folders {
        append(
            &mut out,
            NewcBuilder::new(&name(folder)).mode(MODE_FOLDER),
            &[],
        )?;
    }
    let console = NewcBuilder::new("dev/console")
        .mode(MODE_DEVICE)
        .rdev_major(5)
        .rdev_minor(1);
    append(&mut out, console, &[])?;
    for (inside, outside) in &files {
        let bytes = fs::read(outside)?;
        append(
            &mut out,
            NewcBuilder::new(&name(inside)).mode(MODE_PROGRAM),
            &bytes,
        )?;
    }
    cpio::newc::trailer(&mut out)?;
    out.flush()
}

fn append(out: &mut impl Write, entry: NewcBuilder, bytes: &[u8]) -> io::Result<()> {
    let size = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut entry = entry.write(out, size);
    io::copy(&mut Cursor::new(bytes), &mut entry)?;
    entry.finish()?;
    Ok(())
}

/// Ends the machine even if the test fails.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Emulation of many processors at once sometimes stops in the kernel's own boot, before anything of ours runs; then it
/// is tried again. Once our first check has begun, nothing is.
fn boot_until_up(shape: &Shape, kernel: &Path, image: &Path) -> io::Result<u64> {
    for _ in 1..ATTEMPTS {
        match boot(shape, kernel, image) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => println!("vm: {error}; again"),
            outcome => return outcome,
        }
    }
    boot(shape, kernel, image)
}

/// Boots the machine, shows its console, and returns how many seconds it took.
fn boot(shape: &Shape, kernel: &Path, image: &Path) -> io::Result<u64> {
    let begun = Instant::now();
    let cpus = shape.domains * shape.cores;
    println!(
        "vm: booting {} domains of {} cores under emulation",
        shape.domains, shape.cores
    );
    let mut command = Command::new("qemu-system-x86_64");
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
        .args([
            "-smp",
            &format!("{cpus},sockets={},cores={}", shape.domains, shape.cores),
        ])
        .args(["-m", &format!("{}M", 512 * shape.nodes)]);
    let each = cpus / shape.nodes;
    for node in 0..shape.nodes {
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
    command
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .args([
            "-append",
            &format!(
                "console=ttyS0 quiet panic=-1 nowatchdog cryptomgr.notests -- {} {} {}",
                shape.domains, shape.cores, shape.nodes
            ),
        ]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut machine = Machine(command.spawn()?);
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
    let (mut up, mut passed) = (false, false);
    loop {
        let patience = if up {
            shape.patience
        } else {
            shape.patience / 4
        };
        let left = patience.saturating_sub(begun.elapsed());
        match lines.recv_timeout(left) {
            Ok(line) => {
                println!("  {line}");
                up |= line.starts_with("vm: ");
                passed |= line == PASSED;
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
    if passed {
        Ok(begun.elapsed().as_secs())
    } else {
        Err(io::Error::other(
            "the machine ended without passing its checks; see its console above",
        ))
    }
}
