//! The comparison at several sizes of the tables, or on several numbers of domains: `--size` and `--ccds` with lists.
//!
//! Tables are as many at each point: as the largest machine of the list has by default.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail, ensure};
use chiplet_topology::Topology;

use super::arguments::Arguments;
use super::report::{Report, ScalePoint, ScaledStrategy};
use super::sizes::Caches;
use super::{machine, recipe, series, sizes};

/// A point: so many domains, so many times the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    domains: usize,
    size: f64,
}

/// Runs the comparison at each point. The report is of the point with most domains and a size nearest to 1, and has the
/// throughput of all.
pub(super) fn run(
    arguments: &Arguments,
    topology: &Topology,
    stop: &AtomicBool,
) -> anyhow::Result<Report> {
    let points = points(arguments, topology.domains().len())?;
    let most = points.iter().map(|point| point.domains).max().unwrap_or(1);
    let mut arguments = Caches::of(&first(topology, most)?).sized(arguments);
    check_memory(&arguments, &points)?;
    if let Some(workload) = recipe::read(&arguments)? {
        arguments.table_skew = workload.table_skew;
        arguments.query_skew = workload.query_skew;
    }
    let mut report: Option<(Point, Report)> = None;
    let mut scaling = Vec::new();
    let mut failed = None;
    for (number, &point) in points.iter().enumerate() {
        if points.len() > 1 {
            eprintln!(
                "point {} of {}: {} domains, rows x {}",
                number + 1,
                points.len(),
                point.domains,
                point.size
            );
        }
        let machine = first(topology, point.domains)?;
        let found = match series::run(&arguments.at(point.size), &machine, stop) {
            Ok(found) => found,
            // What was measured before is worth more than an error.
            Err(error) if report.is_some() => {
                if !stop.load(Ordering::Relaxed) {
                    failed = Some(format!(
                        "{} domains, rows x {}, and what would have followed are missing: {error:#}",
                        point.domains, point.size
                    ));
                }
                break;
            }
            Err(error) => return Err(error),
        };
        if points.len() > 1 {
            scaling.push(scaled(point, &found, &machine));
        }
        let better = |kept: &Point| nearer(point, *kept);
        if report.as_ref().is_none_or(|(kept, _)| better(kept)) {
            report = Some((point, found));
        }
    }
    let (_, mut report) = report.context("no point was measured")?;
    report.scaling = scaling;
    report.notes.extend(failed);
    Ok(report)
}

/// Whether the tables of all points fit into memory: those of one stay until the last has been measured.
fn check_memory(arguments: &Arguments, points: &[Point]) -> anyhow::Result<()> {
    let mut bytes = 0;
    for point in points {
        let arguments = arguments.at(point.size);
        bytes += match recipe::read(&arguments)? {
            Some(workload) => recipe::need(&workload),
            None => sizes::need(&arguments),
        };
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    match machine::memory() {
        Some(memory) if bytes > memory / 10 * 8 => bail!(
            "building the tables takes about {:.1} GiB and the machine has {:.1}: give smaller or fewer --size, or fewer \
             --tables",
            gib(bytes),
            gib(memory)
        ),
        _ => Ok(()),
    }
}

/// All pairs of `--ccds` and `--size`.
fn points(arguments: &Arguments, domains: usize) -> anyhow::Result<Vec<Point>> {
    ensure!(
        arguments.size.is_empty() || arguments.workload.is_some() || arguments.data == "synthetic",
        "--size multiplies the rows of tables that are drawn: leave out --data"
    );
    let ccds: Vec<usize> = match arguments.ccds.as_slice() {
        [] => vec![domains],
        asked => asked.iter().map(|&asked| asked as usize).collect(),
    };
    if let Some(&asked) = ccds.iter().find(|&&asked| asked > domains) {
        bail!("--ccds {asked}: this machine has {domains} domains; chiplet topology shows them");
    }
    let sizes = match arguments.size.as_slice() {
        [] => &[1.0],
        sizes => sizes,
    };
    let pairs = ccds
        .iter()
        .flat_map(|&domains| sizes.iter().map(move |&size| Point { domains, size }));
    Ok(pairs.collect())
}

/// The machine's first `domains` domains.
fn first(topology: &Topology, domains: usize) -> anyhow::Result<Topology> {
    if domains == topology.domains().len() {
        return Ok(topology.clone());
    }
    let cpus = topology.domains()[..domains].iter();
    let cpus: Vec<u32> = cpus.flat_map(|domain| domain.cpus()).collect();
    Ok(topology.restricted_to(&cpus)?)
}

/// Whether a report of `point` says more than one of `other`: more domains, then a size nearer to 1.
fn nearer(point: Point, other: Point) -> bool {
    let off = |point: Point| point.size.ln().abs();
    point.domains > other.domains || (point.domains == other.domains && off(point) < off(other))
}

fn scaled(point: Point, report: &Report, machine: &Topology) -> ScalePoint {
    let strategies = report.strategies.iter().map(|strategy| ScaledStrategy {
        name: strategy.name.clone(),
        throughput_qps: strategy.throughput_qps,
        rounds_qps: strategy
            .rounds
            .iter()
            .map(|round| round.throughput_qps)
            .collect(),
    });
    ScalePoint {
        domains: point.domains,
        workers: report.generator.workers,
        size: point.size,
        bytes: report.workload.bytes,
        cache_bytes: machine
            .domains()
            .iter()
            .map(|domain| domain.cache_bytes)
            .sum(),
        strategies: strategies.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_of_most_domains_and_the_size_nearest_to_one() {
        let point = |domains, size| Point { domains, size };
        assert!(nearer(point(12, 10.0), point(1, 1.0)));
        assert!(nearer(point(12, 0.3), point(12, 10.0)));
        assert!(!nearer(point(12, 3.0), point(12, 1.0)));
    }

    #[test]
    fn the_first_domains_are_a_machine() {
        let machine = Topology::uniform(12, 8, 32 << 20);
        let four = first(&machine, 4).unwrap();
        assert_eq!((four.domains().len(), four.core_count()), (4, 32));
    }
}
