//! What only `--direct` knows, of the command line.

use std::fmt;
use std::path::PathBuf;

use chiplet_index::{Pages, RowFormat};
use chiplet_table::Query;

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "One table's own search")]
pub(crate) struct Options {
    /// Measure the search of one table by itself, without an executor: recall and queries/s at each --ef or --nprobe
    #[arg(long, conflicts_with_all = [
        "strategies", "level", "workers", "tables", "kind", "hnsw_share", "senders", "table_skew", "query_skew", "rate",
        "clients", "bursty", "outstanding", "flip", "window", "deadline", "warmup", "sweep", "no_sweep", "report", "picture",
    ])]
    pub(crate) direct: bool,

    /// hnsw: a graph; ivf: Faiss inverted lists (--factory says which)
    #[arg(long, value_enum, default_value_t = Index::Hnsw)]
    pub(crate) index: Index,

    /// How the graph keeps its rows: f32, f16, bf16, sq8 (one byte a component), sq4 (half a byte), sq2 or sq1 (2 bits,
    /// 1 bit; for 128 and 384 components and more). The last three need --rerank
    #[arg(long, value_name = "FORMAT", default_value_t = RowFormat::F32)]
    pub(crate) rows_as: RowFormat,

    /// Let the build choose --rows-as and --rerank: the fewest bytes a query that leave this share of the nearest to be
    /// found, such as 0.95. The build ends, with what each format would find, if none does
    #[arg(long, value_name = "RECALL", conflicts_with = "rows_as")]
    pub(crate) fit: Option<f64>,

    /// Keep the graph's rows a second time, as f32, f16, bf16 or sq8, and compare the best candidates once more with
    /// them
    #[arg(long, value_name = "FORMAT")]
    pub(crate) rerank: Option<RowFormat>,

    /// Leave the graph's nodes in the order of their rows instead of laying linked ones side by side
    #[arg(long)]
    pub(crate) no_reorder: bool,

    /// Pages of the graph's memory
    #[arg(long, value_enum, default_value_t = PagesAs::Transparent)]
    pub(crate) pages: PagesAs,

    /// Links of a row on each upper layer of the graph, 2 to 255; twice as many on the ground layer
    #[arg(long, default_value_t = M)]
    pub(crate) m: u32,

    /// Candidates kept while a row is inserted into the graph
    #[arg(long, default_value_t = EF_CONSTRUCTION, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ef_construction: u32,

    /// Threads that build the graph; 1 without it. Faiss takes its number from OMP_NUM_THREADS
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) build_threads: Option<u32>,

    /// Keep the table in this file: it is loaded if the file is there, else built and saved
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Map the file of --file instead of loading it: searches begin at once, and the system reads what they touch.
    /// Nobody may write to the file meanwhile
    #[arg(long, requires = "file")]
    pub(crate) map: bool,

    /// Searchers that share the table, each on a thread of its own with its share of the queries; also a list
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_values_t = [THREADS],
        value_parser = clap::value_parser!(u32).range(1..=4_096)
    )]
    pub(crate) threads: Vec<u32>,

    /// Queries that a searcher gives to the table in one call (search_many)
    #[arg(long, value_name = "N", default_value_t = TOGETHER, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) together: u32,

    /// Ask for rows of a filter (a bitmap) that allows this share of them, in percent; recall is among those
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) filter: Option<f64>,

    /// Run a round for each line of standard input, of the parameters it names (20,40) or of all, and answer it by
    /// one line of JSON; for measuring other programs in between. Ends with its input
    #[arg(long, conflicts_with_all = ["json", "rounds"])]
    pub(crate) cue: bool,
}

/// Defaults of `--m`, `--ef-construction`, `--threads` and `--together`.
const M: u32 = 16;
const EF_CONSTRUCTION: u32 = 200;
const THREADS: u32 = 1;
const TOGETHER: u32 = 1;

impl Options {
    /// An option that asks for something only `--direct` can do, where that is not given. (clap would not tell beside
    /// an option that `--direct` conflicts with.)
    pub(crate) fn stray(&self) -> Option<&'static str> {
        let asked = [
            ("--index", self.index != Index::Hnsw),
            ("--rows-as", self.rows_as != RowFormat::F32),
            ("--fit", self.fit.is_some()),
            ("--rerank", self.rerank.is_some()),
            ("--no-reorder", self.no_reorder),
            ("--pages", self.pages != PagesAs::Transparent),
            ("--m", self.m != M),
            ("--ef-construction", self.ef_construction != EF_CONSTRUCTION),
            ("--build-threads", self.build_threads.is_some()),
            ("--file", self.file.is_some()),
            ("--threads", self.threads != [THREADS]),
            ("--together", self.together != TOGETHER),
            ("--filter", self.filter.is_some()),
            ("--cue", self.cue),
        ];
        let stray = asked.into_iter().find(|(_, asked)| *asked && !self.direct);
        stray.map(|(name, _)| name)
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse().ok();
    number
        .filter(|&percent: &f64| percent > 0.0 && percent <= 100.0)
        .ok_or_else(|| "give a number above 0, up to 100".to_owned())
}

/// Which table is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Index {
    Hnsw,
    Ivf,
}

impl Index {
    /// A parameter with its name.
    pub(crate) fn param(self, value: u32) -> String {
        match self {
            Self::Hnsw => format!("ef={value}"),
            Self::Ivf => format!("nprobe={value}"),
        }
    }

    /// `query` with the parameter.
    pub(crate) fn ask(self, query: Query, value: u32) -> Query {
        match self {
            Self::Hnsw => query.ef(value as usize),
            Self::Ivf => query.nprobe(value as usize),
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hnsw => "hnsw",
            Self::Ivf => "ivf",
        })
    }
}

/// The pages of a table's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PagesAs {
    /// 4 KiB.
    Small,
    /// Huge pages where the system has some (MADV_HUGEPAGE).
    Transparent,
    /// Reserved huge pages (vm.nr_hugepages).
    Hugetlb,
}

impl From<PagesAs> for Pages {
    fn from(pages: PagesAs) -> Self {
        match pages {
            PagesAs::Small => Self::Small,
            PagesAs::Transparent => Self::Transparent,
            PagesAs::Hugetlb => Self::HugeTlb,
        }
    }
}
