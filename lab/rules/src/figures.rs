//! What a run is judged by.

use chiplet_sim::{Outcome, Percentiles, Served};
use serde::{Deserialize, Serialize};

/// A figure of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Of what, and whose.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: f64,
    /// What it tells.
    pub(crate) kind: Kind,
}

/// What a figure tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Answers a second: the more the better.
    Throughput,
    /// Microseconds at the 99th or 99.9th percentile: the less the better.
    Tail,
}

impl Kind {
    /// By which factor a figure may get worse before a user would mind.
    pub(crate) fn tolerance(self) -> f64 {
        match self {
            Self::Throughput => 1.03,
            Self::Tail => 1.1,
        }
    }

    /// By which factor `now` is worse than `before`: above 1 worse, below 1 better.
    pub(crate) fn worse(self, before: f64, now: f64) -> f64 {
        // A tail below some microseconds is nobody's concern.
        const SMALL: f64 = 20.0;
        match self {
            Self::Throughput => (before + 1e-3) / (now + 1e-3),
            Self::Tail => now.max(SMALL) / before.max(SMALL),
        }
    }
}

fn figure(name: String, value: f64, kind: Kind) -> Figure {
    Figure { name, value, kind }
}

/// Answers that tell a 99.9th percentile, at least.
const MANY: u64 = 5_000;

/// The figures of a run: of all queries, with `whole`, or of each kind of clients.
pub(crate) fn figures(outcome: &Outcome, whole: bool) -> Vec<Figure> {
    if whole {
        let mut all = vec![figure("answers".to_owned(), outcome.qps, Kind::Throughput)];
        all.extend(tails("", outcome.counted, outcome.latency_us));
        return all;
    }
    let tenants = outcome.tenants.iter();
    let each = tenants.flat_map(|served| of_tenant(served, outcome.seconds));
    each.collect()
}

/// Of a table that is not answered there is no tail.
fn tails(of: &str, answers: u64, latency: Percentiles) -> Vec<Figure> {
    let tail = |name: &str, value| figure(format!("{name}{of}"), value, Kind::Tail);
    let mut tails = Vec::new();
    if answers > 0 {
        tails.push(tail("p99", latency.p99));
    }
    if answers >= MANY {
        tails.push(tail("p999", latency.p999));
    }
    tails
}

/// Clients that fill a queue have chosen to wait: their latency is no figure.
fn of_tenant(served: &Served, seconds: f64) -> Vec<Figure> {
    let of = format!(" of {}", served.name);
    let answers = served.done as f64 / seconds;
    let mut all = vec![figure(format!("answers{of}"), answers, Kind::Throughput)];
    let patient = ["flood", "bulk", "weight", "clients"];
    if !patient.iter().any(|name| served.name.starts_with(name)) {
        all.extend(tails(&of, served.done, served.latency_us));
    }
    all
}
