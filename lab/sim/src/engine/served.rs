//! What a run has shown: of all queries, by table and kind, and of all tables of a tenant together.

use super::Engine;
use super::hardware::Pipe;
use super::rows::Row;
use crate::cache::Lines;
use crate::outcome::{Expired, Outcome, Percentiles, Served};
use crate::workload::class_name;

impl Engine<'_> {
    pub(super) fn outcome(mut self) -> Outcome {
        self.meter.end_tenth();
        let meter = &self.meter;
        let nanos = (self.timeline.now() - meter.began).max(1) as f64;
        let queries = meter.counted.max(1) as f64;
        let busy: u64 = meter.busy.iter().sum();
        let Lines { l3, memory, .. } = meter.lines;
        let taken: u64 = meter.taken.iter().sum();
        let usage = |pipes: &[Pipe], before: &[f64], gbs: f64| {
            let pipes = pipes.iter().enumerate();
            let bytes = pipes.map(|(at, pipe)| pipe.bytes - before.get(at).unwrap_or(&0.0));
            bytes.map(|bytes| bytes / nanos / gbs).collect()
        };
        let reach = &self.hardware.memory.reach;
        let [near, far] = [0, 1].map(|at| reach[at].since(meter.reach[at]));
        let from_memory = near.bytes + far.bytes;
        let (tenants, tables) = self.served();
        let costs = &self.scenario.machine.costs;
        let homes = self.balancer.homes.iter().map(|homes| {
            let homes = homes.iter().map(|home| (home.domain.0, home.share()));
            homes.collect()
        });
        Outcome {
            strategy: self.scenario.strategy.name.to_owned(),
            machine: self.scenario.machine.name.clone(),
            domains: self.domains.len(),
            workers: self.workers.len(),
            sent: meter.sent,
            answered: meter.answered,
            shed: meter.shed - meter.shed_before,
            seconds: nanos / 1e9,
            counted: meter.counted,
            qps: meter.counted as f64 / nanos * 1e9,
            latency_us: Percentiles::of(&meter.latencies),
            wait_us: Percentiles::of(&meter.waits),
            utilisation: busy as f64 / nanos / self.workers.len() as f64,
            stall_share: meter.stalled / (busy as f64).max(1.0),
            l3_miss_ratio: match l3 + memory > 0.0 {
                true => memory / (l3 + memory),
                false => 0.0,
            },
            l3_misses_per_query: memory / queries,
            memory_bytes_per_query: 64.0 * memory / queries,
            remote_share: match from_memory > 0.0 {
                true => far.bytes / from_memory,
                false => 0.0,
            },
            near_ns: near.latency(),
            far_ns: far.latency(),
            links: usage(
                &self.hardware.memory.links,
                &meter.link_bytes,
                costs.link_gbs,
            ),
            sockets: usage(
                &self.hardware.memory.sockets,
                &meter.socket_bytes,
                costs.socket_gbs,
            ),
            taken: meter.taken,
            crossing_share: meter.taken[2] as f64 / taken.max(1) as f64,
            remaps: self.balancer.remaps,
            placement: homes.collect(),
            tenants,
            tables,
            timeline: self.meter.timeline,
            timeline_p99_us: self.meter.timeline_p99,
        }
    }

    /// What became of the queries of each tenant's each kind, and of each table's.
    pub(super) fn served(&self) -> (Vec<Served>, Vec<Served>) {
        let (mut tenants, mut tables) = (Vec::new(), Vec::new());
        let mut rows = self.meter.rows.iter();
        for tenant in &self.scenario.prepared.workload.asking.tenants {
            let mut together: Vec<Row> = tenant.asks.iter().map(|_| Row::new()).collect();
            let named = |at: usize| {
                let ask = &tenant.asks[at];
                let name = match tenant.asks.len() {
                    1 => tenant.name.clone(),
                    _ => format!("{} {}", tenant.name, at + 1),
                };
                (name, class_name(ask.class))
            };
            for table in tenant.tables.clone() {
                for (at, (all, row)) in together.iter_mut().zip(rows.by_ref()).enumerate() {
                    all.add(row);
                    tables.push(self.served_by(named(at), row, 1, Some(table)));
                }
            }
            let count = tenant.tables.len();
            let together = together.iter().enumerate();
            tenants.extend(together.map(|(at, row)| self.served_by(named(at), row, count, None)));
        }
        (tenants, tables)
    }

    fn served_by(
        &self,
        (name, class): (String, &'static str),
        row: &Row,
        tables: usize,
        table: Option<usize>,
    ) -> Served {
        let all =
            (self.timeline.now() - self.meter.began).max(1) as f64 * self.workers.len() as f64;
        Served {
            name,
            class: class.to_owned(),
            table,
            tables,
            done: row.done,
            expired: Expired {
                waiting: row.waiting,
                passed_over: row.passed_over,
                late: row.late,
            },
            refused: row.refused,
            at_home: row.at_home,
            away: row.away,
            wait_us: Percentiles::of(&row.waits),
            latency_us: Percentiles::of(&row.latencies),
            time_share: row.busy as f64 / all,
            each_second: row.seconds.clone(),
        }
    }
}
