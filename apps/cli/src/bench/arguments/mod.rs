//! The command line of `chiplet bench`, parsed into values that cannot be nonsense. Everything else here is built on
//! it.

mod direct;
mod modes;
mod strategy;
mod values;

use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{bail, ensure};
use chiplet_bench::workload::truth::Metric;
use chiplet_topology::{DomainList, LevelChoice};

pub(crate) use direct::{Index, Options as DirectOptions};
pub(crate) use modes::{AutoNuma, Options as ModesOptions};
pub(crate) use strategy::{Choice, Graph, PoolKind};
pub(crate) use values::{Kind, Rate};
use values::{metric, milliseconds, seconds, window};

/// Compare ways to run vector searches on this machine, on the same queries, in one run.
///
/// Builds the tables once, then runs the strategies in turn, round after round, so that whatever else the
/// machine does falls on all of them. Prints medians and ratios to the first strategy, and what each part of chiplet
/// gives: its pool, placement beside a placebo, runs of one table. Without further options it takes about two minutes.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Strategies to compare, the first being the one that ratios are to
    #[arg(
        long = "strategy",
        value_name = "A,B,..",
        value_delimiter = ',',
        default_value = "rayon,global-steal,placebo,ccd-aware-fifo,ccd-aware",
        long_help = Choice::HELP
    )]
    pub(crate) strategies: Vec<Choice>,

    /// The cache that makes a domain: auto, l3, l2. Without it L3, or L2 on a machine with a single L3
    #[arg(long, value_parser = clap::builder::ValueParser::new(LevelChoice::from_str))]
    pub(crate) level: Option<LevelChoice>,

    /// The domains, where the system does not tell them: 0-7,8-15; chiplet topology --help has the form, and chiplet
    /// topology --probe finds them
    #[arg(long, value_name = "LIST", conflicts_with = "level", value_parser = clap::builder::ValueParser::new(DomainList::from_str))]
    pub(crate) domains: Option<DomainList>,

    /// Threads that send, each on a core of its own that no worker gets; 0: one that shares the workers' cores
    /// [default: one for 12 cores, so 0 on small machines]
    #[arg(long, conflicts_with = "clients")]
    pub(crate) senders: Option<u32>,

    /// Worker threads; all usable cores but the senders' without it
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) workers: Option<u32>,

    /// Number of tables [default: 4 for each domain, at least 8]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) tables: Option<u32>,

    /// Tables and traffic of a workload instead, as chiplet-simulate runs it: paper-hnsw, paper-ivf, or a TOML file
    /// (chiplet-simulate --help shows one). --tables is then the number of each kind, --queries the most of each table
    #[arg(
        long,
        value_name = "NAME or FILE.toml",
        conflicts_with_all = ["rows", "dims", "kind", "hnsw_share", "data", "metric", "k", "ef", "nprobe", "factory",
            "table_skew", "query_skew", "direct", "modes"]
    )]
    pub(crate) workload: Option<String>,

    /// All tables' rows times this; of several factors each is run: 0.1,0.3,1,3
    #[arg(long, value_name = "FACTOR,..", value_delimiter = ',', conflicts_with_all = ["direct", "modes"])]
    pub(crate) size: Vec<f64>,

    /// The machine's first domains alone; of several numbers each is run: 1,2,4,8,12
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["direct", "modes"])]
    pub(crate) ccds: Vec<u32>,

    /// Vectors in each table [default: so many that all tables fill three quarters of all domains' caches; from a file
    /// all that it has, shared out]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) rows: Option<u32>,

    /// Values in a synthetic vector; data from files has its own
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) dims: u32,

    /// hnsw: graphs; ivf: Faiss inverted lists; mixed: the first half of the tables are graphs
    #[arg(long, value_enum, default_value_t = Kind::Hnsw)]
    pub(crate) kind: Kind,

    /// Share of the queries that go to graphs, in percent, with --kind mixed
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) hnsw_share: u32,

    /// synthetic, glove (the sample in the repository, see --datasets), or a file: .fvecs, .bvecs, .fbin,
    /// .u8bin, .npy, .hdf5
    #[arg(long, default_value = "synthetic")]
    pub(crate) data: String,

    /// Folder that holds glove-50d
    #[arg(long, default_value = "datasets")]
    pub(crate) datasets: PathBuf,

    /// l2, cosine or ip; without it cosine for GloVe, the file's own for .hdf5, l2 for the rest
    #[arg(long, value_parser = metric)]
    pub(crate) metric: Option<Metric>,

    /// Different queries; held out from the data
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) queries: u32,

    /// Neighbours asked for
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) k: u32,

    /// Candidates of a graph search, at least --k [default: 32]. With --direct also a list
    #[arg(long, value_name = "EF,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    ef: Option<Vec<u32>>,

    /// Lists an IVF query visits [default: 16]. With --direct also a list
    #[arg(long, value_name = "NPROBE,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    nprobe: Option<Vec<u32>>,

    /// Faiss description of the IVF tables; without it IVF<4 sqrt(rows)>,Flat
    #[arg(long)]
    pub(crate) factory: Option<String>,

    /// Zipf exponent over tables: 0 asks all alike, 1 is a usual service
    #[arg(long, default_value_t = 0.5)]
    pub(crate) table_skew: f64,

    /// Zipf exponent over a table's queries
    #[arg(long, default_value_t = 0.0)]
    pub(crate) query_skew: f64,

    /// max: enough queries outstanding to keep every worker busy; 70%: of the first strategy's measured
    /// saturation, open loop; 20000: queries per second, open loop
    #[arg(long, default_value = "max")]
    pub(crate) rate: Rate,

    /// Closed loop instead: this many client threads, each with one query outstanding
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_024), conflicts_with_all = ["rate", "bursty", "flip"])]
    pub(crate) clients: Option<u32>,

    /// Open-loop arrivals come in bursts of three times the calm rate, a tenth of the time, instead of Poisson
    #[arg(long)]
    pub(crate) bursty: bool,

    /// Queries outstanding per worker with --rate max; 256 is what the executor's queues hold unless told otherwise
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) outstanding: u32,

    /// Use both threads of each core (SMT): a worker for each logical processor, in place of one for each core
    #[arg(long)]
    pub(crate) smt: bool,

    /// The hot set moves this many seconds into each round: tables trade their popularity at random
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) flip: Option<Duration>,

    /// Length of the fast traffic window in seconds (the slow one is six times that); 10 without it
    #[arg(long, value_name = "SECONDS", value_parser = window)]
    pub(crate) window: Option<Duration>,

    /// Answers later than this many milliseconds do not count as goodput
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "10")]
    pub(crate) deadline: Duration,

    /// Length of a round, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "2")]
    pub(crate) duration: Duration,

    /// Not measured at the start of each round, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.5")]
    pub(crate) warmup: Duration,

    /// Rounds of each strategy
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rounds: u32,

    /// Also measure latency at these loads, in percent of the first strategy's saturation; on with
    /// --report and --picture
    #[arg(long, value_name = "P,Q,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) sweep: Option<Vec<u32>>,

    /// No sweep, also with --report
    #[arg(long, conflicts_with = "sweep")]
    pub(crate) no_sweep: bool,

    /// Same seed, same vectors and queries
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Folder for exact neighbours found before; without it the user's cache folder
    #[arg(long, value_name = "DIR")]
    pub(crate) truth_cache: Option<PathBuf>,

    /// Write all figures as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write a page with charts
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,

    /// Write latency against load as a picture by itself; asks for a sweep, as --report does
    #[arg(long, value_name = "FILE.svg", conflicts_with = "no_sweep")]
    pub(crate) picture: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) direct: DirectOptions,

    #[command(flatten)]
    pub(crate) modes: ModesOptions,
}

/// Candidates of a graph search that is not told otherwise.
const EF: u32 = 32;
/// Lists of an IVF search that is not told otherwise.
const NPROBE: u32 = 16;

const EXAMPLES: &str = "\
Examples:
  chiplet bench                                             rayon, a blind pool, a placebo and chiplet, saturated: two minutes
  chiplet bench --tables 32 --rate 70% --report bench.html  open loop, with a page to look at
  chiplet bench --strategy rayon,ccd-aware --rate 20000     against a rayon pool, at 20,000 queries/s
  chiplet bench --kind ivf --clients 16 --strategy openmp,ccd-aware
  chiplet bench --data sift-128-euclidean.hdf5 --tables 16 --strategy global-steal+usearch,ccd-aware+usearch
  chiplet bench --table-skew 1 --flip 5 --duration 15 --warmup 5 --window 1 --rate 60%
  chiplet bench --size 0.1,0.3,1,3,10 --report size.html    where placement pays on this machine
  chiplet bench --ccds 1,2,4,8,12 --report scaling.html     how throughput grows with domains
  chiplet bench --workload paper-hnsw --size 0.01           the paper's tables, a hundredth of their rows
  chiplet bench --direct --data glove --metric l2 --ef 20,40,80 --threads 1,2 --json direct.json
  chiplet bench --direct --data glove --metric l2 --ef 40 --file glove.chiplet    built once, loaded from then on
  chiplet bench --modes                                     one process, one a node, or chiplet: at 60, 30 and 80 % use

Latency counts from the time at which a query should have been sent, except with --rate max and --clients, where
it counts from the sending. Ratios compare rounds of the same number, which see the same queries.
Exit status: 0; 2 for input that cannot be used; 1 if the run failed; 130 after a second Ctrl-C.";

impl Arguments {
    /// What clap cannot check: values against one another.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.duration >= Duration::from_millis(10),
            "rounds of {:?}: give --duration at least 0.01 seconds",
            self.duration
        );
        ensure!(
            self.size.len().max(self.ccds.len()) < 2
                || (self.rate == Rate::Max && self.clients.is_none()),
            "--size and --ccds with several values compare saturated throughput: leave out --rate and --clients"
        );
        for &size in &self.size {
            ensure!(
                size > 0.0 && size <= 1e6,
                "--size {size}: give a factor above 0"
            );
        }
        for (name, skew) in [("table", self.table_skew), ("query", self.query_skew)] {
            ensure!(
                skew.is_finite() && (0.0..=10.0).contains(&skew),
                "--{name}-skew {skew}: give a Zipf exponent from 0 to 10"
            );
        }
        if let Some(flip) = self.flip {
            ensure!(
                flip < self.duration,
                "--flip {} is not within a round of {} s",
                flip.as_secs_f64(),
                self.duration.as_secs_f64()
            );
            ensure!(
                self.tables != Some(1) && self.table_skew > 0.0,
                "--flip moves the hot set: it needs --tables above 1 and --table-skew above 0"
            );
            ensure!(
                self.rate != Rate::Max,
                "--flip moves the hot set at a time: queries need times too; give --rate 70%, or a number"
            );
        }
        ensure!(
            self.kind != Kind::Mixed || self.tables != Some(1),
            "--kind mixed needs --tables of at least 2"
        );
        ensure!(
            self.factory.is_none()
                || self.kind != Kind::Hnsw
                || (self.direct.direct && self.direct.index == Index::Ivf),
            "--factory describes IVF tables: it needs --kind ivf or --kind mixed, or --index ivf with --direct"
        );
        if let Some(name) = self.direct.stray() {
            bail!("{name} is for one table's own search: it needs --direct");
        }
        chiplet_bench::modes::check(&self.modes.modes, &self.modes.at.uses)?;
        ensure!(
            self.modes.autonuma.len() < 2 || self.modes.autonuma[0] != self.modes.autonuma[1],
            "--autonuma names a setting twice; name each once"
        );
        self.check_searches()?;
        for (index, choice) in self.strategies.iter().enumerate() {
            choice.check(self.kind)?;
            ensure!(
                !self.strategies[..index].contains(choice),
                "{choice} is named twice; name each strategy once, the spread over rounds shows the noise"
            );
        }
        Ok(())
    }

    /// Lists of `--ef` and `--nprobe`: where they make sense, and what in them does not.
    fn check_searches(&self) -> anyhow::Result<()> {
        let direct = self.direct.direct.then_some(self.direct.index);
        for (name, values, index) in [
            ("ef", &self.ef, Index::Hnsw),
            ("nprobe", &self.nprobe, Index::Ivf),
        ] {
            let Some(values) = values else { continue };
            let list = || {
                let texts: Vec<_> = values.iter().map(ToString::to_string).collect();
                texts.join(",")
            };
            ensure!(
                direct.is_some() || values.len() == 1,
                "--{name} {}: several values are searched one after the other with --direct only; give one",
                list()
            );
            ensure!(
                direct.is_none_or(|asked| asked == index),
                "--{name} {} is for --index {index}; give --index {index} or leave it out",
                list()
            );
            let distinct: HashSet<_> = values.iter().collect();
            ensure!(
                distinct.len() == values.len(),
                "--{name} {}: a value is named twice; name each once, --rounds repeats them",
                list()
            );
        }
        Ok(())
    }

    /// Whether the placebo is compared.
    pub(crate) fn has_placebo(&self) -> bool {
        let mut strategies = self.strategies.iter();
        strategies.any(|choice| choice.pool == PoolKind::Placebo)
    }

    /// What all tables' rows are multiplied by.
    pub(crate) fn size(&self) -> f64 {
        self.size.first().copied().unwrap_or(1.0)
    }

    /// The same at one size.
    pub(crate) fn at(&self, size: f64) -> Self {
        let rows = self.rows.filter(|_| !self.size.is_empty());
        let rows = rows.map(|rows| ((f64::from(rows) * size) as u32).max(2));
        Self {
            size: vec![size],
            rows: rows.or(self.rows),
            ..self.clone()
        }
    }

    /// Number of tables; once sizes were chosen, that one.
    pub(crate) fn tables(&self) -> u32 {
        self.tables.unwrap_or(1)
    }

    /// Candidates of a graph search; the first value of a list.
    pub(crate) fn ef(&self) -> u32 {
        self.efs()[0]
    }

    /// All values of `--ef`.
    pub(crate) fn efs(&self) -> &[u32] {
        self.ef.as_deref().unwrap_or(&[EF])
    }

    /// Lists that an IVF query visits; the first value of a list.
    pub(crate) fn nprobe(&self) -> u32 {
        self.nprobes()[0]
    }

    /// All values of `--nprobe`.
    pub(crate) fn nprobes(&self) -> &[u32] {
        self.nprobe.as_deref().unwrap_or(&[NPROBE])
    }

    /// The values of `--ef` or `--nprobe` that `--direct` measures, whichever its index has.
    pub(crate) fn direct_params(&self) -> &[u32] {
        match self.direct.index {
            Index::Hnsw => self.efs(),
            Index::Ivf => self.nprobes(),
        }
    }

    /// Loads of the sweep, as shares of saturation.
    pub(crate) fn sweep(&self) -> Vec<f64> {
        /// Where latency is flat, where it bends, and where it leaves.
        const DEFAULT: [u32; 6] = [10, 30, 50, 70, 80, 90];
        let drawn = self.report.is_some() || self.picture.is_some();
        let asked = match (&self.sweep, self.no_sweep) {
            (Some(loads), _) => loads.clone(),
            (None, false) if drawn => DEFAULT.to_vec(),
            _ => Vec::new(),
        };
        asked
            .into_iter()
            .map(|percent| f64::from(percent) / 100.0)
            .collect()
    }
}
