//! One process under QEMU: started, watched, and ended with its parent.

use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use chiplet_caches::seen::{Config, Seen, Told};

/// Many times what a run takes.
const PATIENCE: Duration = Duration::from_secs(1200);
const QEMU: &str = "qemu-x86_64";
const PLUGIN: &str = "libchiplet_caches_plugin.so";

/// What QEMU calls itself.
pub fn version() -> anyhow::Result<String> {
    let output = Command::new(QEMU)
        .arg("--version")
        .output()
        .with_context(|| {
            format!("{QEMU} is not installed: scripts/setup.sh qemu-user (Debian: qemu-user 7.2)")
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A flag that Ctrl-C sets.
pub fn stop_on_ctrl_c() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// Ends with whoever holds it.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The plugin lies with the examples, beside this program or above it.
pub fn plugin(program: &Path) -> anyhow::Result<PathBuf> {
    program
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("examples").join(PLUGIN))
        .find(|path| path.exists())
        .with_context(|| {
            format!(
                "there is no {PLUGIN}: `cargo build -p chiplet-caches --bins --examples` builds it, as does `make caches`"
            )
        })
}

/// Runs this program with `words` under QEMU. `scratch` is for files.
pub fn run(
    config: &Config,
    scratch: &Path,
    words: &[OsString],
    stop: &AtomicBool,
) -> anyhow::Result<(Seen, Told)> {
    let path = scratch.join("config.json");
    fs::write(&path, serde_json::to_vec(config)?)?;
    let program = std::env::current_exe()?;
    let plugin = plugin(&program)?;
    let child = Command::new(QEMU)
        .arg("-plugin")
        .arg(format!("{},config={}", plugin.display(), path.display()))
        .arg(&program)
        .args(words)
        // A processor without FMA, which QEMU emulates slowly.
        .env("QEMU_CPU", "qemu64")
        .env("CHIPLET_SIMD", "portable")
        // As many as glibc would make on the modelled machine; by default it goes by the host's cores.
        .env(
            "MALLOC_ARENA_MAX",
            (8 * config.part.domains * config.part.cores).to_string(),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {QEMU}"))?;
    let mut child = Guard(child);
    let read = |mut from: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut text = String::new();
            from.read_to_string(&mut text).map(|_| text)
        })
    };
    let output = read(Box::new(child.0.stdout.take().context("no output")?));
    let errors = read(Box::new(child.0.stderr.take().context("no errors")?));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "it takes more than {} minutes",
            PATIENCE.as_secs() / 60
        );
        thread::sleep(Duration::from_millis(20));
    };
    let text = output.join().expect("reading does not panic")?;
    let complaints = errors.join().expect("reading does not panic")?;
    ensure!(
        status.success(),
        "the program under QEMU failed ({status}): {}",
        complaints.trim()
    );
    let told =
        serde_json::from_str(&text).with_context(|| format!("it said {text:?} {complaints}"))?;
    let seen = fs::read(&config.report)
        .with_context(|| format!("the plugin has reported nothing; it said {complaints:?}"))?;
    Ok((serde_json::from_slice(&seen)?, told))
}
