//! The result of a run: plain figures, all of them modelled.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The strategy's name.
    pub strategy: String,
    /// The machine's.
    pub machine: String,
    /// Domains and workers.
    pub domains: usize,
    /// Workers.
    pub workers: usize,
    /// Queries sent, from the beginning of the run.
    pub sent: u64,
    /// Queries answered, from the beginning of the run.
    pub answered: u64,
    /// Queries refused since the warm-up.
    pub shed: u64,
    /// Virtual seconds since the warm-up.
    pub seconds: f64,
    /// Queries answered since the warm-up.
    pub counted: u64,
    /// Answers a second.
    pub qps: f64,
    /// From arrival to answer, microseconds.
    pub latency_us: Percentiles,
    /// From arrival to start, microseconds.
    pub wait_us: Percentiles,
    /// The part of workers' time in which they had work.
    pub utilisation: f64,
    /// The part of that in which they waited for caches or memory.
    pub stall_share: f64,
    /// Of the lines that no L2 had, the part that came from memory.
    pub l3_miss_ratio: f64,
    /// Lines from memory for each query.
    pub l3_misses_per_query: f64,
    /// Bytes from memory for each query.
    pub memory_bytes_per_query: f64,
    /// Of the bytes from memory, the part from another socket's than the reader's.
    pub remote_share: f64,
    /// Nanoseconds until a line has come from the reader's own socket's memory, on average; 0 if none has.
    pub near_ns: f64,
    /// The same from another socket's.
    pub far_ns: f64,
    /// Use of each link, of 1.
    pub links: Vec<f64>,
    /// Use of each socket's memory by this workload, of 1.
    pub sockets: Vec<f64>,
    /// Tasks and units taken from the worker's own queue, from its domain, and from other domains.
    pub taken: [u64; 3],
    /// The part of those that crossed domains.
    pub crossing_share: f64,
    /// Changes of the placement.
    pub remaps: Vec<Moved>,
    /// For each table the domains that are home to it at the end, with their parts.
    pub placement: Vec<Vec<(u32, f64)>>,
    /// What became of each tenant's queries, by kind, where the workload has tenants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<Served>,
    /// The same of each table alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Served>,
    /// Answers in each tenth of a second of the run.
    pub timeline: Vec<u64>,
    /// The 99th percentile of their latencies in each tenth of a second, microseconds; 0 where there were none.
    pub timeline_p99_us: Vec<f64>,
}

/// Tenths of a second of the run.
const TENTH: f64 = 0.1;

/// Tenths of a second in a row, the middle of which counts: one alone has few answers above its 99th percentile.
const SPAN: usize = 5;

impl Outcome {
    /// How long latency takes to recover from a flip of the hot set `flip` seconds into the run: seconds until half a
    /// second begins in which p99 is at most a tenth above what it was in the last half of the time before. `None` if
    /// that does not happen within the run.
    pub fn recovered_after(&self, flip: f64) -> Option<f64> {
        let at =
            |seconds: f64| ((seconds / TENTH).round() as usize).min(self.timeline_p99_us.len());
        let (before, after) = self.timeline_p99_us.split_at(at(flip));
        let before = &before[at(flip / 2.0).min(before.len())..];
        if before.is_empty() {
            return None;
        }
        let steady = middle(before);
        let recovered = |span: &[f64]| middle(span) <= 1.1 * steady;
        let found = after.windows(SPAN).position(recovered)?;
        Some(found as f64 * TENTH)
    }
}

fn middle(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What became of queries of one kind since the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Served {
    /// The tenant's name, with a number if it has several kinds of queries.
    pub name: String,
    /// `interactive` or `bulk`.
    pub class: String,
    /// Which of the workload's tables, if it is one alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<usize>,
    /// How many tables.
    pub tables: usize,
    /// Answered in time.
    pub done: u64,
    /// Not answered in time.
    pub expired: Expired,
    /// Refused, for want of places in the queue.
    pub refused: u64,
    /// Begun by workers of a domain that is home to the table; 0 under strategies that know no homes.
    pub at_home: u64,
    /// Begun by others.
    pub away: u64,
    /// From arrival to start, microseconds, of those that began.
    pub wait_us: Percentiles,
    /// From arrival to answer, microseconds, of those that were answered in time.
    pub latency_us: Percentiles,
    /// The part of all workers' time that they took.
    pub time_share: f64,
    /// How many were answered and how many expired in each second, from the beginning of the run.
    pub each_second: Vec<[u64; 2]>,
}

/// Queries whose deadline passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Expired {
    /// While they waited in a queue.
    pub waiting: u64,
    /// Not begun by the worker that took them, as there was too little time left.
    pub passed_over: u64,
    /// While they ran: time spent for nothing.
    pub late: u64,
}

impl Expired {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.waiting + self.passed_over + self.late
    }
}

/// Percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// 99 % are below this.
    pub p99: f64,
    /// 99.9 % are below this.
    pub p999: f64,
    /// The mean.
    pub mean: f64,
}

impl Percentiles {
    /// Microseconds of nanoseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            mean: histogram.mean() / 1e3,
        }
    }
}

/// A change of the placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// Seconds from the beginning of the run.
    pub at: f64,
    /// Tables whose homes changed.
    pub tables: usize,
    /// Bytes that went cold.
    pub cold_bytes: u64,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(p99: &[f64]) -> Outcome {
        let none = Percentiles {
            p50: 0.0,
            p99: 0.0,
            p999: 0.0,
            mean: 0.0,
        };
        Outcome {
            strategy: String::new(),
            machine: String::new(),
            domains: 1,
            workers: 1,
            sent: 0,
            answered: 0,
            shed: 0,
            seconds: 1.0,
            counted: 0,
            qps: 0.0,
            latency_us: none,
            wait_us: none,
            utilisation: 0.0,
            stall_share: 0.0,
            l3_miss_ratio: 0.0,
            l3_misses_per_query: 0.0,
            memory_bytes_per_query: 0.0,
            remote_share: 0.0,
            near_ns: 0.0,
            far_ns: 0.0,
            links: Vec::new(),
            sockets: Vec::new(),
            taken: [0; 3],
            crossing_share: 0.0,
            remaps: Vec::new(),
            placement: Vec::new(),
            tenants: Vec::new(),
            tables: Vec::new(),
            timeline: Vec::new(),
            timeline_p99_us: p99.to_vec(),
        }
    }

    #[test]
    fn recovery_is_the_first_half_second_like_the_time_before() {
        let steady = [900.0; 10];
        let after = |slow: usize| [&steady[..], &vec![2_000.0; slow], &[950.0; 8]].concat();
        assert_eq!(outcome(&after(0)).recovered_after(1.0), Some(0.0));
        // Two slow tenths of five are not the middle.
        let found = outcome(&after(6)).recovered_after(1.0).unwrap();
        assert!((found - 0.4).abs() < 1e-9, "{found}");
        let never = [&steady[..], &[2_000.0; 20]].concat();
        assert_eq!(outcome(&never).recovered_after(1.0), None);
        assert_eq!(outcome(&steady).recovered_after(1.0), None);
        assert_eq!(outcome(&[]).recovered_after(1.0), None);
    }
}
