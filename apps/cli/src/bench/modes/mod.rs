//! `chiplet bench --modes`: ways to deploy a service on this machine, each as real processes, at equal processor use.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | which processes a mode has, and on which cpus |
//! | `wire` | messages between the command and its processes |
//! | `ranking`, `saved` | the complex model; tables in a folder, for all processes |
//! | `instance` | one process |
//! | `cpuset`, `autonuma` | what the system is asked for |
//! | `fleet` | all processes of a mode, as a pool |
//! | `report`, `measure` | rounds of all modes in turn, and what they gave |
//! | `text` | the report on a terminal |
//!
//! All modes are alive during the whole run, and their rounds are interleaved. NetEase compared such modes at 60 %
//! processor use ("Performance evaluation of the cloud music online estimation system on NUMA architecture"), MAO four
//! instances.

mod autonuma;
mod cpuset;
mod fleet;
mod instance;
mod measure;
mod plan;
mod ranking;
mod report;
mod saved;
mod text;
mod wire;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use chiplet_topology::{Topology, cpu_ranges, room_on};
use indicatif::{MultiProgress, ProgressBar};

use super::arguments::{Arguments, AutoNuma, Choice, Graph, PoolKind};
use super::generator::{self, Senders};
use super::machine;
use super::recorder::Recorder;
use super::tables::Tables;
use autonuma::Balancing;
use chiplet_bench::output::{style, write};
use cpuset::Group;
use fleet::{Fleet, Member};
use instance::Setup;
use measure::{Bench, Candidate};
use plan::{Node, Nodes};
use report::{Report, Use, Workload};

use chiplet_bench::modes::rate::WITHIN;
use chiplet_bench::modes::{Mode, Model};

/// Runs as one process of a mode.
pub(super) fn instance(arguments: &Arguments) -> anyhow::Result<String> {
    instance::run(arguments)?;
    Ok(String::new())
}

/// Runs the comparison; what is returned goes to standard output.
pub(super) fn run(
    arguments: &Arguments,
    topology: &Topology,
    stop: &AtomicBool,
) -> anyhow::Result<String> {
    let date = machine::now();
    let (usual, placing) = strategies(arguments)?;
    let balancing = match arguments.modes.autonuma[..] {
        [] => None,
        _ => Some(Balancing::new()?),
    };
    let (usable, apart) = generator::apart(topology, arguments.senders)?;
    let nodes = Nodes::of(&usable, &arguments.modes.modes)?;
    let folder = folder()?;
    let senders = Senders::start(apart, 1)?;
    let bars = MultiProgress::new();
    let tables = Tables::build(arguments, &bars, stop)?.keep();
    check_room(arguments, &nodes, tables)?;
    saved::save(folder.path(), tables, arguments)?;

    let mut candidates = Vec::new();
    for &mode in &arguments.modes.modes {
        let strategy = match mode {
            Mode::Chiplet => placing,
            _ => usual,
        };
        for autonuma in settings(arguments) {
            let started = Start {
                folder: folder.path(),
                nodes: &nodes,
                connections: senders.count(),
                number: candidates.len(),
            };
            candidates.push(started.candidate(mode, strategy, autonuma)?);
        }
    }
    let bar = bars.add(ProgressBar::new(0));
    bar.set_style(style("{msg:40} {bar:30} {percent:>3} %, {eta} left"));
    let bench = Bench {
        arguments,
        tables,
        senders: &senders,
        recorder: Recorder::start(tables),
        stop,
        bar,
        balancing,
        cores: usable.worker_limit(),
    };
    let uses = bench.run(&mut candidates)?;
    ensure!(!uses.is_empty(), "stopped before the first round was over");
    let report = Report {
        date,
        command: machine::command(),
        machine: machine::describe(topology, "not read".to_owned()),
        workload: workload(arguments, tables, &nodes, &bench),
        modes: candidates
            .iter()
            .map(|candidate| candidate.mode.clone())
            .collect(),
        notes: notes(&bench, &nodes, &candidates, &uses),
        uses,
    };
    if let Some(path) = &arguments.json {
        write(path, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    Ok(text::render(&report))
}

/// Puts back what of the system was changed: for who ends the program at once.
pub(super) fn put_back() {
    autonuma::put_back();
}

/// Bytes of the longest path that a socket may have, with some to spare.
const SOCKET_PATH: usize = 100;

/// A folder for tables and sockets, removed when it goes; those that killed commands have left are removed now.
fn folder() -> anyhow::Result<tempfile::TempDir> {
    let all = std::env::temp_dir();
    cpuset::sweep(&all);
    let folder = tempfile::Builder::new()
        .prefix(&cpuset::name(""))
        .tempdir_in(&all);
    let folder = folder.with_context(|| {
        format!(
            "no folder for tables in {}; TMPDIR says where to",
            all.display()
        )
    })?;
    let longest = folder.path().join("00-00");
    ensure!(
        longest.as_os_str().len() < SOCKET_PATH,
        "{}: no socket may have a path as long as this; give a shorter TMPDIR",
        folder.path().display()
    );
    Ok(folder)
}

/// What runs the queries of a usual process, and of the one that places tables: the first and the last strategy.
fn strategies(arguments: &Arguments) -> anyhow::Result<(Choice, Choice)> {
    for choice in &arguments.strategies {
        ensure!(
            choice.graph == Graph::Own && choice.pool != PoolKind::OpenMp,
            "--strategy {choice}: with --modes each process searches chiplet's own indexes, by a pool of its own"
        );
    }
    let [usual, .., placing] = arguments.strategies[..] else {
        anyhow::bail!("--strategy: give two, that of usual processes and chiplet's");
    };
    ensure!(
        matches!(placing.pool, PoolKind::Chiplet(_))
            || !arguments.modes.modes.contains(&Mode::Chiplet),
        "--strategy {placing}: mode chiplet is about placement; name one of chiplet's own strategies last"
    );
    Ok((usual, placing))
}

/// The settings of automatic NUMA balancing under which each mode is measured.
fn settings(arguments: &Arguments) -> Vec<Option<AutoNuma>> {
    match &arguments.modes.autonuma[..] {
        [] => vec![None],
        asked => asked.iter().copied().map(Some).collect(),
    }
}

/// Every process has all tables.
fn check_room(arguments: &Arguments, nodes: &Nodes, tables: &Tables) -> anyhow::Result<()> {
    let modes = arguments.modes.modes.iter();
    let processes: usize = modes.map(|&mode| nodes.processes(mode).len()).sum();
    let processes = processes * settings(arguments).len();
    let rows: usize = tables
        .all
        .iter()
        .map(|table| table.index(Graph::Own).len())
        .sum();
    let features = match arguments.modes.at.model {
        Model::Search => 0,
        Model::Ranking => ranking::bytes(rows),
    };
    let needed = (tables.bytes(Graph::Own) + features) * processes as u64;
    let mut memory: Vec<u32> = nodes.nodes.iter().map(|node| node.memory).collect();
    memory.sort_unstable();
    memory.dedup();
    let Some(room) = room_on(&memory) else {
        return Ok(());
    };
    ensure!(
        needed < room,
        "{processes} processes with all tables need {} MiB, and there are {} MiB: give fewer --modes, or smaller tables",
        needed >> 20,
        room >> 20
    );
    Ok(())
}

/// What the processes of one mode are started with.
struct Start<'a> {
    folder: &'a Path,
    nodes: &'a Nodes,
    connections: usize,
    /// Of the mode.
    number: usize,
}

impl Start<'_> {
    fn candidate(
        &self,
        mode: Mode,
        strategy: Choice,
        autonuma: Option<AutoNuma>,
    ) -> anyhow::Result<Candidate> {
        let processes = self.nodes.processes(mode);
        // What is named first goes last: groups when nobody is in them any more.
        let mut groups = Vec::new();
        let mut members = Vec::new();
        let mut pinning = Pinning::default();
        for (number, node) in processes.iter().enumerate() {
            let name = format!("{}-{number}", self.number);
            let setup = Setup {
                folder: self.folder.to_owned(),
                socket: self.folder.join(&name),
                // As many threads read requests in each mode.
                connections: self.connections.div_ceil(processes.len()),
                strategy: strategy.to_string(),
                cpus: node.map_or_else(|| self.nodes.cpus(), |node| node.cpus.clone()),
                pinned: node.is_some(),
            };
            let adopt = |process| {
                if let Some(node) = node {
                    groups.extend(pinning.pin(process, &cpuset::name(&name), node));
                }
            };
            let member = Member::start(&setup, adopt);
            members.push(member.with_context(|| format!("mode {mode}, process {}", number + 1))?);
        }
        let fleet = Fleet::new(members);
        let name = match autonuma {
            None => mode.to_string(),
            Some(AutoNuma::On) => format!("{mode}, AutoNUMA on"),
            Some(AutoNuma::Off) => format!("{mode}, AutoNUMA off"),
        };
        let mode = report::Mode {
            name,
            processes: processes.len(),
            threads: fleet.threads(),
            table_bytes: fleet.table_bytes(),
            strategy: strategy.to_string(),
            pinned_by: pinning.by,
            not_in_cpusets: pinning.why,
            autonuma: autonuma.map(|setting| setting == AutoNuma::On),
        };
        Ok(Candidate::new(mode, fleet, autonuma, groups))
    }
}

/// How the processes of a mode were pinned.
#[derive(Default)]
struct Pinning {
    by: Option<String>,
    /// Why not all of them have a cpuset.
    why: Option<String>,
}

impl Pinning {
    /// Gives a process a cpuset, if the system lets this command; it has an affinity mask in any case.
    fn pin(&mut self, process: u32, name: &str, node: &Node) -> Option<Group> {
        let group = Group::new(name, node).and_then(|group| {
            group.add(process)?;
            Ok(group)
        });
        match group {
            Ok(group) => {
                let by = format!("cpuset ({})", group.version);
                self.by.get_or_insert(by);
                Some(group)
            }
            Err(why) => {
                self.by = Some("affinity".to_owned());
                self.why = Some(format!("{why:#}"));
                None
            }
        }
    }
}

fn workload(arguments: &Arguments, tables: &Tables, nodes: &Nodes, bench: &Bench<'_>) -> Workload {
    let senders = bench.senders;
    Workload {
        model: arguments.modes.at.model.to_string(),
        data: tables.source.clone(),
        kind: arguments.kind.to_string(),
        tables: tables.all.len(),
        rows: tables.rows,
        dims: tables.dims(),
        k: arguments.k as usize,
        bytes: tables.bytes(Graph::Own),
        table_skew: arguments.table_skew,
        rounds: arguments.rounds as usize,
        round_s: arguments.duration.as_secs_f64(),
        warmup_s: arguments.warmup.as_secs_f64(),
        seed: arguments.seed,
        nodes_are: nodes.kind.clone(),
        nodes: nodes
            .nodes
            .iter()
            .map(|node| cpu_ranges(&node.cpus))
            .collect(),
        cores: bench.cores,
        sender_cpus: senders.have_own_cores().then(|| senders.cpus()),
    }
}

/// Requests of a round below which its p99 is one of the three slowest.
const FEW: usize = 300;

/// What a reader should know before believing the figures.
fn notes(bench: &Bench<'_>, nodes: &Nodes, candidates: &[Candidate], uses: &[Use]) -> Vec<String> {
    let mut notes = Vec::new();
    if nodes.kind != "NUMA node" {
        notes.push(
            "One NUMA node here: what pinning gives is what the caches of a domain give, and nothing of memory; AutoNUMA has \
             nothing to do."
                .to_owned(),
        );
    }
    let modes = candidates.iter().map(|candidate| &candidate.mode);
    for (name, why) in modes.filter_map(|mode| Some((&mode.name, mode.not_in_cpusets.as_ref()?))) {
        notes.push(format!("{name} has no cpusets: {why}."));
    }
    if !bench.senders.have_own_cores() {
        notes.push(
            "The sender shares the processes' cores: it takes time that is not in their use, and all latencies have its waits."
                .to_owned(),
        );
    }
    for at in uses {
        for figures in &at.modes {
            let name = format!("{} at {:.0} %", figures.mode, at.wanted * 100.0);
            if figures.piled_up {
                notes.push(format!(
                    "{name}: of {:.0} requests a second {:.0} were answered, and the rest piled up: the senders or others had the \
                     cores. Its latency says nothing.",
                    figures.rate_qps, figures.throughput_qps
                ));
            } else if (figures.used[0] - at.wanted).abs() > WITHIN {
                notes.push(format!(
                    "{name}: its use was {:.1} %, so its latency is not at equal use.",
                    figures.used[0] * 100.0
                ));
            }
            if figures.failed > 0 {
                notes.push(format!(
                    "{name}: {} requests had no answer.",
                    figures.failed
                ));
            }
            if figures.requests < FEW {
                notes.push(format!(
                    "{name}: a round has {} requests, so its p99 is one of the slowest few; give a longer --duration.",
                    figures.requests
                ));
            }
        }
    }
    if bench.stop.load(Ordering::Relaxed) {
        notes.push("Stopped early: the figures are of the rounds that were run before.".to_owned());
    }
    notes
}
