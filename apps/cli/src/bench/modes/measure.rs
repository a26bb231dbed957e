//! Rounds of all modes in turn: first the rate at which processor use is what was asked for, then what that rate gives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use indicatif::ProgressBar;

use super::super::arguments::{Arguments, AutoNuma};
use super::super::generator::{self, Moment, Pace, Plan, Senders};
use super::super::recorder::Recorder;
use super::super::summary::{answered_in_time, latency};
use super::super::tables::Tables;
use super::autonuma::Balancing;
use super::cpuset::Group;
use super::fleet::Fleet;
use super::report::{Figures, Mode, Use};
use chiplet_bench::modes::rate::{STEPS, Search, WITHIN};
use chiplet_bench::stats::{self, median};

/// Requests outstanding for each core in the round that tells where to begin.
const OUTSTANDING: usize = 8;

/// The part of the requests that has to be answered before the round ends. With fewer, they pile up.
const KEPT_UP: f64 = 0.95;

/// Rounds in which a mode may answer nothing before it is given up.
const ATTEMPTS: u64 = 3;

/// How often rates are corrected by what all rounds had, and all rounds run again: twice at most.
const PASSES: usize = 3;

/// One mode, running.
pub(super) struct Candidate {
    pub(super) mode: Mode,
    pub(super) fleet: Fleet,
    pub(super) autonuma: Option<AutoNuma>,
    /// Removed when the fleet has ended.
    pub(super) _groups: Vec<Group>,
    /// Rates and the uses that they had.
    known: Vec<(f64, f64)>,
}

impl Candidate {
    pub(super) fn new(
        mode: Mode,
        fleet: Fleet,
        autonuma: Option<AutoNuma>,
        groups: Vec<Group>,
    ) -> Self {
        Self {
            mode,
            fleet,
            autonuma,
            _groups: groups,
            known: Vec::new(),
        }
    }
}

/// What one round of one mode gave.
#[derive(Clone, Copy, Debug)]
struct Round {
    throughput: f64,
    used: f64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    /// Processor time of a request.
    processor_us: f64,
    failed: u64,
    requests: usize,
}

/// What rounds need.
pub(super) struct Bench<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) tables: &'static Tables,
    pub(super) senders: &'a Senders,
    pub(super) recorder: &'static Recorder,
    pub(super) stop: &'a AtomicBool,
    pub(super) bar: ProgressBar,
    pub(super) balancing: Option<Balancing>,
    /// Cores whose time is 1.
    pub(super) cores: usize,
}

impl Bench<'_> {
    /// All modes at each use that was asked for; fewer if the run was stopped.
    pub(super) fn run(&self, candidates: &mut [Candidate]) -> anyhow::Result<Vec<Use>> {
        let wanted = &self.arguments.modes.at.uses;
        let rounds = 1 + wanted.len() * (STEPS / 2 + self.arguments.rounds as usize);
        self.bar.set_length((rounds * candidates.len()) as u64);
        for candidate in &mut *candidates {
            let pace = Pace::Saturated {
                outstanding: OUTSTANDING * self.cores,
                workers: 0,
            };
            for attempt in 0..ATTEMPTS {
                let Some(round) = self.round(candidate, pace, attempt, "saturated")? else {
                    break;
                };
                if round.throughput > 0.0 && round.used > 0.0 {
                    candidate.known.push((round.throughput, round.used));
                    break;
                }
            }
            ensure!(
                self.stopped() || !candidate.known.is_empty(),
                "mode {} answered no request in {ATTEMPTS} rounds of {} s: give a longer --duration",
                candidate.mode.name,
                self.arguments.duration.as_secs_f64()
            );
        }
        let mut uses = Vec::new();
        for &percent in wanted {
            let wanted = f64::from(percent) / 100.0;
            let mut rates = self.search(candidates, wanted)?;
            let mut figures = self.measure(candidates, &rates, percent)?;
            for _ in 1..PASSES {
                let near = |figures: &Figures| (figures.used[0] - wanted).abs() <= WITHIN;
                if figures.iter().all(near) {
                    break;
                }
                // One round found the rate, and the machine is now faster or slower than in that one.
                for (rate, figures) in rates.iter_mut().zip(&figures) {
                    *rate *= match figures.piled_up {
                        true => 0.8,
                        false => (wanted / figures.used[0]).clamp(0.8, 1.25),
                    };
                }
                let again = self.measure(candidates, &rates, percent)?;
                if self.stopped() {
                    break;
                }
                figures = again;
            }
            if figures.is_empty() {
                break;
            }
            uses.push(Use {
                wanted,
                modes: figures,
            });
        }
        self.bar.finish_and_clear();
        Ok(uses)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Each mode's rate.
    fn search(&self, candidates: &mut [Candidate], wanted: f64) -> anyhow::Result<Vec<f64>> {
        let mut searches: Vec<Search> = Vec::new();
        for candidate in &*candidates {
            let mut search = Search::new(wanted);
            for &(rate, used) in &candidate.known {
                search.note(rate, used);
            }
            searches.push(search);
        }
        for step in 0..STEPS {
            for (candidate, search) in candidates.iter_mut().zip(&mut searches) {
                let Some(rate) = search.next().filter(|_| !search.found()) else {
                    continue;
                };
                let what = format!("rate for {:.0} %", wanted * 100.0);
                let seed = 1_000 + step as u64;
                if let Some(round) = self.round(candidate, Pace::Open(rate), seed, &what)? {
                    match round.throughput < KEPT_UP * rate {
                        true => search.too_much(rate),
                        false => {
                            search.note(rate, round.used);
                            candidate.known.push((rate, round.used));
                        }
                    }
                }
            }
        }
        // Where requests have piled up at all rates that were tried, the next lower one: its rounds tell the same of
        // it.
        let rate = |search: &Search| {
            let best = search.best().map(|(rate, _)| rate);
            best.or_else(|| search.next())
        };
        Ok(searches.iter().filter_map(rate).collect())
    }

    /// What the modes give at their rates: medians of rounds that were run in turn. Nothing if the first was not
    /// finished.
    fn measure(
        &self,
        candidates: &mut [Candidate],
        rates: &[f64],
        percent: u32,
    ) -> anyhow::Result<Vec<Figures>> {
        let count = candidates.len();
        let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); count];
        for number in 0..self.arguments.rounds as usize {
            let mut done = Vec::new();
            // Who begins changes from round to round.
            for turn in 0..count.min(rates.len()) {
                let index = (turn + number) % count;
                let pace = Pace::Open(rates[index]);
                let what = format!("{percent} %, round {}", number + 1);
                match self.round(&mut candidates[index], pace, number as u64, &what)? {
                    Some(round) => done.push((index, round)),
                    None => break,
                }
            }
            // A round that only some have run would compare different times.
            if done.len() < count {
                break;
            }
            for (index, round) in done {
                rounds[index].push(round);
            }
        }
        if rounds[0].is_empty() {
            return Ok(Vec::new());
        }
        let figures = candidates.iter().zip(rates).zip(&rounds);
        Ok(figures
            .map(|((candidate, &rate), mine)| {
                Round::figures(&candidate.mode.name, rate, mine, &rounds[0])
            })
            .collect())
    }

    /// One round; `None` if the run was stopped in it.
    fn round(
        &self,
        candidate: &mut Candidate,
        pace: Pace,
        seed: u64,
        what: &str,
    ) -> anyhow::Result<Option<Round>> {
        if self.stopped() {
            return Ok(None);
        }
        self.bar
            .set_message(format!("{}: {what}", candidate.mode.name));
        if let (Some(balancing), Some(autonuma)) = (&self.balancing, candidate.autonuma) {
            balancing.set(autonuma)?;
        }
        let plan = Plan {
            pace,
            warmup: self.arguments.warmup,
            length: self.arguments.duration,
            seed: self.arguments.seed.wrapping_add(seed),
            flip: false,
        };
        let mut readings = Vec::new();
        let outcome = generator::round(
            &candidate.fleet,
            self.senders,
            self.recorder,
            (self.arguments, self.tables),
            &plan,
            self.stop,
            |moment| {
                if moment == Moment::Begins || moment == Moment::Ends {
                    let used = candidate.fleet.processor();
                    readings.push(used.map(|used| (Instant::now(), used)));
                }
            },
        );
        let outcome = outcome.with_context(|| {
            let mode = &candidate.mode.name;
            format!("mode {mode}: a process does not answer; was it stopped?")
        })?;
        self.bar.inc(1);
        let readings: anyhow::Result<Vec<(Instant, Duration)>> = readings.into_iter().collect();
        let readings = readings.with_context(|| format!("mode {}", candidate.mode.name))?;
        let [(began, before), (ended, after)] = readings[..] else {
            return Ok(None);
        };
        if self.stopped() {
            return Ok(None);
        }
        let cores = after.saturating_sub(before).as_secs_f64() / (ended - began).as_secs_f64();
        Ok(Some(Round::of(&outcome, cores, self.cores)))
    }
}

impl Round {
    /// `busy` cores of `cores` were used.
    fn of(outcome: &generator::Outcome, busy: f64, cores: usize) -> Self {
        let seconds = outcome.length.as_secs_f64();
        let answered = outcome.records.iter().filter(|record| !record.failed);
        let mut latencies: Vec<f32> = answered
            .map(|record| (record.latency as f64 / 1e3) as f32)
            .collect();
        let in_time = answered_in_time(&outcome.records, outcome.length);
        let count = latencies.len().max(1) as f64;
        let sum: f64 = latencies.iter().map(|&value| f64::from(value)).sum();
        let failed = outcome.records.len() - latencies.len();
        let requests = latencies.len();
        let percentiles = latency(&mut latencies);
        Self {
            throughput: in_time as f64 / seconds,
            used: busy / cores as f64,
            mean_us: sum / count,
            p50_us: percentiles.p50,
            p99_us: percentiles.p99,
            processor_us: busy * seconds * 1e6 / in_time.max(1) as f64,
            failed: failed as u64,
            requests,
        }
    }

    /// Medians of `mine`, and ratios to the rounds of the `first` mode.
    fn figures(mode: &str, rate: f64, mine: &[Self], first: &[Self]) -> Figures {
        let values = |of: &dyn Fn(&Self) -> f64| mine.iter().map(of).collect::<Vec<_>>();
        let middle = |of: &dyn Fn(&Self) -> f64| median(values(of));
        let ratios = |of: &dyn Fn(&Self) -> f64| {
            let pairs = mine.iter().zip(first);
            spread(pairs.map(|(mine, first)| of(mine) / of(first)).collect())
        };
        Figures {
            mode: mode.to_owned(),
            rate_qps: rate,
            used: spread(values(&|round| round.used)),
            throughput_qps: middle(&|round| round.throughput),
            // For the same processor time: the uses differ by up to a point.
            throughput_ratio: ratios(&|round| round.processor_us.recip()),
            mean_us: middle(&|round| round.mean_us),
            p50_us: middle(&|round| round.p50_us),
            p99_us: middle(&|round| round.p99_us),
            p99_ratio: ratios(&|round| round.p99_us),
            processor_us: middle(&|round| round.processor_us),
            failed: mine.iter().map(|round| round.failed).sum(),
            piled_up: middle(&|round| round.throughput) < KEPT_UP * rate,
            requests: middle(&|round| round.requests as f64) as usize,
            rounds: mine.len(),
        }
    }
}

/// The median, the least and the most.
fn spread(values: Vec<f64>) -> [f64; 3] {
    let [least, most] = stats::spread(&values);
    [median(values), least, most]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(throughput: f64, used: f64, p99_us: f64) -> Round {
        Round {
            throughput,
            used,
            mean_us: 100.0,
            p50_us: 90.0,
            p99_us,
            processor_us: used * 1e6 / throughput,
            failed: 1,
            requests: 1_000,
        }
    }

    #[test]
    fn ratios_are_for_the_same_processor_time_and_round_by_round() {
        let first = [round(1_000.0, 0.6, 200.0), round(1_000.0, 0.5, 100.0)];
        let mine = [round(1_200.0, 0.6, 100.0), round(1_000.0, 0.25, 200.0)];
        let figures = Round::figures("mine", 1_100.0, &mine, &first);
        let [middle, least, most] = figures.throughput_ratio;
        assert!(
            (least - 1.2).abs() < 1e-9 && (most - 2.0).abs() < 1e-9,
            "{figures:?}"
        );
        assert!((middle - 1.6).abs() < 1e-9, "{figures:?}");
        assert_eq!(figures.p99_ratio, [1.25, 0.5, 2.0]);
        assert_eq!((figures.throughput_qps, figures.failed), (1_100.0, 2));
    }
}
