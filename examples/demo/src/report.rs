//! What the demo prints and writes.

use std::path::Path;

use anyhow::Context;
use chiplet::snapshot::{RemapEvent, Snapshot};
use chiplet::{Executor, TableId};
use chiplet_workload::latency::{LatencyRecorder, LatencySummary};
use serde_json::{Value, json};

use crate::serve::{Equal, Phase};
use crate::tables::{BuiltTable, Kind};

/// Prints a placement change as it happens.
pub fn remap(event: &RemapEvent) {
    println!("remap: placement {}: {}", event.version, event.reason);
    for moved in &event.moves {
        println!("  {:8} {} -> {}", moved.name, moved.from, moved.to);
    }
}

/// How the workers are tied to the machine, and what failed.
pub fn workers(executor: &Executor) {
    let workers = executor.workers();
    let tied = workers
        .iter()
        .filter(|worker| worker.refused.is_none())
        .count();
    println!("workers: {}, {tied} pinned as asked", workers.len());
    for worker in workers {
        if let Some(refused) = &worker.refused {
            println!("  worker {} floats: {refused}", worker.index);
        }
    }
}

/// Where the tables are, and what each pulls.
pub fn placement(executor: &Executor, tables: &[TableId], built: &[BuiltTable], when: &str) {
    let snapshot = executor.snapshot();
    println!("\nplacement {} {when}:", snapshot.placement.version());
    println!(
        "  {:8} {:>8} {:>12} {:>9} {:>9} {:>9}  home",
        "table", "rows", "traffic", "answered", "p50", "p99"
    );
    let mut rows: Vec<_> = tables
        .iter()
        .zip(built)
        .filter_map(|(id, table)| {
            let counted = snapshot.tables.iter().find(|counted| counted.id == *id)?;
            Some((counted, table))
        })
        .collect();
    rows.sort_by(|a, b| b.0.traffic.fast.total_cmp(&a.0.traffic.fast));
    for (counted, table) in rows {
        let service = |percent| counted.service.percentile(percent).as_secs_f64() * 1e6;
        println!(
            "  {:8} {:>8} {:>7.1} MB/s {:>9} {:>6.0} us {:>6.0} us  {}",
            table.name,
            table.index.len(),
            counted.traffic.fast / 1e6,
            counted.counts.done,
            service(50.0),
            service(99.0),
            counted.homes
        );
    }
    for domain in &snapshot.domains {
        let sum: f64 = snapshot
            .tables
            .iter()
            .flat_map(|table| table.homes.iter().map(move |home| (table, home)))
            .filter(|(_, home)| home.domain == domain.id)
            .map(|(table, home)| table.traffic.fast * home.share())
            .sum();
        println!("  domain {}: {:.1} MB/s", domain.id, sum / 1e6);
    }
    println!();
}

/// All figures of a run.
pub struct Outcome {
    pub snapshot: Snapshot,
    pub phases: Vec<Phase>,
    pub latency: LatencySummary,
    equal: Equal,
    pub saturation: f64,
    pub rate: f64,
    machine: Value,
    tables: usize,
}

impl Outcome {
    pub fn new(
        executor: &Executor,
        built: &[BuiltTable],
        phases: Vec<Phase>,
        equal: Equal,
        saturation: f64,
        rate: f64,
    ) -> Self {
        let all = LatencyRecorder::new();
        for phase in &phases {
            for (_, part) in &phase.parts {
                all.merge(part);
            }
        }
        let topology = executor.topology();
        Self {
            snapshot: executor.snapshot(),
            latency: all.summary(),
            equal,
            saturation,
            rate,
            machine: json!({
                "source": topology.source().to_string(),
                "level": topology.level().to_string(),
                "domains": topology.domains().len(),
                "workers": executor.workers().len(),
            }),
            tables: built.len(),
            phases,
        }
    }

    pub fn recall(&self, kinds: &[Kind]) -> f64 {
        let (mut sum, mut count) = (0.0, 0);
        for phase in &self.phases {
            for &kind in kinds {
                let (kind_sum, kind_count) = phase.recall[usize::from(kind == Kind::Ivf)];
                sum += kind_sum;
                count += kind_count;
            }
        }
        if count == 0 { 0.0 } else { sum / count as f64 }
    }

    pub fn throughput(&self) -> f64 {
        let answered: u64 = self.phases.iter().map(|phase| phase.answered).sum();
        let seconds: f64 = self
            .phases
            .iter()
            .map(|phase| phase.load.elapsed.as_secs_f64())
            .sum();
        if seconds > 0.0 {
            answered as f64 / seconds
        } else {
            0.0
        }
    }

    pub fn print(&self) {
        let steals = self.snapshot.steals;
        println!(
            "recall@10: {:.4} (HNSW {:.4}, IVF {:.4}), against exact search, over all answers",
            self.recall(&[Kind::Hnsw, Kind::Ivf]),
            self.recall(&[Kind::Hnsw]),
            self.recall(&[Kind::Ivf])
        );
        println!(
            "equal to the tables' own search called directly: {} of {} answers",
            self.equal.equal, self.equal.compared
        );
        println!(
            "throughput: {:.0} queries/s over {} tables",
            self.throughput(),
            self.tables
        );
        for phase in &self.phases {
            println!(
                "{}: p50 {:.0} us, p99 {:.0} us, p999 {:.0} us; {} answered, {} refused; sent late by p99 {:.0} us",
                phase.name,
                phase.latency.p50,
                phase.latency.p99,
                phase.latency.p999,
                phase.answered,
                phase.refused,
                phase.load.lag.p99
            );
        }
        println!(
            "latency, from the intended send time: p50 {:.0} us, p99 {:.0} us, p999 {:.0} us",
            self.latency.p50, self.latency.p99, self.latency.p999
        );
        println!(
            "steals: own {}, domain {}, remote {}; moved at submit: {}; remaps: {}; placement version {}",
            steals.own,
            steals.domain,
            steals.remote,
            steals.rebalanced + steals.overflow,
            self.snapshot.remaps,
            self.snapshot.placement.version()
        );
    }

    pub fn json(&self) -> String {
        let steals = self.snapshot.steals;
        let latency = |summary: &LatencySummary| json!({ "p50": summary.p50, "p99": summary.p99, "p999": summary.p999 });
        let phases: Vec<Value> = self
            .phases
            .iter()
            .map(|phase| {
                json!({
                    "name": phase.name,
                    "answered": phase.answered,
                    "refused": phase.refused,
                    "latency_us": latency(&phase.latency),
                    "send_lag_us": latency(&phase.load.lag),
                })
            })
            .collect();
        let figures = json!({
            "machine": self.machine,
            "recall_at_10": self.recall(&[Kind::Hnsw, Kind::Ivf]),
            "recall_at_10_by_kind": {
                "hnsw": self.recall(&[Kind::Hnsw]),
                "ivf": self.recall(&[Kind::Ivf]),
            },
            "equal_to_direct": { "equal": self.equal.equal, "compared": self.equal.compared },
            "saturation_qps": self.saturation,
            "rate_qps": self.rate,
            "throughput_qps": self.throughput(),
            "latency_us": latency(&self.latency),
            "steals": {
                "own": steals.own, "domain": steals.domain, "remote": steals.remote,
                "rebalanced": steals.rebalanced, "overflow": steals.overflow,
            },
            "remaps": self.snapshot.remaps,
            "phases": phases,
        });
        format!("{figures:#}\n")
    }
}

/// Writes a file, and makes its folder.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("could not make {}", folder.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("could not write {}", path.display()))
}
