//! What became of queries, by table and kind, and of all tables of a tenant together.

use super::Engine;
use super::rows::Row;
use crate::outcome::{Expired, Percentiles, Served};
use crate::workload::class_name;

impl Engine<'_> {
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
        let all = (self.now - self.meter.began).max(1) as f64 * self.workers.len() as f64;
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
