//! The machine that is measured, and what the report says of it and of the command: all that others need to compare,
//! and no path.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use chiplet_topology::{LevelChoice, Topology, cpu_ranges};

use super::arguments::Arguments;
use super::kernel;
use super::report::{Domain, Machine};

/// The machine; its private L2s as domains if there is only one L3 and nothing else was asked for. What a user should
/// know of it is told to `tell`.
pub(crate) fn topology(arguments: &Arguments, tell: impl Fn(&str)) -> anyhow::Result<Topology> {
    if let Some(level) = arguments.level {
        return Ok(Topology::detect(level)?);
    }
    let auto = Topology::detect(LevelChoice::Auto)?;
    if let Some(domains) = &arguments.domains {
        return Ok(auto.with_domains(domains)?);
    }
    for warning in auto.warnings() {
        tell(&format!("warning: {warning}"));
    }
    // Where L3s are made up private L2s are too.
    if auto.domains().len() > 1 || !auto.warnings().is_empty() {
        return Ok(auto);
    }
    match Topology::detect(LevelChoice::L2) {
        Ok(private) if private.domains().len() > 1 => {
            tell(
                "one L3 here, so each core's L2 is taken as a domain; --level l3 shows the machine as one domain",
            );
            Ok(private)
        }
        _ => Ok(auto),
    }
}

pub(crate) fn describe(topology: &Topology, counters: String) -> Machine {
    let domains = topology.domains();
    let caches = || domains.iter().map(|domain| domain.cache_bytes);
    let cores = || domains.iter().flat_map(|domain| &domain.cores);
    let distinct = |of: fn(&chiplet_topology::Domain) -> u32| {
        domains.iter().map(of).collect::<BTreeSet<_>>().len()
    };
    Machine {
        cpu: field("/proc/cpuinfo", "model name")
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        kernel: release(),
        cpus: topology.cpu_count(),
        cores: topology.core_count(),
        smt: cores().map(|core| core.cpus.len()).max().unwrap_or(1),
        packages: distinct(|domain| domain.package),
        nodes: distinct(|domain| domain.node),
        level: topology.level().to_string(),
        domains: domains.len(),
        layout: domains.iter().map(domain).collect(),
        taken_away: topology
            .restrictions()
            .iter()
            .map(ToString::to_string)
            .collect(),
        hypervisor: hypervisor(),
        governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|all| chosen(&all)),
        reserved_huge_pages: text("/proc/sys/vm/nr_hugepages").and_then(|pages| pages.parse().ok()),
        domain_cache_bytes: [caches().min().unwrap_or(0), caches().max().unwrap_or(0)],
        memory_bytes: memory(),
        counters,
        load_average: load_average(),
        numa_balancing: chiplet_topology::numa_balancing(),
        settings: kernel::settings(
            Path::new("/"),
            &rustix::system::uname().release().to_string_lossy(),
        ),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn domain(domain: &chiplet_topology::Domain) -> Domain {
    Domain {
        cpus: cpu_ranges(&domain.cpus()),
        cores: domain.cores.len(),
        cache_bytes: domain.cache_bytes,
        package: domain.package,
        node: domain.node,
    }
}

/// The command line that gives the report again. Of paths only the last part is kept: a report may go to others.
pub(crate) fn command() -> String {
    let words = std::env::args()
        .skip(1)
        .map(|word| match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => {
                format!("{option}={}", nameless(value))
            }
            _ => nameless(&word).to_owned(),
        });
    std::iter::once("chiplet".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn nameless(word: &str) -> &str {
    Path::new(word)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(word)
}

/// The value behind `name` and a colon in a file such as `/proc/cpuinfo`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// A file of one line.
fn text(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The word in brackets, as the kernel marks the choice that is in force.
fn chosen(choices: &str) -> Option<String> {
    let (_, rest) = choices.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// The hypervisor that the processor tells of, with the vendor that the firmware names.
fn hypervisor() -> Option<String> {
    let flags = field("/proc/cpuinfo", "flags")?;
    flags
        .split_whitespace()
        .find(|flag| *flag == "hypervisor")?;
    let vendor = text("/sys/class/dmi/id/sys_vendor").filter(|vendor| !vendor.is_empty());
    Some(vendor.unwrap_or_else(|| "not named".to_owned()))
}

/// Bytes of this process' own memory that are in RAM, where the kernel says (Linux 4.5).
pub(crate) fn resident() -> Option<u64> {
    bytes(&field("/proc/self/status", "RssAnon")?)
}

/// Bytes of memory, where the kernel says.
pub(crate) fn memory() -> Option<u64> {
    bytes(&field("/proc/meminfo", "MemTotal")?)
}

/// Bytes from a text such as `1024 kB`.
fn bytes(text: &str) -> Option<u64> {
    let kibibytes: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// When the run began: later its own work counts.
fn load_average() -> Option<f64> {
    static FIRST: OnceLock<Option<f64>> = OnceLock::new();
    *FIRST.get_or_init(load_average_now)
}

fn load_average_now() -> Option<f64> {
    text("/proc/loadavg")?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn release() -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_their_folders_and_other_words_stay() {
        assert_eq!(nameless("/home/someone/out/bench.html"), "bench.html");
        assert_eq!(nameless("rayon,ccd-aware@10"), "rayon,ccd-aware@10");
        assert_eq!(nameless("70%"), "70%");
    }

    #[test]
    fn the_choice_in_force_is_the_one_in_brackets() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("always"), None);
    }

    #[test]
    fn a_machine_is_described_by_its_domains() {
        let machine = describe(&Topology::uniform(2, 4, 32 << 20), "none".to_owned());
        assert_eq!((machine.domains, machine.cores, machine.smt), (2, 8, 1));
        let cpus: Vec<_> = machine.layout.iter().map(|domain| &*domain.cpus).collect();
        assert_eq!(cpus, ["0-3", "4-7"]);
    }
}
