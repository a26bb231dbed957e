//! Other programs: run to their end, and ended with this one.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long a program that is told to end may take to end what it has started.
const PATIENCE: Duration = Duration::from_secs(10);

/// A flag that Ctrl-C sets.
///
/// # Errors
/// If there is a handler already.
pub fn stop_on_ctrl_c() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// A program of this workspace: it lies beside this one, or above it where this one is a test.
///
/// # Errors
/// If it has not been built.
pub fn ours(name: &str) -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let folders = this.ancestors().skip(1).take(2);
    let mut paths = folders.map(|folder| folder.join(name));
    paths.find(|path| path.is_file()).with_context(|| {
        format!(
            "there is no {name} beside {}: `make validate` builds it",
            this.display()
        )
    })
}

/// Ends with whoever holds it.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        // It ends what it has started itself; only if it does not is it ended.
        if let Some(pid) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `command` to its end. What it prints is kept, and shown if it fails; what it reports goes to the terminal if
/// `shows`.
///
/// # Errors
/// If it cannot be started, fails, or `stop` is set.
pub fn run(command: &mut Command, shows: bool, stop: &AtomicBool) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = tempfile::tempfile()?;
    let errors = if shows {
        Stdio::inherit()
    } else {
        said.try_clone()?.into()
    };
    let child = command
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let mut child = Guard(child);
    let status = loop {
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        thread::sleep(Duration::from_millis(20));
    };
    ensure!(!stop.load(Ordering::Relaxed), "stopped");
    if !status.success() {
        use std::io::{Read as _, Seek as _};
        let mut text = String::new();
        let mut said = said;
        said.rewind()?;
        said.read_to_string(&mut text)?;
        bail!("{name} failed ({status}): {}", text.trim());
    }
    Ok(())
}
