//! The first process of the emulated machine: runs this program as the runner has asked for, one time after the other.

use std::fs;
use std::process::Command;

use anyhow::Context as _;
use chiplet_vm::init;

/// What is run: for each time the words of a command line, as JSON.
pub const RUNS: &str = "/runs.json";

pub fn run() -> anyhow::Result<()> {
    init::mount_at("proc", "/proc");
    init::mount_at("sysfs", "/sys");
    let runs = fs::read(RUNS).context(RUNS)?;
    let runs: Vec<Vec<String>> = serde_json::from_slice(&runs)?;
    let mut failed = 0;
    for words in runs {
        println!("vm: {}", words.join(" "));
        let status = Command::new("/proc/self/exe")
            .args(words)
            // QEMU is slow with FMA.
            .env("CHIPLET_SIMD", "portable")
            .status()?;
        if !status.success() {
            println!("vm: FAILED: {status}");
            failed += 1;
        }
    }
    init::end(failed);
    Ok(())
}
