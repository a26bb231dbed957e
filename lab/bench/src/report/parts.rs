//! What each part of chiplet gives: pairs of strategies that differ in one thing.

use super::{Counters, Round, Strategy};
use crate::stats::{median, spread};
use chiplet_baselines::PARTS;

/// Two strategies that differ in one thing.
pub struct Part<'a> {
    /// What they differ in.
    pub what: &'static str,
    pub of: &'a Strategy,
    pub to: &'a Strategy,
    /// The rounds in which both have a throughput, and its ratio.
    pub rounds: Vec<(usize, f64)>,
    pub median: f64,
}

/// The parts of which both strategies were run. Together they lead from `rayon` to `ccd-aware`.
pub fn parts(strategies: &[Strategy]) -> Vec<Part<'_>> {
    let named = |name| strategies.iter().find(|strategy| strategy.name == name);
    let part = |(what, of, to)| {
        let (of, to) = (named(of)?, named(to)?);
        let rounds = ratios(to, of, |round| round.throughput_qps);
        let median = median(values(&rounds));
        let part = Part {
            what,
            of,
            to,
            rounds,
            median,
        };
        (!part.rounds.is_empty()).then_some(part)
    };
    PARTS.into_iter().filter_map(part).collect()
}

impl Part<'_> {
    /// The lowest and the highest ratio.
    pub fn spread(&self) -> [f64; 2] {
        spread(&values(&self.rounds))
    }
}

fn values(rounds: &[(usize, f64)]) -> Vec<f64> {
    rounds.iter().map(|(_, ratio)| *ratio).collect()
}

/// The rounds in which both have a figure above zero, with `other`'s ratio to `first`'s.
pub fn ratios(first: &Strategy, other: &Strategy, of: fn(&Round) -> f64) -> Vec<(usize, f64)> {
    let measured = |value: f64| value.is_finite() && value > 0.0;
    first
        .rounds
        .iter()
        .zip(&other.rounds)
        .map(|(first, other)| (of(first), of(other)))
        .enumerate()
        .filter(|(_, (first, other))| measured(*first) && measured(*other))
        .map(|(round, (first, other))| (round, other / first))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

/// Lines a query from the own L3, from another one, and from memory; `None` where they were not counted.
pub fn sources(strategy: &Strategy) -> Option<[f64; 3]> {
    let Counters {
        from_own_l3,
        from_other_l3,
        from_memory,
        from_remote_memory,
        from_cxl,
        ..
    } = strategy.counters?;
    let memory = from_memory? + from_remote_memory.unwrap_or(0.0) + from_cxl.unwrap_or(0.0);
    Some([from_own_l3?, from_other_l3.unwrap_or(0.0), memory])
}
