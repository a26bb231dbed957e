//! The whole run: tables built once, saturation measured, strategies in turn, round after round.

mod placement;
mod workload;

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use chiplet_policy::WindowConfig;
use chiplet_topology::Topology;
use indicatif::{MultiProgress, ProgressBar};

use super::arguments::{Arguments, Choice, Rate};
use super::generator::{self, Moment, Outcome, Pace, Plan, Senders};
use super::machine;
use super::pools::{self, Pool, Workers};
use super::recorder::Recorder;
use super::report::counted::per_query;
use super::report::{self, CurvePoint, Generator, Latency, Report, Steals};
use super::summary::{self, Summed};
use super::tables::Tables;
use chiplet_bench::counters::{Counters, Reading};
use chiplet_bench::output::style;
use chiplet_bench::stats::median;
use placement::Followed;

/// Rounds from which saturation is taken, after one that is not counted.
const SATURATION_ROUNDS: u32 = 3;

/// Rounds of the sweep at each load; their median is drawn.
const SWEEP_ROUNDS: u32 = 3;

/// How much longer than the fast traffic window placements are let settle.
const SETTLED: Duration = Duration::from_secs(2);

/// Where the fastest strategy's latency bends and leaves, as shares of its saturation.
const BEND: [f64; 3] = [0.7, 0.8, 0.9];

/// Share of the workers' time for which they may be idle for want of queries. In a round with more, the sender was
/// measured and not the strategy.
const STARVED: f64 = 0.05;

/// How long the senders are measured by themselves.
const ALONE: Duration = Duration::from_millis(200);

/// One strategy and what it has done so far.
struct Runner {
    choice: Choice,
    pool: Box<dyn Pool>,
    rounds: Vec<Summed>,
    /// Rounds in which some strategy's workers were idle for want of queries. They are in no figure, unless all are.
    starved: Vec<Summed>,
    steals: Steals,
    remaps: u64,
    counts: bool,
    placement: Option<Followed>,
}

impl Runner {
    fn new(choice: Choice, pool: Box<dyn Pool>) -> Self {
        pool.turn(false);
        Self {
            choice,
            counts: pool.counts().is_some(),
            placement: Followed::start(&*pool),
            pool,
            rounds: Vec::new(),
            starved: Vec::new(),
            steals: Steals::default(),
            remaps: 0,
        }
    }
}

pub(crate) fn run(
    arguments: &Arguments,
    topology: &Topology,
    stop: &AtomicBool,
) -> anyhow::Result<Report> {
    let date = machine::now();
    // Clients of a closed loop are many, and wait most of the time.
    let (machine, apart) = match arguments.clients {
        Some(_) => (topology.clone(), Vec::new()),
        None => generator::apart(topology, arguments.senders)?,
    };
    let physical = machine.clone();
    // A sender has kept its whole core. Of the others each cpu is a core to the pools.
    let (whole, machine) = match arguments.smt {
        true => (topology.cpus_as_cores(), machine.cpus_as_cores()),
        false => (topology.clone(), machine),
    };
    let workers = Workers::of(arguments, &whole, (&machine, &physical), apart.len())?;
    let senders = Senders::start(apart, arguments.clients.unwrap_or(1) as usize)?;
    // After the senders and before any other thread is started: those started later are counted too.
    let counters = Counters::open(&[]);
    let summary = match &counters {
        Ok(counters) => counters.summary(),
        Err(unavailable) => unavailable.to_string(),
    };
    let described = machine::describe(topology, summary);
    let bars = MultiProgress::new();
    let tables = Tables::build(arguments, &bars, stop)?.keep();
    let mut runners = Vec::new();
    for choice in &arguments.strategies {
        let pool = pools::start(choice, arguments, &machine, &workers, &tables.all)?;
        runners.push(Runner::new(*choice, pool));
    }
    let series = Series {
        arguments,
        tables,
        stop,
        workers: workers.count,
        senders: &senders,
        recorder: Recorder::start(tables),
        bar: bars.add(ProgressBar::new(0)),
        counters: RefCell::new(counters.ok()),
        coverage: Cell::new(1.0),
    };
    series.plan_time(runners.len());
    let limit = generator::limit(&senders, series.recorder, (arguments, tables), ALONE, stop)?;
    let saturation = series.saturation(&mut runners)?;
    let pace = series.pace(saturation);
    series.settle(&mut runners, pace)?;
    series.rounds(&mut runners, pace)?;
    let curve = match saturation {
        Some(saturation) if series.sweeps() && !series.stopped() => {
            series.sweep(&mut runners, (pace, saturation))?
        }
        _ => Vec::new(),
    };
    series.bar.finish_and_clear();

    let names: Vec<&str> = tables.all.iter().map(|table| table.name.as_str()).collect();
    let strategies: Vec<report::Strategy> = runners
        .iter()
        .map(|runner| {
            summary::strategy(
                runner.choice.to_string(),
                &runner.rounds,
                &runners[0].rounds,
                &names,
                runner.counts.then_some((runner.steals, runner.remaps)),
                arguments.flip,
            )
        })
        .collect();
    let shares = generator::shares(arguments, tables)?;
    let domains = machine.domains().len();
    let placements = runners
        .iter()
        .filter_map(|runner| {
            let followed = runner.placement.as_ref()?;
            Some(followed.history(runner.choice.to_string(), &names, &shares, domains))
        })
        .collect();
    let fastest = strategies.iter().map(|strategy| strategy.throughput_qps);
    Ok(Report {
        date,
        command: machine::command(),
        machine: described,
        workload: workload::workload(arguments, &machine, tables, (pace, saturation), &runners),
        generator: Generator {
            workers: workers.count,
            senders: senders.count(),
            own_cpus: senders.have_own_cores().then(|| senders.cpus()),
            limit_qps: limit,
            headroom: limit / fastest.fold(f64::MIN_POSITIVE, f64::max),
        },
        strategies,
        load_curve: curve,
        scaling: Vec::new(),
        placements,
        notes: workload::notes(arguments, &runners, pace, series.coverage.get()),
    })
}

struct Series<'a> {
    arguments: &'a Arguments,
    tables: &'static Tables,
    stop: &'a AtomicBool,
    workers: usize,
    senders: &'a Senders,
    recorder: &'static Recorder,
    bar: ProgressBar,
    counters: RefCell<Option<Counters>>,
    /// Share of the time for which the least counted hardware event was counted, in the worst round.
    coverage: Cell<f64>,
}

impl Series<'_> {
    fn sweeps(&self) -> bool {
        !self.arguments.sweep().is_empty()
    }

    fn needs_saturation(&self) -> bool {
        self.sweeps() || matches!(self.arguments.rate, Rate::Share(_))
    }

    /// How long all will take, for the bar.
    fn plan_time(&self, strategies: usize) {
        let round = self.arguments.warmup + self.arguments.duration;
        let strategies = strategies as u32;
        let mut all = round * self.arguments.rounds * strategies;
        if self.needs_saturation() {
            all += round * (SATURATION_ROUNDS + 1);
        }
        all += round * SWEEP_ROUNDS * strategies * self.arguments.sweep().len() as u32;
        self.bar.set_length(all.as_millis() as u64);
        self.bar
            .set_style(style("{msg:40} {bar:30} {percent:>3} %, {eta} left"));
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn saturated(&self) -> Pace {
        Pace::Saturated {
            outstanding: self.arguments.outstanding as usize * self.workers,
            workers: self.workers,
        }
    }

    fn one(&self, runner: &mut Runner, plan: &Plan, what: &str) -> anyhow::Result<Option<Summed>> {
        if self.stopped() {
            return Ok(None);
        }
        self.bar.set_message(format!("{}: {what}", runner.choice));
        let before = runner.pool.counts();
        let start = self.bar.position();
        drop(runner.pool.moves());
        let began = Instant::now();
        let (mut first, mut last) = (None, None);
        runner.pool.turn(true);
        let outcome = generator::round(
            &*runner.pool,
            self.senders,
            self.recorder,
            (self.arguments, self.tables),
            plan,
            self.stop,
            |moment| match moment {
                Moment::Begins => first = self.counted(),
                Moment::Gone(gone) => self.bar.set_position(start + gone.as_millis() as u64),
                Moment::Ends => last = self.counted(),
            },
        );
        runner.pool.turn(false);
        let outcome = outcome.with_context(|| format!("{}, {what}", runner.choice))?;
        let length = plan.warmup + plan.length;
        self.bar.set_position(start + length.as_millis() as u64);
        let lasted = began.elapsed().as_secs_f64();
        if let (Some((before, remaps_before)), Some((after, remaps))) =
            (before, runner.pool.counts())
        {
            runner.steals.own += after.own - before.own;
            runner.steals.domain += after.domain - before.domain;
            runner.steals.remote += after.remote - before.remote;
            runner.steals.moved += after.moved - before.moved;
            runner.remaps += remaps - remaps_before;
        }
        if let Some(followed) = &mut runner.placement {
            followed.follow(runner.pool.moves(), began, lasted);
        }
        if self.stopped() {
            return Ok(None);
        }
        let counted = last.zip(first).map(|(last, first)| last.since(&first));
        if let Some(counted) = &counted {
            self.coverage
                .set(self.coverage.get().min(counted.coverage()));
        }
        let counters = counted.map(|counted| per_query(&counted, outcome.sent));
        Ok(Some(self.sum(outcome, counters, plan.pace)))
    }

    fn counted(&self) -> Option<Reading> {
        self.counters.borrow_mut().as_mut().map(Counters::read)
    }

    fn sum(&self, outcome: Outcome, counters: Option<report::Counters>, pace: Pace) -> Summed {
        let open = matches!(pace, Pace::Open(_));
        Summed::of(
            outcome,
            counters,
            self.tables.all.len(),
            open.then_some(self.arguments.deadline),
            self.arguments.flip.is_some(),
        )
    }

    /// Queries per second of the first strategy with every worker busy, where it is needed.
    fn saturation(&self, runners: &mut [Runner]) -> anyhow::Result<Option<f64>> {
        match self.needs_saturation() {
            true => Ok(Some(self.saturation_of(&mut runners[0])?)),
            false => Ok(None),
        }
    }

    fn saturation_of(&self, runner: &mut Runner) -> anyhow::Result<f64> {
        let kept = (runner.steals, runner.remaps);
        let mut rates = Vec::new();
        for round in 0..=SATURATION_ROUNDS {
            let plan = Plan {
                pace: self.saturated(),
                warmup: self.arguments.warmup,
                length: self.arguments.duration,
                seed: self.arguments.seed ^ 0x5a7 ^ u64::from(round) << 32,
                flip: false,
            };
            let Some(summed) = self.one(runner, &plan, "measuring saturation")? else {
                break;
            };
            // The first one warms up processor, allocator and placement.
            if round > 0 {
                let rate = (summed.round.throughput_qps, summed.starved > STARVED);
                rates.push(rate);
            }
        }
        let fed = || rates.iter().filter(|(_, starved)| !starved);
        if fed().next().is_some() {
            rates = fed().copied().collect();
        }
        let rates: Vec<f64> = rates.into_iter().map(|(rate, _)| rate).collect();
        ensure!(!rates.is_empty(), "stopped before saturation was measured");
        (runner.steals, runner.remaps) = kept;
        Ok(median(rates))
    }

    fn pace(&self, saturation: Option<f64>) -> Pace {
        if self.arguments.clients.is_some() {
            return Pace::Closed;
        }
        match (self.arguments.rate, saturation) {
            (Rate::Fixed(rate), _) => Pace::Open(rate),
            (Rate::Share(share), Some(saturation)) => Pace::Open(share * saturation),
            (Rate::Max | Rate::Share(_), _) => self.saturated(),
        }
    }

    /// Lets placements settle by traffic before anything is measured: an executor moves no table before its fast window
    /// is full. Runs that are shorter than that altogether are left as they are.
    fn settle(&self, runners: &mut [Runner], pace: Pace) -> anyhow::Result<()> {
        let arguments = self.arguments;
        let all = (arguments.warmup + arguments.duration) * arguments.rounds;
        if arguments.table_skew == 0.0 || self.workers < 3 {
            return Ok(());
        }
        for runner in runners {
            let window = runner
                .choice
                .window
                .or(arguments.window)
                .unwrap_or(WindowConfig::new().fast);
            let length = window + SETTLED;
            if runner.placement.is_none() || length > all {
                continue;
            }
            let kept = (runner.steals, runner.remaps);
            let plan = Plan {
                pace,
                warmup: Duration::ZERO,
                length,
                seed: arguments.seed ^ 0x5e7,
                flip: false,
            };
            self.bar.inc_length(length.as_millis() as u64);
            self.one(runner, &plan, "placement settles")?;
            (runner.steals, runner.remaps) = kept;
        }
        Ok(())
    }

    fn rounds(&self, runners: &mut [Runner], pace: Pace) -> anyhow::Result<()> {
        let count = runners.len();
        let wanted = self.arguments.rounds as usize;
        // A round that is left out is run again. Where the first rounds all are, the sender is too slow for any.
        for round in 0..2 * wanted {
            let fed = runners[0].rounds.len();
            if fed == wanted || (round == wanted && fed == 0) {
                break;
            }
            let plan = Plan {
                pace,
                warmup: self.arguments.warmup,
                length: self.arguments.duration,
                // In another round other queries; in one round the same for all.
                seed: self.arguments.seed.wrapping_add(round as u64),
                flip: true,
            };
            // All strategies of a round count the same events.
            if let Some(counters) = &mut *self.counters.borrow_mut() {
                counters.take_turn(round);
            }
            let mut outcomes = Vec::new();
            // Who begins changes from round to round, so that no strategy always follows the same other one.
            for turn in 0..count {
                let index = (turn + round) % count;
                let what = format!("round {}/{wanted}", fed + 1);
                match self.one(&mut runners[index], &plan, &what)? {
                    Some(summed) => outcomes.push((index, summed)),
                    None => break,
                }
            }
            if let Some((index, _)) = outcomes.iter().find(|(_, summed)| summed.answered() == 0) {
                bail!(
                    "{} answered no query in round {}: give a longer --duration or a higher --rate",
                    runners[*index].choice,
                    round + 1
                );
            }
            // A round that only some have run would compare different queries.
            if outcomes.len() < count {
                break;
            }
            // All strategies' figures are of the same rounds.
            let starved = outcomes.iter().any(|(_, summed)| summed.starved > STARVED);
            if starved {
                let round = (plan.warmup + plan.length) * count as u32;
                self.bar.inc_length(round.as_millis() as u64);
            }
            for (index, summed) in outcomes {
                let runner = &mut runners[index];
                if starved {
                    runner.starved.push(summed);
                } else {
                    runner.rounds.push(summed);
                }
            }
        }
        // Then these rounds are all there is, and the notes say so.
        if runners[0].rounds.is_empty() {
            for runner in runners.iter_mut() {
                runner.rounds.append(&mut runner.starved);
            }
        }
        ensure!(
            !runners[0].rounds.is_empty(),
            "stopped before the first round was over"
        );
        Ok(())
    }

    /// What each strategy answers at most: from its rounds, where these were saturated.
    fn saturations(
        &self,
        runners: &mut [Runner],
        (pace, first): (Pace, f64),
    ) -> anyhow::Result<Vec<f64>> {
        let mut all = vec![first];
        for runner in &mut runners[1..] {
            all.push(match pace {
                Pace::Saturated { .. } => {
                    let rounds = runner.rounds.iter();
                    median(rounds.map(|round| round.round.throughput_qps).collect())
                }
                Pace::Closed | Pace::Open(_) => {
                    let round = self.arguments.warmup + self.arguments.duration;
                    let all = round * (SATURATION_ROUNDS + 1);
                    self.bar.inc_length(all.as_millis() as u64);
                    self.saturation_of(runner)?
                }
            });
        }
        Ok(all)
    }

    /// Loads to measure, as shares of the first strategy's saturation. Unless the user names them they go on to where
    /// the fastest strategy's latency leaves.
    fn loads(&self, saturations: &[f64]) -> Vec<f64> {
        let mut loads = self.arguments.sweep();
        if self.arguments.sweep.is_none() {
            let fastest = saturations.iter().copied().fold(0.0, f64::max) / saturations[0];
            for part in BEND {
                let load = part * fastest;
                if loads.last().is_none_or(|last| load > 1.05 * last) {
                    loads.push(load);
                }
            }
        }
        loads
    }

    fn sweep(
        &self,
        runners: &mut [Runner],
        (pace, saturation): (Pace, f64),
    ) -> anyhow::Result<Vec<CurvePoint>> {
        let mut points = Vec::new();
        let kept: Vec<_> = runners
            .iter()
            .map(|runner| (runner.steals, runner.remaps))
            .collect();
        let saturations = match self.saturations(runners, (pace, saturation)) {
            Ok(saturations) => saturations,
            // The rounds are worth more than an error.
            Err(_) if self.stopped() => return Ok(points),
            Err(error) => return Err(error),
        };
        let loads = self.loads(&saturations);
        let named = self.arguments.sweep.is_some();
        for load in loads {
            // Beyond its saturation a queue grows as long as the round lasts: that is no latency of a strategy.
            let bears = |index: usize| named || load * saturation < 0.97 * saturations[index];
            let mut measured: Vec<Vec<Summed>> = runners.iter().map(|_| Vec::new()).collect();
            for round in 0..SWEEP_ROUNDS {
                let plan = Plan {
                    pace: Pace::Open(load * saturation),
                    warmup: self.arguments.warmup,
                    length: self.arguments.duration,
                    seed: self.arguments.seed ^ u64::from(round) << 40,
                    flip: false,
                };
                for (index, runner) in runners.iter_mut().enumerate() {
                    if !bears(index) {
                        continue;
                    }
                    let what = format!("load {:.0} %", load * 100.0);
                    if let Some(summed) = self.one(runner, &plan, &what)? {
                        measured[index].push(summed);
                    }
                }
            }
            if self.stopped() {
                break;
            }
            for (runner, rounds) in runners.iter().zip(&measured) {
                if rounds.is_empty() {
                    continue;
                }
                let of =
                    |value: &dyn Fn(&Summed) -> f64| median(rounds.iter().map(value).collect());
                points.push(CurvePoint {
                    strategy: runner.choice.to_string(),
                    load,
                    rate_qps: load * saturation,
                    throughput_qps: of(&|round| round.round.throughput_qps),
                    latency_us: Latency {
                        p50: of(&|round| round.round.latency_us.p50),
                        p99: of(&|round| round.round.latency_us.p99),
                        p999: of(&|round| round.round.latency_us.p999),
                    },
                });
            }
        }
        // The sweep's steals are at other loads: they are not the rounds'.
        for (runner, (steals, remaps)) in runners.iter_mut().zip(kept) {
            runner.steals = steals;
            runner.remaps = remaps;
        }
        Ok(points)
    }
}
