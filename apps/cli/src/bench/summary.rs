//! From records to figures: a round's percentiles, a strategy's medians, ratios round by round.

use std::time::Duration;

use super::generator::Outcome;
use super::recorder::Record;
use super::report::counted::with_prefetches;
use super::report::{
    Adaptation, Counters, Latency, RatioSpread, Ratios, Round, Steals, Strategy, WorstTable,
};
use chiplet_bench::stats::{median, spread};
use chiplet_bench::workload::fairness::jain_index;

/// A table needs this many answers, over all rounds, for its p99 to be compared with others'.
const ENOUGH: usize = 100;

/// What is kept of one round.
pub(crate) struct Summed {
    pub(crate) round: Round,
    /// `None` without a deadline.
    pub(crate) goodput_qps: Option<f64>,
    /// Share of the workers' time for which they were idle for want of queries.
    pub(crate) starved: f64,
    recall: (f64, u64),
    failed: u64,
    cpu_cores: f64,
    sender_cores: f64,
    busiest_sender: f64,
    lag_p99_us: Option<f64>,
    counters: Option<Counters>,
    /// Answers and, in microseconds, latencies of each table.
    by_table: Vec<Vec<f32>>,
    asked: Vec<u64>,
    /// Time of the answer's due instant in seconds, and latency, where a timeline is wanted.
    timeline: Vec<(f32, f32)>,
}

impl Summed {
    /// `tables` tables; answers later than `deadline` are no goodput, where there is one.
    pub(crate) fn of(
        outcome: Outcome,
        counters: Option<Counters>,
        tables: usize,
        deadline: Option<Duration>,
        timeline: bool,
    ) -> Self {
        let seconds = outcome.length.as_secs_f64();
        let mut by_table = vec![Vec::new(); tables];
        let mut asked = vec![0; tables];
        let mut all = Vec::with_capacity(outcome.records.len());
        let mut tenths: [Vec<f32>; 10] = Default::default();
        let mut points = Vec::new();
        let (mut recall, mut failed, mut good) = ((0.0, 0), 0, 0_u64);
        for record in &outcome.records {
            asked[record.table as usize] += 1;
            if record.failed {
                failed += 1;
                continue;
            }
            let latency = (record.latency as f64 / 1e3) as f32;
            all.push(latency);
            by_table[record.table as usize].push(latency);
            let in_time = |deadline: Duration| u128::from(record.latency) <= deadline.as_nanos();
            good += u64::from(deadline.is_some_and(in_time));
            let due = record.ended.saturating_sub(record.latency) as f64 / 1e9;
            let tenth = (due / seconds * 10.0) as usize;
            tenths[tenth.min(9)].push(latency);
            if timeline {
                points.push((due as f32, latency));
            }
            if let Some(share) = record.recall {
                recall.0 += f64::from(share) / 255.0;
                recall.1 += 1;
            }
        }
        let answered = answered_in_time(&outcome.records, outcome.length);
        Self {
            round: Round {
                throughput_qps: answered as f64 / seconds,
                latency_us: latency(&mut all),
                p99_us_by_tenth: tenths.iter_mut().map(|part| latency(part).p99).collect(),
            },
            goodput_qps: deadline.map(|_| good as f64 / seconds),
            starved: outcome.starved,
            recall,
            failed,
            cpu_cores: outcome.usage.cores(),
            sender_cores: outcome.sender_cores,
            busiest_sender: outcome.busiest_sender,
            counters,
            lag_p99_us: outcome.lag_p99_us,
            by_table,
            asked,
            timeline: points,
        }
    }
}

impl Summed {
    /// Queries of the round that have an answer.
    pub(crate) fn answered(&self) -> usize {
        self.by_table.iter().map(Vec::len).sum()
    }
}

/// Answers that were there when the round ended.
pub(crate) fn answered_in_time(records: &[Record], length: Duration) -> usize {
    let end = length.as_nanos() as u64;
    records
        .iter()
        .filter(|record| !record.failed && record.ended <= end)
        .count()
}

/// One strategy over all its rounds, against the `first` strategy's.
pub(crate) fn strategy(
    name: String,
    rounds: &[Summed],
    first: &[Summed],
    table_names: &[&str],
    counts: Option<(Steals, u64)>,
    flip: Option<Duration>,
) -> Strategy {
    let of = |value: &dyn Fn(&Summed) -> f64| median(rounds.iter().map(value).collect());
    let ratios = |value: &dyn Fn(&Summed) -> f64| -> Vec<f64> {
        rounds
            .iter()
            .zip(first)
            .map(|(mine, other)| value(mine) / value(other))
            .filter(|ratio| ratio.is_finite())
            .collect()
    };
    let throughput: &dyn Fn(&Summed) -> f64 = &|round| round.round.throughput_qps;
    let p50: &dyn Fn(&Summed) -> f64 = &|round| round.round.latency_us.p50;
    let p99: &dyn Fn(&Summed) -> f64 = &|round| round.round.latency_us.p99;
    let p999: &dyn Fn(&Summed) -> f64 = &|round| round.round.latency_us.p999;
    let (found, looked) = rounds.iter().fold((0.0, 0), |(sum, count), round| {
        (sum + round.recall.0, count + round.recall.1)
    });
    let lags: Vec<f64> = rounds.iter().filter_map(|round| round.lag_p99_us).collect();
    let goodputs: Vec<f64> = rounds
        .iter()
        .filter_map(|round| round.goodput_qps)
        .collect();
    Strategy {
        name,
        throughput_qps: of(throughput),
        latency_us: Latency {
            p50: of(p50),
            p99: of(p99),
            p999: of(p999),
        },
        recall_at_10: if looked > 0 {
            found / looked as f64
        } else {
            0.0
        },
        steals: counts.map(|(steals, _)| steals),
        ratio_to_first: Ratios {
            throughput: median(ratios(throughput)),
            p50: median(ratios(p50)),
            p99: median(ratios(p99)),
            p999: median(ratios(p999)),
        },
        ratio_spread: RatioSpread {
            throughput: spread(&ratios(throughput)),
            p50: spread(&ratios(p50)),
            p99: spread(&ratios(p99)),
            p999: spread(&ratios(p999)),
        },
        worst_table: worst(rounds, table_names),
        goodput_qps: (!goodputs.is_empty()).then(|| median(goodputs)),
        fairness_jain: fairness(rounds, table_names.len()),
        cpu_cores: of(&|round| round.cpu_cores),
        sender_cores: of(&|round| round.sender_cores),
        busiest_sender: of(&|round| round.busiest_sender),
        send_lag_p99_us: (!lags.is_empty()).then(|| median(lags)),
        refused: rounds.iter().map(|round| round.failed).sum(),
        remaps: counts.map(|(_, remaps)| remaps),
        counters: counters(rounds),
        flip: flip.map(|flip| adaptation(rounds, flip.as_secs_f64())),
        rounds: rounds.iter().map(|round| round.round.clone()).collect(),
    }
}

/// How latency went on after the hot set moved, `flip` seconds into each round.
fn adaptation(rounds: &[Summed], flip: f64) -> Adaptation {
    /// Quarters of a second: short against the windows that matter, long enough for a thousand answers.
    const STEP: f64 = 0.25;
    /// Of these, the span that a p99 is taken over: a second.
    const SPAN: usize = 4;
    let mut bins: Vec<Vec<f32>> = Vec::new();
    let mut before = Vec::new();
    for &(due, latency) in rounds.iter().flat_map(|round| &round.timeline) {
        let due = f64::from(due);
        if due < flip {
            before.push(latency);
        }
        let bin = (due / STEP) as usize;
        if bins.len() <= bin {
            bins.resize_with(bin + 1, Vec::new);
        }
        bins[bin].push(latency);
    }
    let steady = latency(&mut before).p99;
    let first = (flip / STEP).ceil() as usize;
    let spans: Vec<(f64, f64)> = (first..(bins.len() + 1).saturating_sub(SPAN))
        .map(|start| {
            let mut span: Vec<f32> = bins[start..start + SPAN].concat();
            (start as f64 * STEP - flip, latency(&mut span).p99)
        })
        .collect();
    Adaptation {
        steady_p99_us: steady,
        recovered_after_s: spans
            .iter()
            .find(|(_, p99)| *p99 <= 1.1 * steady)
            .map(|(after, _)| *after),
        worst_p99_us: spans.iter().map(|(_, p99)| *p99).fold(0.0, f64::max),
        p99_us: bins
            .iter_mut()
            .enumerate()
            .map(|(bin, latencies)| [bin as f64 * STEP, latency(latencies).p99])
            .collect(),
    }
}

/// The median of each count over the rounds that have it.
fn counters(rounds: &[Summed]) -> Option<Counters> {
    let of = |pick: fn(&Counters) -> Option<f64>| {
        let values: Vec<f64> = rounds
            .iter()
            .filter_map(|round| pick(round.counters.as_ref()?))
            .collect();
        (!values.is_empty()).then(|| median(values))
    };
    rounds
        .iter()
        .any(|round| round.counters.is_some())
        .then(|| Counters {
            cycles: of(|counted| counted.cycles),
            instructions: of(|counted| counted.instructions),
            llc_misses: of(|counted| counted.llc_misses),
            stalled_share: of(|counted| counted.stalled_share),
            from_own_l3: of(|counted| counted.from_own_l3),
            from_other_l3: of(|counted| counted.from_other_l3),
            from_memory: of(|counted| counted.from_memory),
            from_remote_memory: of(|counted| counted.from_remote_memory),
            from_cxl: of(|counted| counted.from_cxl),
            prefetched_own_l3: of(|counted| counted.prefetched_own_l3),
            prefetched_beyond_l3: of(|counted| counted.prefetched_beyond_l3),
            l3_miss_ratio: of(|counted| counted.l3_miss_ratio),
        })
        .map(with_prefetches)
}

fn worst(rounds: &[Summed], names: &[&str]) -> WorstTable {
    let mut worst = WorstTable {
        name: String::new(),
        latency_us: Latency::default(),
    };
    for (table, name) in names.iter().enumerate() {
        let mut all: Vec<f32> = rounds
            .iter()
            .flat_map(|round| round.by_table[table].iter().copied())
            .collect();
        if all.len() < ENOUGH && !worst.name.is_empty() {
            continue;
        }
        let latency_us = latency(&mut all);
        if worst.name.is_empty() || latency_us.p99 > worst.latency_us.p99 {
            worst = WorstTable {
                name: (*name).to_owned(),
                latency_us,
            };
        }
    }
    worst
}

/// Jain's index over the tables' shares of their own queries that were answered.
fn fairness(rounds: &[Summed], tables: usize) -> f64 {
    let shares: Vec<f64> = (0..tables)
        .filter_map(|table| {
            let asked: u64 = rounds.iter().map(|round| round.asked[table]).sum();
            let answered: usize = rounds.iter().map(|round| round.by_table[table].len()).sum();
            (asked > 0).then(|| answered as f64 / asked as f64)
        })
        .collect();
    // Nothing asked is shared out evenly.
    jain_index(shares).unwrap_or(1.0)
}

/// Percentiles of latencies in microseconds, by sorting. The value of rank `ceil(q n)`.
pub(crate) fn latency(values: &mut [f32]) -> Latency {
    if values.is_empty() {
        return Latency::default();
    }
    values.sort_unstable_by(f32::total_cmp);
    let at = |quantile: f64| {
        let rank = (quantile * values.len() as f64).ceil() as usize;
        f64::from(values[rank.clamp(1, values.len()) - 1])
    };
    Latency {
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::usage::Usage;

    fn record(due_ms: u64, latency_us: u64, table: u32, failed: bool) -> Record {
        let latency = latency_us * 1_000;
        Record {
            ended: due_ms * 1_000_000 + latency,
            latency,
            table,
            recall: (!failed).then_some(255),
            failed,
        }
    }

    fn summed(records: Vec<Record>, length: Duration) -> Summed {
        summed_by(records, length, Some(Duration::from_millis(1)))
    }

    fn summed_by(records: Vec<Record>, length: Duration, deadline: Option<Duration>) -> Summed {
        let outcome = Outcome {
            records,
            length,
            usage: Usage::default(),
            sender_cores: 0.0,
            busiest_sender: 0.0,
            lag_p99_us: None,
            sent: 0,
            starved: 0.0,
        };
        Summed::of(outcome, None, 2, deadline, true)
    }

    #[test]
    fn percentiles_are_values_of_their_rank() {
        let mut values: Vec<f32> = (1..=1_000).rev().map(|value| value as f32).collect();
        let Latency { p50, p99, p999 } = latency(&mut values);
        assert_eq!((p50, p99, p999), (500.0, 990.0, 999.0));
        assert_eq!(latency(&mut []), Latency::default());
    }

    #[test]
    fn an_answer_after_the_end_counts_for_latency_and_not_for_throughput() {
        let records = vec![record(100, 500, 0, false), record(900, 200_000, 1, false)];
        let round = summed(records, Duration::from_secs(1));
        assert_eq!(round.round.throughput_qps, 1.0);
        assert_eq!(round.goodput_qps, Some(1.0));
        assert_eq!(round.round.latency_us.p99, 200_000.0);
    }

    #[test]
    fn without_a_deadline_there_is_no_goodput() {
        let records = vec![record(100, 500, 0, false)];
        let rounds = [summed_by(records, Duration::from_secs(1), None)];
        let found = strategy("mine".into(), &rounds, &rounds, &["a", "b"], None, None);
        assert_eq!((found.goodput_qps, found.throughput_qps), (None, 1.0));
    }

    #[test]
    fn ratios_are_of_rounds_of_the_same_number() {
        let rounds = |counts: [u64; 3]| -> Vec<Summed> {
            let round = |count| (0..count).map(|n| record(n, 10, 0, false)).collect();
            counts
                .map(|count| summed(round(count), Duration::from_secs(1)))
                .into()
        };
        // The machine was slow in the second round, for both.
        let (first, mine) = (rounds([100, 10, 100]), rounds([150, 15, 120]));
        let found = strategy("mine".into(), &mine, &first, &["a", "b"], None, None);
        assert_eq!(found.ratio_to_first.throughput, 1.5);
        assert_eq!(found.ratio_spread.throughput, [1.2, 1.5]);
        assert_eq!(found.recall_at_10, 1.0);
    }

    #[test]
    fn a_table_whose_queries_are_refused_shows_in_fairness_and_not_in_latency() {
        let mut records: Vec<_> = (0..100).map(|n| record(n, 10, 0, false)).collect();
        records.extend((0..100).map(|n| record(n, 10, 1, true)));
        let rounds = [summed(records, Duration::from_secs(1))];
        let found = strategy("mine".into(), &rounds, &rounds, &["a", "b"], None, None);
        assert_eq!((found.fairness_jain, found.refused), (0.5, 100));
        assert_eq!(found.worst_table.name, "a");
    }

    #[test]
    fn recovery_is_timed_from_the_flip() {
        // 10 ms for two seconds after the flip at 2 s, else 1 ms.
        let slow = |ms| (2_000..4_000).contains(&ms);
        let records = (0..8_000)
            .map(|ms| record(ms, if slow(ms) { 10_000 } else { 1_000 }, 0, false))
            .collect();
        let found = adaptation(&[summed(records, Duration::from_secs(8))], 2.0);
        assert_eq!(found.steady_p99_us, 1_000.0);
        assert_eq!(found.worst_p99_us, 10_000.0);
        assert_eq!(found.recovered_after_s, Some(2.0));
    }
}
