//! The whole run: tables built once, saturation measured, strategies in turn, round after round.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use chiplet_topology::Topology;
use indicatif::{MultiProgress, ProgressBar};

use super::arguments::{Arguments, Kind, Rate};
use super::contender::{self, Choice, Contender};
use super::counters::{Counters, Reading};
use super::drive::{self, Outcome, Pace, Plan};
use super::machine;
use super::report::{
    CurvePoint, Latency, Placed, PlacedTable, PlacementHistory, Report, Steals, Workload,
};
use super::shelf::{Graph, Shelf};
use super::summary::{self, Summed, median};

/// Rounds from which saturation is taken, after one that is not counted.
const SATURATION_ROUNDS: u32 = 3;

/// Rounds of the sweep at each load; their median is drawn.
const SWEEP_ROUNDS: u32 = 3;

/// Tables whose homes are drawn: more rows than this nobody reads.
const DRAWN_TABLES: usize = 24;

/// One contender and what it has done so far.
struct Runner {
    choice: Choice,
    contender: Box<dyn Contender>,
    rounds: Vec<Summed>,
    steals: Steals,
    remaps: u64,
    counts: bool,
    placement: Option<Followed>,
}

/// Homes over the time a contender was under load, pauses cut out.
struct Followed {
    active: f64,
    homes: Vec<Vec<Placed>>,
}

pub(crate) fn run(
    arguments: &Arguments,
    topology: &Topology,
    stop: &AtomicBool,
) -> anyhow::Result<Report> {
    let date = machine::now();
    // Before any thread is started: those started later are counted too.
    let counters = Counters::open(&[]);
    let summary = match &counters {
        Ok(counters) => counters.summary(),
        Err(unavailable) => unavailable.to_string(),
    };
    let described = machine::describe(topology, summary);
    let bars = MultiProgress::new();
    let shelf = Arc::new(Shelf::build(arguments, &bars, stop)?);
    let mut runners = Vec::new();
    for choice in &arguments.strategies {
        let contender = choice.start(arguments, topology, &shelf)?;
        let placement = contender.homes().map(|homes| Followed {
            active: 0.0,
            homes: homes
                .into_iter()
                .map(|domain| vec![Placed { at_s: 0.0, domain }])
                .collect(),
        });
        runners.push(Runner {
            choice: *choice,
            counts: contender.counts().is_some(),
            contender,
            rounds: Vec::new(),
            steals: Steals::default(),
            remaps: 0,
            placement,
        });
    }
    let series = Series {
        arguments,
        shelf: &shelf,
        stop,
        workers: contender::workers(arguments, topology)?,
        bar: bars.add(ProgressBar::new(0)),
        counters: RefCell::new(counters.ok()),
        coverage: Cell::new(1.0),
    };
    series.plan_time(runners.len());
    let saturation = series.saturation(&mut runners)?;
    let pace = series.pace(saturation);
    series.rounds(&mut runners, pace)?;
    let curve = match saturation {
        Some(saturation) if series.sweeps() => series.sweep(&mut runners, saturation)?,
        _ => Vec::new(),
    };
    series.bar.finish_and_clear();

    let names: Vec<&str> = shelf
        .tables
        .iter()
        .map(|table| table.name.as_str())
        .collect();
    let strategies = runners
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
    let shares = drive::shares(arguments, &shelf)?;
    let placements = runners
        .iter()
        .filter_map(|runner| history(runner, &names, &shares, topology))
        .collect();
    Ok(Report {
        date,
        command: std::env::args().collect::<Vec<_>>().join(" "),
        machine: described,
        workload: workload(arguments, topology, &shelf, (pace, saturation), &runners),
        strategies,
        load_curve: curve,
        placements,
        notes: notes(arguments, &runners, pace, series.coverage.get()),
    })
}

struct Series<'a> {
    arguments: &'a Arguments,
    shelf: &'a Arc<Shelf>,
    stop: &'a AtomicBool,
    workers: usize,
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
            .set_style(super::style("{msg:40} {bar:30} {percent:>3} %, {eta} left"));
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn saturated(&self) -> Pace {
        Pace::Saturated(self.arguments.outstanding as usize * self.workers)
    }

    fn one(&self, runner: &mut Runner, plan: &Plan, what: &str) -> anyhow::Result<Option<Outcome>> {
        if self.stopped() {
            return Ok(None);
        }
        self.bar.set_message(format!("{}: {what}", runner.choice));
        let before = runner.contender.counts();
        let start = self.bar.position();
        drop(runner.contender.moves());
        let counted_before = self.counted();
        let began = Instant::now();
        let mut outcome = drive::round(
            &*runner.contender,
            self.arguments,
            self.shelf,
            plan,
            self.stop,
            |gone| self.bar.set_position(start + gone.as_millis() as u64),
        )
        .with_context(|| format!("{}, {what}", runner.choice))?;
        if let (Some(after), Some(before)) = (self.counted(), counted_before) {
            let counted = after.since(&before);
            self.coverage
                .set(self.coverage.get().min(counted.coverage()));
            outcome.counters = Some(counted.per_query(outcome.sent));
        }
        let length = plan.warmup + plan.length;
        self.bar.set_position(start + length.as_millis() as u64);
        let lasted = began.elapsed().as_secs_f64();
        if let (Some((before, remaps_before)), Some((after, remaps))) =
            (before, runner.contender.counts())
        {
            runner.steals.own += after.own - before.own;
            runner.steals.domain += after.domain - before.domain;
            runner.steals.remote += after.remote - before.remote;
            runner.remaps += remaps - remaps_before;
        }
        if let Some(followed) = &mut runner.placement {
            followed.follow(runner.contender.moves(), began, lasted);
        }
        Ok((!self.stopped()).then_some(outcome))
    }

    fn counted(&self) -> Option<Reading> {
        self.counters.borrow_mut().as_mut().map(Counters::read)
    }

    fn sum(&self, outcome: Outcome) -> Summed {
        Summed::of(
            outcome,
            self.shelf.tables.len(),
            self.arguments.deadline,
            self.arguments.flip.is_some(),
        )
    }

    /// Queries per second of the first strategy with every worker busy, where it is needed.
    fn saturation(&self, runners: &mut [Runner]) -> anyhow::Result<Option<f64>> {
        if !self.needs_saturation() {
            return Ok(None);
        }
        let mut rates = Vec::new();
        for round in 0..=SATURATION_ROUNDS {
            let plan = Plan {
                pace: self.saturated(),
                warmup: self.arguments.warmup,
                length: self.arguments.duration,
                seed: self.arguments.seed ^ 0x5a7 ^ u64::from(round) << 32,
                flip: false,
            };
            let Some(outcome) = self.one(&mut runners[0], &plan, "measuring saturation")? else {
                break;
            };
            // The first one warms up processor, allocator and placement.
            if round > 0 {
                rates.push(self.sum(outcome).round.throughput_qps);
            }
        }
        ensure!(!rates.is_empty(), "stopped before saturation was measured");
        runners[0].steals = Steals::default();
        runners[0].remaps = 0;
        Ok(Some(median(rates)))
    }

    fn pace(&self, saturation: Option<f64>) -> Pace {
        if let Some(clients) = self.arguments.clients {
            return Pace::Closed(clients as usize);
        }
        match (self.arguments.rate, saturation) {
            (Rate::Fixed(rate), _) => Pace::Open(rate),
            (Rate::Share(share), Some(saturation)) => Pace::Open(share * saturation),
            (Rate::Max | Rate::Share(_), _) => self.saturated(),
        }
    }

    fn rounds(&self, runners: &mut [Runner], pace: Pace) -> anyhow::Result<()> {
        let count = runners.len();
        for round in 0..self.arguments.rounds as usize {
            let plan = Plan {
                pace,
                warmup: self.arguments.warmup,
                length: self.arguments.duration,
                // In another round other queries; in one round the same for all.
                seed: self.arguments.seed.wrapping_add(round as u64),
                flip: true,
            };
            let mut outcomes = Vec::new();
            // Who begins changes from round to round, so that no strategy always follows the same other one.
            for turn in 0..count {
                let index = (turn + round) % count;
                let what = format!("round {}/{}", round + 1, self.arguments.rounds);
                match self.one(&mut runners[index], &plan, &what)? {
                    Some(outcome) => outcomes.push((index, self.sum(outcome))),
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
            for (index, summed) in outcomes {
                runners[index].rounds.push(summed);
            }
        }
        ensure!(
            !runners[0].rounds.is_empty(),
            "stopped before the first round was over"
        );
        Ok(())
    }

    fn sweep(&self, runners: &mut [Runner], saturation: f64) -> anyhow::Result<Vec<CurvePoint>> {
        let mut points = Vec::new();
        let kept: Vec<_> = runners
            .iter()
            .map(|runner| (runner.steals, runner.remaps))
            .collect();
        for load in self.arguments.sweep() {
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
                    let what = format!("load {:.0} %", load * 100.0);
                    if let Some(outcome) = self.one(runner, &plan, &what)? {
                        measured[index].push(self.sum(outcome));
                    }
                }
            }
            if self.stopped() {
                break;
            }
            for (runner, rounds) in runners.iter().zip(&measured) {
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

impl Followed {
    /// Adds the moves of a round that began at `began` and took `lasted` seconds.
    fn follow(&mut self, moves: Vec<(usize, Instant, u32)>, began: Instant, lasted: f64) {
        for (table, at, domain) in moves {
            let at = at
                .saturating_duration_since(began)
                .as_secs_f64()
                .min(lasted);
            self.homes[table].push(Placed {
                at_s: self.active + at,
                domain,
            });
        }
        self.active += lasted;
    }
}

fn history(
    runner: &Runner,
    names: &[&str],
    shares: &[f64],
    topology: &Topology,
) -> Option<PlacementHistory> {
    let followed = runner.placement.as_ref()?;
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(a.cmp(&b)));
    let tables = order
        .into_iter()
        .take(DRAWN_TABLES)
        .map(|table| PlacedTable {
            name: names[table].to_owned(),
            share: shares[table],
            homes: followed.homes[table].clone(),
        })
        .collect();
    Some(PlacementHistory {
        strategy: runner.choice.to_string(),
        domains: topology.domains().len(),
        length_s: followed.active,
        tables,
    })
}

fn workload(
    arguments: &Arguments,
    topology: &Topology,
    shelf: &Shelf,
    (pace, saturation): (Pace, Option<f64>),
    runners: &[Runner],
) -> Workload {
    let uses = |graph| runners.iter().any(|runner| runner.choice.graph == graph);
    let mut indexes = Vec::new();
    if shelf.graphs > 0 {
        if uses(Graph::Own) {
            indexes.push("chiplet HNSW".to_owned());
        }
        if uses(Graph::Usearch) {
            indexes.push("usearch".to_owned());
        }
    }
    if shelf.graphs < shelf.tables.len() {
        indexes.push("Faiss".to_owned());
    }
    let process = if arguments.bursty {
        "bursty"
    } else {
        "Poisson"
    };
    Workload {
        data: shelf.source.clone(),
        kind: arguments.kind.to_string(),
        indexes,
        tables: shelf.tables.len(),
        verdict: shelf.verdict(topology, runners[0].choice.graph),
        rows: shelf.rows,
        dims: shelf.queries.dim(),
        k: arguments.k as usize,
        ef: arguments.ef() as usize,
        nprobe: arguments.nprobe() as usize,
        lists: (shelf.graphs < shelf.tables.len() && arguments.factory.is_none())
            .then(|| super::shelf::lists(shelf.rows)),
        queries: shelf.queries.len(),
        bytes: shelf.bytes(runners[0].choice.graph),
        table_skew: arguments.table_skew,
        query_skew: arguments.query_skew,
        arrivals: match pace {
            Pace::Saturated(outstanding) => format!("saturated, {outstanding} outstanding"),
            Pace::Closed(clients) => format!("closed loop, {clients} clients"),
            Pace::Open(_) => format!("open loop, {process}"),
        },
        outstanding: match pace {
            Pace::Saturated(outstanding) => Some(outstanding),
            Pace::Closed(clients) => Some(clients),
            Pace::Open(_) => None,
        },
        rate_qps: match pace {
            Pace::Open(rate) => Some(rate),
            Pace::Saturated(_) | Pace::Closed(_) => None,
        },
        saturation_qps: saturation,
        flip_s: arguments.flip.map(|flip| flip.as_secs_f64()),
        deadline_us: Some(arguments.deadline.as_secs_f64() * 1e6),
        rounds: runners[0].rounds.len(),
        round_s: arguments.duration.as_secs_f64(),
        warmup_s: arguments.warmup.as_secs_f64(),
        seed: arguments.seed,
    }
}

/// What a reader should know before believing the figures.
fn notes(arguments: &Arguments, runners: &[Runner], pace: Pace, coverage: f64) -> Vec<String> {
    let mut notes = Vec::new();
    let done = runners[0].rounds.len();
    if done < arguments.rounds as usize {
        notes.push(format!(
            "Stopped early: {done} of {} rounds were run.",
            arguments.rounds
        ));
    }
    if !matches!(pace, Pace::Open(_)) {
        notes.push(
            "A number of queries was kept outstanding, so latency follows from throughput: for latency give a \
             rate below saturation (--rate 70%)."
                .to_owned(),
        );
    }
    if coverage < 0.99 {
        notes.push(format!(
            "Hardware counters took turns: one was counted {:.0} % of the time, and scaled.",
            coverage * 100.0
        ));
    }
    if arguments.kind == Kind::Mixed {
        notes.push(format!(
            "{} % of the queries went to graphs.",
            arguments.hnsw_share
        ));
    }
    notes
}
