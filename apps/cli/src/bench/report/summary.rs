//! The short answer in plain words.
//!
//! A difference is only stated where all rounds lie on one side of 1; otherwise the page says that they do not
//! agree.

use super::{Report, Strategy};
use chiplet_bench::charts::number::{ABSENT, duration, fixed, quantity, ratio, spread};

/// What the page and the text begin with.
pub struct Summary {
    pub headline: String,
    /// Where the rounds lie, if the headline has a figure.
    pub detail: String,
    pub sentences: Vec<String>,
    pub tiles: Vec<Tile>,
}

/// One figure, large.
pub struct Tile {
    pub figure: String,
    pub what: String,
    pub detail: String,
}

/// The strategy the answer is about: `ccd-aware`, this project's own, or a variant of it, where that was compared with
/// another; otherwise the one that gained most throughput.
fn subject(strategies: &[Strategy]) -> Option<&Strategy> {
    let others = strategies.get(1..)?;
    let is_ours =
        |strategy: &&Strategy| strategy.name.split(['+', '@']).next() == Some("ccd-aware");
    others
        .iter()
        .find(is_ours)
        .or_else(|| {
            let variant = |strategy: &&Strategy| strategy.name.starts_with("ccd-aware");
            others.iter().find(variant)
        })
        .or_else(|| {
            let gain = |strategy: &&Strategy| {
                Some(strategy.ratio_to_first.throughput).filter(|ratio| ratio.is_finite())
            };
            others
                .iter()
                .max_by(|a, b| gain(a).unwrap_or(0.0).total_cmp(&gain(b).unwrap_or(0.0)))
        })
}

impl Summary {
    /// The headline and where the rounds lie.
    pub fn verdict(&self) -> String {
        match self.detail.is_empty() {
            true => self.headline.clone(),
            false => format!("{} ({})", self.headline, self.detail),
        }
    }
}

pub fn summary(report: &Report) -> Summary {
    let Some(first) = report.strategies.first() else {
        return Summary {
            headline: "No strategy was run".into(),
            detail: String::new(),
            sentences: vec![
                "This report holds no figures; the command below says what was asked.".into(),
            ],
            tiles: Vec::new(),
        };
    };
    match subject(&report.strategies) {
        Some(subject) => compared(report, first, subject),
        None => alone(report, first),
    }
}

fn alone(report: &Report, only: &Strategy) -> Summary {
    let rounds = only.rounds.iter().map(|round| round.throughput_qps);
    let lowest = rounds.clone().fold(f64::INFINITY, f64::min);
    let highest = rounds.fold(f64::NEG_INFINITY, f64::max);
    let between = match lowest.is_finite() && highest.is_finite() {
        true => format!(
            "{} to {} over {}",
            quantity(lowest),
            quantity(highest),
            rounds_text(only.rounds.len())
        ),
        false => rounds_text(only.rounds.len()),
    };
    let headline = match only.throughput_qps.is_finite() {
        true => format!(
            "{} answered {} queries per second",
            only.name,
            quantity(only.throughput_qps)
        ),
        false => format!("The throughput of {} was {ABSENT}", only.name),
    };
    let latency = only.latency_us;
    Summary {
        headline,
        detail: between.clone(),
        sentences: vec![
            format!(
                "Half of the queries took {} or less, 99 of 100 took {} or less.",
                duration(latency.p50),
                duration(latency.p99)
            ),
            format!(
                "Only one strategy was run, {}, so there is no comparison.",
                arrivals(report)
            ),
        ],
        tiles: vec![
            tile(quantity(only.throughput_qps), "queries per second", between),
            tile(duration(latency.p50), "p50 latency", String::new()),
            tile(duration(latency.p99), "p99 latency", String::new()),
            tile(fixed(only.recall_at_10, 3), "recall at 10", String::new()),
        ],
    }
}

fn compared(report: &Report, first: &Strategy, subject: &Strategy) -> Summary {
    let (to, range) = (subject.ratio_to_first, subject.ratio_spread);
    let over = rounds_text(subject.rounds.len());
    let (name, base) = (&subject.name, &first.name);
    let throughput = match side(range.throughput, to.throughput) {
        Side::Absent => format!("{name} and {base} cannot be compared in throughput"),
        Side::Unclear => format!("{name} showed no clear difference in throughput from {base}"),
        Side::Clear => format!(
            "{name} answered {} as many queries as {base}",
            ratio(to.throughput)
        ),
    };
    let p99 = match side(range.p99, to.p99) {
        Side::Absent => format!("{name} and {base} cannot be compared in p99 latency"),
        Side::Unclear => format!("{name} showed no clear difference in p99 latency from {base}"),
        Side::Clear => format!("{name} had {} the p99 latency of {base}", ratio(to.p99)),
    };
    let between = |value: f64, range: [f64; 2]| match side(range, value) {
        Side::Absent => format!("ratio {ABSENT}"),
        Side::Unclear => format!(
            "{}, rounds on both sides of 1: {} over {over}",
            ratio(value),
            spread(range)
        ),
        Side::Clear => format!("{} over {over}", spread(range)),
    };
    // At a set rate every strategy answers what is sent, so latency is the answer; saturated, throughput is.
    let (headline, detail, second) = match report.workload.rate_qps {
        Some(rate) => (
            format!("At {} queries/s, {p99}", quantity(rate)),
            between(to.p99, range.p99),
            format!(
                "{throughput} ({}).",
                between(to.throughput, range.throughput)
            ),
        ),
        None => (
            throughput,
            between(to.throughput, range.throughput),
            format!("{p99} ({}).", between(to.p99, range.p99)),
        ),
    };
    let recall = match (subject.recall_at_10 - first.recall_at_10).abs() < 0.0005 {
        true => format!(
            "The answers were equally good: recall at 10 was {} for both.",
            fixed(first.recall_at_10, 3)
        ),
        false => format!(
            "Recall at 10 was {} for {name} and {} for {base}.",
            fixed(subject.recall_at_10, 3),
            fixed(first.recall_at_10, 3)
        ),
    };
    let others = report.strategies.len() - 2;
    let mut sentences = vec![second, recall];
    if others > 0 {
        let noun = if others == 1 {
            "strategy is"
        } else {
            "strategies are"
        };
        sentences.push(format!("{others} more {noun} below."));
    }
    Summary {
        headline,
        detail,
        sentences,
        tiles: vec![
            tile(
                ratio(to.throughput),
                "throughput, more is better",
                spread(range.throughput),
            ),
            tile(
                ratio(to.p50),
                "p50 latency, less is better",
                spread(range.p50),
            ),
            tile(
                ratio(to.p99),
                "p99 latency, less is better",
                spread(range.p99),
            ),
            tile(ratio(to.p999), "p99.9, less is better", spread(range.p999)),
        ],
    }
}

fn tile(figure: String, what: &str, detail: String) -> Tile {
    Tile {
        figure,
        what: what.into(),
        detail,
    }
}

/// On which side of 1 the rounds lie.
enum Side {
    Clear,
    Unclear,
    Absent,
}

fn side([lowest, highest]: [f64; 2], median: f64) -> Side {
    match median {
        _ if !(median.is_finite() && lowest.is_finite() && highest.is_finite() && median > 0.0) => {
            Side::Absent
        }
        _ if lowest > 1.0 || highest < 1.0 => Side::Clear,
        _ => Side::Unclear,
    }
}

pub fn rounds_text(rounds: usize) -> String {
    match rounds {
        1 => "1 round".into(),
        _ => format!("{rounds} rounds"),
    }
}

/// How queries arrived, in a few words.
pub fn arrivals(report: &Report) -> String {
    match report.workload.rate_qps {
        Some(rate) => format!(
            "{} at {} queries/s",
            report.workload.arrivals,
            quantity(rate)
        ),
        None => report.workload.arrivals.clone(),
    }
}
