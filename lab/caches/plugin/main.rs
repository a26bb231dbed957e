//! The plugin that QEMU loads, into a process that it emulates (`process`) or into a whole machine (`machine`). What
//! the emulated program touches goes to the model.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod machine;
mod process;
mod qemu;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use chiplet_caches::model::Machine;
use chiplet_caches::seen::Config;
use serde::Serialize;

/// What QEMU emulates.
#[derive(Clone, Copy)]
enum Emulated {
    /// One process, whose threads are the host's.
    Process,
    /// A machine of so many processors.
    Machine(u32),
}

fn install(arguments: &[String], emulated: Emulated) -> anyhow::Result<()> {
    let path = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("config="))
        .context("say config=FILE, as the runner does")?;
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let config: Config = serde_json::from_str(&text).with_context(|| path.to_owned())?;
    match emulated {
        Emulated::Process => process::install(config),
        Emulated::Machine(processors) => machine::install(config, processors),
    }
}

/// A machine with cold caches.
fn cold(config: &Config) -> Machine {
    Machine::new(
        config.part.clone(),
        config.wiring.clone(),
        config.page_bytes,
        config.bounces,
    )
}

fn report(path: &Path, seen: &impl Serialize) -> anyhow::Result<()> {
    fs::write(path, serde_json::to_vec(seen)?)
        .with_context(|| format!("cannot write {}", path.display()))
}
