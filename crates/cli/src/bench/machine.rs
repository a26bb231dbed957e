//! What the report says of the machine.

use std::fs;

use chiplet_topology::Topology;

use super::report::Machine;

pub(crate) fn describe(topology: &Topology, counters: String) -> Machine {
    let caches = || topology.domains().iter().map(|domain| domain.cache_bytes);
    Machine {
        cpu: field("/proc/cpuinfo", "model name")
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        kernel: kernel(),
        cpus: topology.cpu_count(),
        cores: topology.core_count(),
        level: topology.level().to_string(),
        domains: topology.domains().len(),
        domain_cache_bytes: [caches().min().unwrap_or(0), caches().max().unwrap_or(0)],
        memory_bytes: memory(),
        counters,
        load_average: load_average(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The value behind `name` and a colon in a file such as `/proc/cpuinfo`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Bytes of this process' own memory that are in RAM, where the kernel says (Linux 4.5).
pub(crate) fn resident() -> Option<u64> {
    bytes(&field("/proc/self/status", "RssAnon")?)
}

fn memory() -> Option<u64> {
    bytes(&field("/proc/meminfo", "MemTotal")?)
}

/// Bytes from a text such as `1024 kB`.
fn bytes(text: &str) -> Option<u64> {
    let kibibytes: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn load_average() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn kernel() -> String {
    let name = rustix::system::uname();
    format!(
        "{} {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy()
    )
}

/// UTC now, as `2026-11-21T07:30:00Z`.
pub(crate) fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
