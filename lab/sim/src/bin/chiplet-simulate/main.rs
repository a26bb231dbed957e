//! The program `chiplet-simulate`: the strategies on a modelled machine.
//!
//! | file | holds |
//! |---|---|
//! | `arguments` | the command line |
//! | `mine` | a workload that `chiplet bench` has run |
//! | `log` | locality from a log of a service's queries |
//! | `beside` | what was measured there beside the model |
//! | `modes` | ways to deploy a service |
//! | `text` | the tables for a person |
//! | `page` | the HTML page |

mod arguments;
mod beside;
mod log;
mod mine;
mod modes;
mod page;
mod text;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use chiplet_baselines::Strategy;
use chiplet_sim::{
    Compute, Costs, Flip, Load, Machine, Outcome, Prepared, Recipe, Sampling, Scenario, Workload,
};
use clap::Parser as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use arguments::Arguments;
use beside::Beside;
use log::Locality;
use mine::Mine;

/// All figures of a call; every one is modelled.
#[derive(Serialize)]
pub(crate) struct Report {
    /// Says so to whoever reads the file.
    modelled: bool,
    machine: String,
    costs: Costs,
    compute: Compute,
    seed: u64,
    workload: Workload,
    /// The part of a graph search's rows that another one of its topic compares, too: lowest and highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows_in_common: Option<[f64; 2]>,
    /// Seconds after which the hot set moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    flip: Option<f64>,
    /// What the log of queries said, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    locality: Option<Locality>,
    /// The measured run whose tables and traffic these are, beside the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Beside>,
    runs: Vec<Run>,
}

/// One run.
#[derive(Serialize)]
pub(crate) struct Run {
    /// Percent of the first strategy's saturation on as many domains; none: saturated.
    load: Option<u32>,
    /// As busy as the measured run was.
    #[serde(skip)]
    as_measured: bool,
    #[serde(flatten)]
    outcome: Outcome,
}

fn main() -> ExitCode {
    chiplet_bench::output::finish("chiplet-simulate", run(&Arguments::parse()))
}

/// Runs the scenarios; what is returned goes to standard output.
fn run(arguments: &Arguments) -> anyhow::Result<String> {
    arguments.check()?;
    for path in [&arguments.json, &arguments.report].into_iter().flatten() {
        chiplet_bench::output::writable(path)?;
    }
    let mine = arguments.mine.as_deref().map(mine::read).transpose()?;
    let machine = machine(arguments, mine.as_ref())?;
    let mut recipe = recipe(arguments, mine.as_ref())?;
    let log = arguments.log.as_deref().map(log::read).transpose()?;
    let locality = log.map(|log| log.locality(recipe.workload(arguments.seed).queries));
    if let Some(Locality {
        table_skew,
        query_skew,
        ..
    }) = locality
    {
        recipe = recipe.skewed(Some(table_skew), Some(query_skew));
    }
    let sizes = match arguments.domains.as_slice() {
        [] => &[machine.topology.domains().len()],
        sizes => sizes,
    };
    let machines = sizes.iter().map(|&size| machine.with_domains(size));
    let machines = machines.collect::<Result<Vec<_>, _>>()?;
    let compute = match arguments.calibrate {
        true => Compute::measure(),
        false => Compute::default(),
    };
    let bar = ProgressBar::new_spinner();
    bar.set_style(
        ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is valid"),
    );
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    if !arguments.modes.is_empty() {
        let report = modes::run(arguments, &machine, &recipe, compute, &bar)?;
        bar.finish_and_clear();
        write_json(arguments, &report)?;
        return Ok(modes::render(&report));
    }
    let workload = recipe.workload(arguments.seed);
    check(arguments, &workload, &machines)?;
    let sampling = Sampling {
        sample: 1.0 / f64::from(arguments.sample),
        seed: arguments.seed,
        ..Sampling::default()
    };
    let prepared = Prepared::new(workload, sampling, |what| bar.set_message(what.to_owned()));
    let mut runs = Vec::new();
    for machine in machines {
        let session = Session {
            arguments,
            machine: &machine,
            prepared: &prepared,
            compute,
            outstanding: arguments
                .outstanding
                .or(mine.as_ref().and_then(|mine| mine.outstanding))
                .unwrap_or(Load::OUTSTANDING),
            rate: mine.as_ref().and_then(|mine| mine.rate),
            strategies: match mine.as_ref().and_then(Mine::strategies) {
                Some(strategies) if arguments.strategies.is_empty() => strategies,
                _ => arguments.strategies(),
            },
            bar: &bar,
        };
        session.run(&mut runs);
    }
    bar.finish_and_clear();
    let measured = mine.map(|mine| {
        let as_busy = runs.iter().filter(|run| run.as_measured);
        let as_busy: Vec<_> = as_busy.map(|run| &run.outcome).collect();
        beside::beside(&mine.report, &machine, &as_busy)
    });
    let report = Report {
        modelled: true,
        machine: machine.name.clone(),
        costs: machine.costs,
        compute,
        seed: arguments.seed,
        workload: prepared.workload.clone(),
        flip: arguments.flip,
        rows_in_common: prepared.rows_in_common(),
        locality,
        measured,
        runs,
    };
    write_json(arguments, &report)?;
    if let Some(path) = &arguments.report {
        chiplet_bench::output::write(path, &page::page(&report))?;
    }
    Ok(text::render(&report))
}

fn write_json(arguments: &Arguments, report: &impl Serialize) -> anyhow::Result<()> {
    match &arguments.json {
        Some(path) => {
            let text = serde_json::to_string_pretty(report)?;
            chiplet_bench::output::write(path, &(text + "\n"))
        }
        None => Ok(()),
    }
}

/// The runs on one machine.
struct Session<'a> {
    arguments: &'a Arguments,
    machine: &'a Machine,
    prepared: &'a Prepared,
    compute: Compute,
    outstanding: u32,
    /// Queries a second, to be run besides.
    rate: Option<f64>,
    strategies: Vec<Strategy>,
    bar: &'a ProgressBar,
}

impl Session<'_> {
    fn run(&self, runs: &mut Vec<Run>) {
        let strategies = &self.strategies;
        if self.prepared.workload.shared_tables() == 0 {
            runs.extend(strategies.iter().map(|&strategy| Run {
                load: None,
                as_measured: false,
                outcome: self.one(strategy, None),
            }));
            return;
        }
        let mut saturation = 0.0;
        for (at, &strategy) in strategies.iter().enumerate() {
            let outcome = self.one(strategy, None);
            if at == 0 {
                saturation = outcome.qps;
            }
            runs.push(Run {
                load: None,
                as_measured: self.rate.is_none(),
                outcome,
            });
        }
        let loads = match (self.arguments.flip, self.arguments.loads.as_slice()) {
            (Some(_), []) => &[70],
            (_, loads) => loads,
        };
        let shares = loads
            .iter()
            .map(|&load| saturation * f64::from(load) / 100.0);
        for rate in shares.chain(self.rate) {
            for &strategy in strategies {
                runs.push(Run {
                    as_measured: self.rate == Some(rate),
                    load: Some((100.0 * rate / saturation).round() as u32),
                    outcome: self.one(strategy, Some(rate)),
                });
            }
        }
    }

    /// One run: saturated, or open at a rate, where the hot set may move.
    fn one(&self, strategy: Strategy, rate: Option<f64>) -> Outcome {
        let mut scenario = Scenario::new(self.machine, self.prepared, strategy);
        scenario.compute = self.compute;
        scenario.seed = self.arguments.seed;
        scenario.settled = !self.arguments.unsettled;
        scenario.settings.memory_budget = self.arguments.memory_budget;
        if !self.prepared.workload.is_timed() {
            scenario = scenario.counting(self.arguments.queries);
        }
        scenario.load = match rate {
            Some(rate) => Load::Open { rate },
            None => Load::Saturated {
                outstanding: self.outstanding,
            },
        };
        if let (Some(at), Some(rate)) = (self.arguments.flip, rate) {
            scenario.flip = Some(Flip { at });
            // Until twice that time, and half of it to warm up.
            scenario.warmup = (rate * at / 2.0) as u64;
            scenario.measured = (rate * at * 1.5) as u64;
            scenario.longest = 2.0 * at;
        }
        let on = self.machine.topology.domains().len();
        let all = match self.prepared.workload.is_timed() {
            true => String::new(),
            false => format!(" of {}", scenario.warmup + scenario.measured),
        };
        scenario.run(&mut |answered| {
            self.bar.set_message(format!(
                "{strategy} on {on} domains: {answered}{all} queries"
            ));
        })
    }
}

/// What a workload with clients of its own cannot have.
fn check(arguments: &Arguments, workload: &Workload, machines: &[Machine]) -> anyhow::Result<()> {
    for tenant in &workload.asking.tenants {
        let Some(home) = tenant.home else { continue };
        for machine in machines {
            let domains = machine.topology.domains().len();
            ensure!(
                home < domains,
                "{}: home = {home}, but {} is run with {domains} domains: give one from 0 to {}",
                tenant.name,
                machine.name,
                domains - 1
            );
        }
    }
    if workload.is_timed() {
        ensure!(
            arguments.flip.is_none(),
            "--flip moves the common stream's hot set: give it with a workload in which no table has `asks`"
        );
    }
    if workload.shared_tables() == 0 {
        ensure!(
            arguments.loads.is_empty() && arguments.outstanding.is_none(),
            "--loads and --outstanding are about the common stream, but all tables of {} have `asks`: say there how much",
            workload.name
        );
    }
    Ok(())
}

fn machine(arguments: &Arguments, mine: Option<&Mine>) -> anyhow::Result<Machine> {
    let name = &arguments.machine;
    let mut machine = match (&**name, mine) {
        ("measured", Some(mine)) => mine.machine()?,
        ("measured", None) => anyhow::bail!("--machine measured: give --mine, whose machine it is"),
        (name, _) if name.ends_with(".xml") => from_xml(Path::new(name))?,
        (name, _) => Machine::preset_with(name, arguments.l3.map(|mib| mib << 20))?,
    };
    if let Some(link) = arguments.link {
        machine.costs.link_gbs = link;
    }
    Ok(machine)
}

#[cfg(feature = "hwloc")]
fn from_xml(path: &Path) -> anyhow::Result<Machine> {
    let topology = chiplet_bench::hwloc::from_xml(path, chiplet_topology::LevelChoice::Auto)?;
    let name = path.display().to_string();
    Ok(Machine::new(name, topology, Costs::GENOA))
}

#[cfg(not(feature = "hwloc"))]
fn from_xml(path: &Path) -> anyhow::Result<Machine> {
    anyhow::bail!(
        "{} cannot be read: this chiplet was built without the feature hwloc",
        path.display()
    )
}

fn recipe(arguments: &Arguments, mine: Option<&Mine>) -> anyhow::Result<Recipe> {
    let name = &arguments.workload;
    let mut recipe = match mine {
        Some(mine) => mine.recipe.clone(),
        None => Recipe::open(name).with_context(|| name.clone())?,
    };
    recipe = recipe
        .skewed(arguments.table_skew, arguments.query_skew)
        .about(arguments.topics);
    if let Some(hot) = arguments.hot {
        recipe = recipe.hot(f64::from(hot) / 100.0);
    }
    if let Some(count) = arguments.tables {
        recipe = recipe.counting(count as usize);
    }
    if let Some(factor) = arguments.size {
        recipe = recipe.resized(factor);
    }
    Ok(recipe.kept(arguments.rows_as, arguments.rerank)?)
}
