//! What became of queries, by table and kind, and all tables of a tenant together.

use hdrhistogram::Histogram;

use super::Engine;
use super::meter::percentiles;
use crate::outcome::{Expired, Served};
use crate::workload::class_name;

/// What became of one kind of query of one table.
pub(super) struct Row {
    done: u64,
    /// Expired while they waited.
    pub(super) waiting: u64,
    pub(super) passed_over: u64,
    /// Expired while they ran.
    pub(super) late: u64,
    pub(super) refused: u64,
    pub(super) at_home: u64,
    pub(super) away: u64,
    /// Time of workers.
    pub(super) busy: u64,
    waits: Histogram<u64>,
    latencies: Histogram<u64>,
    /// Answered and expired in each second of the run, from its beginning.
    seconds: Vec<[u64; 2]>,
}

impl Row {
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new(2).expect("two digits are within bounds");
        Self {
            done: 0,
            waiting: 0,
            passed_over: 0,
            late: 0,
            refused: 0,
            at_home: 0,
            away: 0,
            busy: 0,
            waits: histogram(),
            latencies: histogram(),
            seconds: Vec::new(),
        }
    }

    /// Counts from now on; the seconds go on from the beginning of the run.
    pub(super) fn begin(&mut self) {
        let seconds = std::mem::take(&mut self.seconds);
        *self = Self {
            seconds,
            ..Self::new()
        };
    }

    /// Counts one that began after so long.
    pub(super) fn waited(&mut self, nanos: u64) {
        grow_and_record(&mut self.waits, nanos);
    }

    /// Counts one that was answered in time, so long after it came, in that second of the run.
    pub(super) fn answered(&mut self, nanos: u64, second: usize) {
        self.done += 1;
        self.second(second)[0] += 1;
        grow_and_record(&mut self.latencies, nanos);
    }

    fn second(&mut self, second: usize) -> &mut [u64; 2] {
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, [0; 2]);
        }
        &mut self.seconds[second]
    }

    pub(super) fn expired_in(&mut self, second: usize) {
        self.second(second)[1] += 1;
    }

    fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.waiting += other.waiting;
        self.passed_over += other.passed_over;
        self.late += other.late;
        self.refused += other.refused;
        self.at_home += other.at_home;
        self.away += other.away;
        self.busy += other.busy;
        for (all, other) in [
            (&mut self.waits, &other.waits),
            (&mut self.latencies, &other.latencies),
        ] {
            all.add(other).expect("it grows as need be");
        }
        for (second, [done, expired]) in other.seconds.iter().enumerate() {
            let all = self.second(second);
            all[0] += done;
            all[1] += expired;
        }
    }
}

/// Of thousands of rows most have short times, so each histogram is as long as it has to be.
fn grow_and_record(histogram: &mut Histogram<u64>, nanos: u64) {
    let recorded = histogram.record(nanos.max(1));
    recorded.expect("it grows as need be");
}

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
            wait_us: percentiles(&row.waits),
            latency_us: percentiles(&row.latencies),
            time_share: row.busy as f64 / all,
            each_second: row.seconds.clone(),
        }
    }
}
