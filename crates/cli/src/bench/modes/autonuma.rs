//! Automatic NUMA balancing, set while a round runs.

use std::fs;

use anyhow::Context as _;
use chiplet_topology::numa_balancing;

use super::super::arguments::AutoNuma;

const SWITCH: &str = "/proc/sys/kernel/numa_balancing";

/// Puts the system's setting back when it goes.
pub(super) struct Balancing {
    before: bool,
}

impl Balancing {
    /// Finds out whether the setting can be written.
    pub(super) fn new() -> anyhow::Result<Self> {
        let before = numa_balancing().context(
            "--autonuma: this kernel has no automatic NUMA balancing; leave the option out",
        )?;
        let balancing = Self { before };
        balancing.write(before).context(
            "--autonuma: kernel.numa_balancing cannot be set; run as root, or leave the option out",
        )?;
        Ok(balancing)
    }

    pub(super) fn set(&self, to: AutoNuma) -> anyhow::Result<()> {
        self.write(to == AutoNuma::On)
    }

    fn write(&self, on: bool) -> anyhow::Result<()> {
        Ok(fs::write(SWITCH, if on { "1" } else { "0" })?)
    }
}

impl Drop for Balancing {
    fn drop(&mut self) {
        if let Err(error) = self.write(self.before) {
            eprintln!(
                "chiplet: kernel.numa_balancing was not put back to {}: {error:#}",
                u8::from(self.before)
            );
        }
    }
}
