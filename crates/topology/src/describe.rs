//! The machine as a person reads it.

use crate::cpuset::cpu_ranges;
use crate::distance::Distance;
use crate::level::Level;
use crate::model::{Domain, Topology};
use std::fmt;

/// How many domains a machine may have for each to be told where the others are.
const MAX_NEIGHBOURS: usize = 2048;

impl Topology {
    /// The other domains by distance, as in `same die 1; same node 2-11`. Not told of thousands, which
    /// nobody reads and which take as long as their square.
    fn neighbours(&self, domain: &Domain) -> String {
        if self.domains().len() > MAX_NEIGHBOURS {
            return String::new();
        }
        let mut groups: Vec<(Distance, Vec<u32>)> = Vec::new();
        for other in self.nearest(domain.id) {
            let distance = self.distance(domain.id, other);
            match groups.last_mut() {
                Some((last, ids)) if *last == distance => ids.push(other.0),
                _ => groups.push((distance, vec![other.0])),
            }
        }
        let words: Vec<String> = groups
            .iter()
            .map(|(distance, ids)| format!("{distance} {}", cpu_ranges(ids)))
            .collect();
        words.join("; ")
    }
}

/// Several lines with a line break at the end: domains by package and NUMA node, their cache, cores and cpus, who is
/// near whom, what was taken away, and why the domains are what they are.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let domains = self.domains();
        writeln!(
            f,
            "{}, {}, {} (source: {})",
            count(domains.len(), "domain"),
            count(self.core_count(), "core"),
            count(self.cpu_count(), "cpu"),
            self.source()
        )?;
        writeln!(f, "level {}: {}", self.level(), self.reason())?;

        let rows: Vec<[String; 4]> = domains
            .iter()
            .map(|domain| {
                [
                    format!("domain {}", domain.id),
                    cache(self.level(), domain.cache_bytes),
                    cores(domain),
                    format!("cpus {}", cpu_ranges(&domain.cpus())),
                ]
            })
            .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2), width(3)];
        let mut place = None;
        for (domain, [name, cache, cores, cpus]) in domains.iter().zip(&rows) {
            if place != Some((domain.package, domain.node)) {
                place = Some((domain.package, domain.node));
                writeln!(f, "package {}, NUMA node {}", domain.package, domain.node)?;
            }
            let neighbours = self.neighbours(domain);
            let line = format!(
                "  {name:<w0$}  {cache:>w1$}  {cores:>w2$}  {cpus:<w3$}  {neighbours}",
                w0 = widths[0],
                w1 = widths[1],
                w2 = widths[2],
                w3 = widths[3]
            );
            writeln!(f, "{}", line.trim_end())?;
        }

        if self.restrictions().is_empty() {
            writeln!(f, "taken away: nothing")?;
        } else {
            writeln!(f, "taken away:")?;
            for restriction in self.restrictions() {
                writeln!(f, "  {restriction}")?;
            }
        }
        for warning in self.warnings() {
            // A sentence a line.
            writeln!(f, "warning: {}", warning.to_string().replace(". ", ".\n  "))?;
        }
        writeln!(f, "workers: at most {}", self.worker_limit())
    }
}

fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Their number, and how much each does where cores differ.
fn cores(domain: &Domain) -> String {
    let cores = count(domain.cores.len(), "core");
    match domain.speed() {
        speed if speed < 0.995 => format!("{cores} of speed {speed:.2}"),
        _ => cores,
    }
}

fn cache(level: Level, bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match level {
        Level::L3 | Level::L2 | Level::Given if bytes == 0 => "unknown size".to_owned(),
        // Caches of less than a MiB, or of 1.25 MiB, are told in KiB rather than rounded.
        Level::L3 | Level::L2 | Level::Given if bytes.is_multiple_of(MIB) => {
            format!("{} MiB", bytes / MIB)
        }
        Level::L3 | Level::L2 | Level::Given => format!("{} KiB", bytes >> 10),
        Level::Node | Level::Package | Level::Machine => "no shared cache known".to_owned(),
    }
}
