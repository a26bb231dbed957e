//! The command line of `chiplet-simulate`.

use std::path::PathBuf;

use anyhow::ensure;
use chiplet_baselines::Strategy;
use chiplet_bench::modes::{self, DEFAULT, Mode};
use chiplet_index::RowFormat;
use chiplet_sim::Topics;

/// Model a machine: what the strategies would give there, in virtual time.
///
/// Runs chiplet's own decisions (placement, order of service, splitting, stealing) on a model of caches, links and
/// memory, with what real searches read. Nothing is measured on this machine: all figures are modelled.
/// results/lab/2026-11/simulation.md says what the model has and what it leaves out.
#[derive(clap::Parser, Clone, Debug)]
#[command(name = "chiplet-simulate", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// genoa-9654, rome-7k62, milan-7763, bergamo-9754, turin-9575f, xeon-e5-2680v4 or xeon-6248r, with x2 for two
    /// sockets; or an hwloc XML file, whose caches and domains are taken and whose costs are Genoa's; or measured: that
    /// of --mine, likewise
    #[arg(long, default_value = "genoa-9654")]
    pub(crate) machine: String,

    /// Use the machine's first domains alone; of several numbers each is run: 1,2,4,8,12
    #[arg(
        long = "ccds",
        visible_alias = "domains",
        value_name = "N,..",
        value_delimiter = ','
    )]
    pub(crate) domains: Vec<usize>,

    /// paper-hnsw, paper-ivf, flood, bulk, stall, or a TOML file (see below)
    #[arg(long, default_value = "paper-hnsw")]
    pub(crate) workload: String,

    /// Your tables and your traffic instead: the file that chiplet bench --json has written. What was measured stands
    /// beside what is modelled
    #[arg(long, value_name = "BENCH.JSON", conflicts_with_all = ["workload", "flip"])]
    pub(crate) mine: Option<PathBuf>,

    /// Take both skews from a log of your queries: a line table,query each, the query being anything that is the same
    /// for the same one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["table_skew", "query_skew", "modes"])]
    pub(crate) log: Option<PathBuf>,

    /// Strategies; ratios are to the first [default: round-robin (fork-join for paper-ivf), global-steal,
    /// ccd-aware-bytes, ccd-aware; with --mine those of the run]
    #[arg(long = "strategy", value_name = "A,B,..", value_delimiter = ',', value_parser = strategy)]
    pub(crate) strategies: Vec<Strategy>,

    /// Latency at these loads too, in percent of the first strategy's saturation
    #[arg(long, value_name = "P,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) loads: Vec<u32>,

    /// Zipf exponent over tables, instead of the workload's
    #[arg(long)]
    pub(crate) table_skew: Option<f64>,

    /// Zipf exponent over a table's queries, instead of the workload's
    #[arg(long)]
    pub(crate) query_skew: Option<f64>,

    /// Different queries about the same: this part of a table's queries (0 to 1) is near one of so many centres, and
    /// two of a centre are so far from each other, as a part of the distance of any two: 0.8,16,0.3
    #[arg(long, value_name = "SHARE,COUNT,SPREAD")]
    pub(crate) topics: Option<Topics>,

    /// This part of all queries goes to one table, in percent
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) hot: Option<u32>,

    /// Tables of each kind, instead of the workload's
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) tables: Option<u32>,

    /// All tables' rows times this
    #[arg(long, value_name = "FACTOR")]
    pub(crate) size: Option<f64>,

    /// How tables keep their rows, instead of the workload's: f32, f16, bf16, sq8 (one byte a component), sq4, sq2 or
    /// sq1 (4, 2 bits, 1 bit; graphs only, with --rerank)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) rows_as: Option<RowFormat>,

    /// Graphs keep their rows a second time, as f32, f16, bf16 or sq8, and compare the best candidates once more with
    /// them
    #[arg(long, value_name = "FORMAT")]
    pub(crate) rerank: Option<RowFormat>,

    /// GB/s of each link, instead of the machine's
    #[arg(long, value_name = "GB/S")]
    pub(crate) link: Option<f64>,

    /// MiB of each domain's L3, instead of the machine's (presets only)
    #[arg(long, value_name = "MIB")]
    pub(crate) l3: Option<u64>,

    /// Bytes that copies of tables may take beyond one of each, as Builder::memory_budget: a table that asks for much
    /// of a socket's time gets its memory on both
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) memory_budget: u64,

    /// Queries that are counted in each run, after a third as many to warm up; where tables have clients of their own
    /// the workload says for how long a run goes on
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub(crate) queries: u64,

    /// Queries outstanding for each worker in saturated runs [default: 4; with --mine as many as there]. With many, a
    /// short run counts more short queries than come: long ones are still waiting when it ends
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) outstanding: Option<u32>,

    /// The hot set moves after so many virtual seconds: shows throughput before and after, at --loads (default 70)
    #[arg(long, value_name = "SECONDS", conflicts_with = "domains")]
    pub(crate) flip: Option<f64>,

    /// Model ways to deploy a service on two sockets instead of strategies, as chiplet bench --modes measures them.
    /// Without a list: one,per-node,pinned,chiplet
    #[arg(
        long,
        value_enum,
        value_name = "MODE,..",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = DEFAULT,
        conflicts_with_all = ["domains", "mine", "loads", "outstanding", "flip", "report"]
    )]
    pub(crate) modes: Vec<Mode>,

    #[command(flatten)]
    pub(crate) at: modes::Options,

    /// Do not let the placement settle before the run
    #[arg(long)]
    pub(crate) unsettled: bool,

    /// The part of a graph's nodes that is modelled, one of so many
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) sample: u32,

    /// Same seed, same bytes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Measure what computing takes on this machine, instead of the stored figures; then runs differ a little
    #[arg(long)]
    pub(crate) calibrate: bool,

    /// Write all figures as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write a page with charts
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  chiplet-simulate                                          the paper's HNSW tables on one Genoa, 1 minute
  chiplet-simulate --workload paper-ivf --domains 2,4,8,12  how throughput grows with CCDs
  chiplet-simulate --loads 50,80 --json sim.json            latency at half and most of saturation
  chiplet-simulate --hot 80 --strategy global-steal,ccd-aware
  chiplet-simulate --rows-as sq4 --rerank f16               the same tables with rows of half a byte a component
  chiplet-simulate --machine turin-9575fx2 --workload mine.toml
  chiplet-simulate --workload flood --domains 1 --strategy ccd-aware
                                                            one table floods beside quiet ones: who waits?
  chiplet-simulate --workload bulk --domains 1,2            bulk work beside interactive queries
  chiplet-simulate --workload stall --domains 1             slow tasks of a table whose queries have deadlines
  chiplet-simulate --machine xeon-6248rx2 --modes           one process, one a socket, or chiplet, at equal processor use
  chiplet-simulate --log queries.csv                        with the locality of your own queries
  chiplet-simulate --machine genoa-9654 --mine bench.json   what chiplet bench --json bench.json ran here, there

A workload file:
  name = \"mine\"
  table_skew = 1.0               # Zipf exponent over tables; 0 asks all alike
  query_skew = 0.5               # Zipf exponent over a table's queries
  topics = { share = 0.8, count = 16, spread = 0.3 }   # different queries, most of them near 16 centres of each table
  [[tables]]                     # as often as there are kinds of tables
  kind = \"hnsw\"                  # or \"ivf\"
  count = 16
  rows = [100_000, 1_000_000]    # least and most
  dims = [64, 128]               # one of these each
  k = [10]                       # ef = 50, m = 16; for ivf: lists = 1024, probes = 16
  rows_as = \"sq8\"                # or \"sq4\", \"sq2\", \"sq1\", \"f16\", \"bf16\", \"f32\" (the default)
  rerank = \"f32\"                 # or \"f16\", \"bf16\", \"sq8\"; without it no second copy. For hnsw alone
  scoring = { candidates = 500, feature_bytes = 128, micros = 500 }   # a ranking model after each search. For hnsw alone

Tables with clients of their own, and on terms of their own (all of it may be left out):
  warm = 2                       # virtual seconds before anything is counted
  seconds = 8                    # virtual seconds that are counted
  [[tables]]
  name = \"backfill\"              # in reports
  kind = \"task\"                  # reads nothing: each query takes so many microseconds of a core; no rows, dims, k
  micros = 2000
  times = \"exponential\"          # or \"equal\" (the default)
  count = 1
  weight = 2.0                   # 0.01 to 100; of tables that ask for too much
  class = \"bulk\"                 # or \"interactive\" (the default)
  deadline_ms = 50               # after the query came; without it queries wait as long as it takes
  queue_limit = 100              # tasks of each table that a queue may hold
  home = 0                       # stays in the machine's first domain; without it the planner places
  [[tables.stalls]]              # tasks that take longer: a disk read, a throttled cgroup
  ms = 100
  at = 1.0                       # those that begin so many seconds into the run, or after; or
  tasks = 2                      # chance = 0.001: each with this probability
  [[tables.asks]]                # one for each kind of query; without any the common stream asks these tables
  rate = 80                      # queries a second for each table, at random; or
                                 # outstanding = 600: so many clients, each asks again when it is told; or
                                 # burst = 600: so many at once, again each `every` seconds
  from = 1.0                     # seconds into the run
  until = 5.0
  class = \"interactive\"          # instead of the table's; so may be deadline_ms
  work = 4.0                     # these take so many times micros; tables of tasks alone
The reports then tell for each [[tables]], and each kind of query, how many were answered, expired (in the queue,
passed over by a worker as too little time was left, or while they ran) and refused, how many began at home and away,
how long they waited from arrival to start, and their part of all workers' time. --json has each table alone, too.

Exit status: 0; 2 for input that cannot be used; 130 after Ctrl-C.";

fn strategy(name: &str) -> Result<Strategy, chiplet_baselines::UnknownStrategy> {
    name.parse()
}

impl Arguments {
    /// What clap cannot check.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        modes::check(&self.modes, &self.at.uses)?;
        for (name, skew) in [("table", self.table_skew), ("query", self.query_skew)] {
            ensure!(
                skew.is_none_or(|skew| (0.0..=10.0).contains(&skew)),
                "--{name}-skew: give a Zipf exponent from 0 to 10"
            );
        }
        for (name, value) in [
            ("size", self.size),
            ("link", self.link),
            ("flip", self.flip),
        ] {
            ensure!(
                value.is_none_or(|value| value > 0.0 && value <= 1e6),
                "--{name}: give a number above 0"
            );
        }
        for (index, strategy) in self.strategies.iter().enumerate() {
            ensure!(
                !self.strategies[..index].contains(strategy),
                "{strategy} is named twice; runs are deterministic, so once is enough"
            );
        }
        Ok(())
    }

    /// The strategies that were asked for, or V0, V1, V2 of arXiv 2605.10090 and chiplet's own.
    pub(crate) fn strategies(&self) -> Vec<Strategy> {
        if !self.strategies.is_empty() {
            return self.strategies.clone();
        }
        let first = match self.workload.as_str() {
            "paper-ivf" => Strategy::FORK_JOIN,
            _ => Strategy::ROUND_ROBIN,
        };
        vec![
            first,
            Strategy::GLOBAL_STEAL,
            Strategy::CCD_AWARE_BYTES,
            Strategy::CCD_AWARE,
        ]
    }
}
