//! Automatic NUMA balancing, set while a round runs.

use std::fs;

use anyhow::Context as _;
use chiplet_topology::numa_balancing;
use parking_lot::Mutex;

use super::super::arguments::AutoNuma;

const SWITCH: &str = "/proc/sys/kernel/numa_balancing";

/// What it was before the first round, as long as it has to be put back.
static BEFORE: Mutex<Option<bool>> = Mutex::new(None);

/// Puts the system's setting back when it goes.
pub(super) struct Balancing(());

impl Balancing {
    /// Finds out whether the setting can be written.
    pub(super) fn new() -> anyhow::Result<Self> {
        let before = numa_balancing().context(
            "--autonuma: this kernel has no automatic NUMA balancing; leave the option out",
        )?;
        write(before).context(
            "--autonuma: kernel.numa_balancing cannot be set; run as root, or leave the option out",
        )?;
        *BEFORE.lock() = Some(before);
        Ok(Self(()))
    }

    pub(super) fn set(&self, to: AutoNuma) -> anyhow::Result<()> {
        // Under the lock: who ends the program meanwhile puts it back after this, or this is not done.
        let before = BEFORE.lock();
        match *before {
            Some(_) => write(to == AutoNuma::On),
            None => Ok(()),
        }
    }
}

impl Drop for Balancing {
    fn drop(&mut self) {
        put_back();
    }
}

/// Puts the setting back, if it was changed.
pub(super) fn put_back() {
    let Some(before) = BEFORE.lock().take() else {
        return;
    };
    if let Err(error) = write(before) {
        eprintln!(
            "chiplet: kernel.numa_balancing was not put back to {}: {error:#}",
            u8::from(before)
        );
    }
}

fn write(on: bool) -> anyhow::Result<()> {
    Ok(fs::write(SWITCH, if on { "1" } else { "0" })?)
}
