//! What is searched and how often, as it is written down: tables, and the traffic over them.
//!
//! A [`Recipe`] is a small TOML file, from which the tables of a [`Workload`] are drawn by a seed. `chiplet bench`
//! builds and asks them ([`Workload::draw`]), and the simulator models them.

mod asking;
mod draw;
mod error;
mod examples;
mod paper;
mod recipe;
mod terms;
mod topics;

use chiplet_index::{HnswConfig, Metric, RowFormat};
use chiplet_workload::traffic::{self, Change, Group, Traffic};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub use asking::class_name;
pub use asking::{Arrivals, Ask, Asking, Stall, Stalled, Tenant};
pub use draw::Drawn;
pub use error::RecipeError;
pub use recipe::Recipe;
pub use topics::Topics;

/// Tables and traffic. Made by a [`Recipe`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// How it is called in reports.
    pub name: String,
    /// The tables: first those that the common stream asks, the most popular one at the front, then those that are
    /// asked by clients of their own.
    pub tables: Vec<Table>,
    /// Zipf exponent over the tables.
    pub table_skew: f64,
    /// Zipf exponent over a table's queries.
    pub query_skew: f64,
    /// Different queries of each table.
    pub queries: usize,
    /// Which of them are near each other, if they are not drawn anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Topics>,
    /// The part of all queries that goes to the first table beside its share by the law.
    pub hot_share: f64,
    /// How often each table is there: processes that serve the same tables have a copy each. The first copies of all
    /// tables come first, and each copy gets an equal part of the queries.
    #[serde(skip_serializing_if = "is_one")]
    pub copies: usize,
    /// Who else asks, and on which terms.
    #[serde(skip_serializing_if = "Asking::is_plain")]
    pub asking: Asking,
}

/// One table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Table {
    /// A graph (HNSW).
    Graph {
        /// Rows.
        rows: u64,
        /// Components of a row.
        dim: u32,
        /// M: a node has twice as many links on the ground layer.
        m: u32,
        /// Neighbours asked for. The model has no use for it beside `ef`.
        #[serde(skip)]
        k: usize,
        /// Candidates of a search.
        ef: usize,
        /// How the rows are kept that walks read.
        #[serde(skip_serializing_if = "is_f32")]
        rows_as: RowFormat,
        /// The best candidates of each walk are compared once more.
        #[serde(skip_serializing_if = "Option::is_none")]
        rerank: Option<Rerank>,
        /// The best candidates of each walk are scored by a model.
        #[serde(skip_serializing_if = "Option::is_none")]
        scoring: Option<Scoring>,
    },
    /// Inverted lists of rows.
    Lists {
        /// Rows.
        rows: u64,
        /// Components of a row.
        dim: u32,
        /// Neighbours asked for. The model has no use for it.
        #[serde(skip)]
        k: usize,
        /// Lists.
        lists: usize,
        /// Lists that a query visits.
        probes: usize,
        /// How the lists keep rows.
        #[serde(skip_serializing_if = "is_f32")]
        rows_as: RowFormat,
    },
    /// Nothing that is read: each query computes for so long.
    Task {
        /// Microseconds on average.
        micros: f64,
        /// Exponential times, else all alike.
        random: bool,
    },
}

/// A second copy of a graph's rows, with which each search compares its best candidates once more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rerank {
    /// How that copy is kept.
    pub rows_as: RowFormat,
    /// How many candidates are compared.
    pub candidates: usize,
}

/// What a ranking model does after a search: it reads the features of the best candidates, and computes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scoring {
    /// How many candidates are scored.
    pub candidates: usize,
    /// Bytes of a candidate's features, which lie anywhere in the table's memory.
    pub feature_bytes: u32,
    /// Microseconds of computing for all of them.
    pub micros: f64,
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

fn is_f32(format: &RowFormat) -> bool {
    *format == RowFormat::F32
}

/// Bytes from one row of a graph to the next. Rows of `f32` count 4 bytes a component, without the few bytes that fill
/// up some of them.
pub fn stride(format: RowFormat, dim: u32) -> u32 {
    match format {
        RowFormat::F32 => 4 * dim,
        _ => format.stride(dim as usize) as u32,
    }
}

/// Bytes of the list of links of a node of the ground: 2 M of them.
pub fn list_bytes(rows: u64, m: u32) -> u32 {
    2 * m * HnswConfig::link_bytes(rows as usize) as u32
}

/// Bytes of the cache lines that a row of a graph lies in, on average. Rows of `f32` count what they are; of 16, 32,
/// 48, .. components they are whole lines.
pub fn touched(format: RowFormat, dim: u32) -> u32 {
    let bytes = stride(format, dim);
    match format {
        RowFormat::F32 => bytes,
        _ => in_lines(bytes),
    }
}

/// Bytes of the cache lines that one of many pieces of `bytes` lies in, on average: pieces that are no whole lines
/// begin anywhere in one.
pub fn in_lines(bytes: u32) -> u32 {
    const LINE: u32 = 64;
    // Beginnings are `step` apart, and a piece that begins in the last one reaches farthest into its last line.
    let step = 1 << bytes.trailing_zeros().min(LINE.trailing_zeros());
    bytes + LINE - step
}

/// Bytes of a row in a list.
pub fn listed(format: RowFormat, dim: u32) -> u64 {
    format.bytes(dim as usize) as u64
}

impl Table {
    /// Rows; 0 of tasks.
    pub fn rows(&self) -> u64 {
        match *self {
            Self::Graph { rows, .. } | Self::Lists { rows, .. } => rows,
            Self::Task { .. } => 0,
        }
    }

    /// How a graph like this is built, over vectors compared by L2; `None` unless it is a graph.
    pub fn graph_config(&self) -> Option<HnswConfig> {
        let Self::Graph { m, ef, rows_as, .. } = *self else {
            return None;
        };
        let config = HnswConfig::new(Metric::L2)
            .m(m as usize)
            .ef(ef)
            .rows(rows_as);
        Some(match self.rerank() {
            Some(rerank) => config.rerank(rerank.rows_as),
            None => config,
        })
    }

    /// Components of a row.
    pub fn dim(&self) -> u32 {
        match *self {
            Self::Graph { dim, .. } | Self::Lists { dim, .. } => dim,
            Self::Task { .. } => 1,
        }
    }

    /// How the rows are kept that most of a search reads.
    pub fn rows_as(&self) -> RowFormat {
        match *self {
            Self::Graph { rows_as, .. } | Self::Lists { rows_as, .. } => rows_as,
            Self::Task { .. } => RowFormat::F32,
        }
    }

    /// The second copy of the rows, if there is one.
    pub fn rerank(&self) -> Option<Rerank> {
        match *self {
            Self::Graph { rerank, .. } => rerank,
            Self::Lists { .. } | Self::Task { .. } => None,
        }
    }

    /// Bytes of all rows, their second copy, and links.
    pub fn bytes(&self) -> u64 {
        match *self {
            Self::Graph {
                rows,
                dim,
                m,
                rows_as,
                rerank,
                scoring,
                ..
            } => {
                let full = rerank.map_or(0, |rerank| stride(rerank.rows_as, dim));
                let features = scoring.map_or(0, |scoring| scoring.feature_bytes);
                rows * u64::from(stride(rows_as, dim) + full + features + list_bytes(rows, m))
            }
            Self::Lists {
                rows, dim, rows_as, ..
            } => rows * listed(rows_as, dim),
            Self::Task { .. } => 4,
        }
    }
}

/// When the hot set moves.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Flip {
    /// Seconds from the beginning of the run.
    pub at: f64,
}

/// A number that looks random, of a number (splitmix64, Steele and others, OOPSLA 2014).
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Workload {
    /// The same tables in so many processes, each with a copy of its own.
    ///
    /// # Panics
    /// If there are no copies, or tables have clients of their own.
    #[must_use]
    pub fn copied(mut self, copies: usize) -> Self {
        assert!(
            copies > 0 && self.asking.is_plain(),
            "copies of plain tables"
        );
        self.tables = self.tables.repeat(copies);
        self.copies *= copies;
        self
    }

    /// Tables that the common stream asks; they come first.
    pub fn shared_tables(&self) -> usize {
        let shared = self.asking.tenants.iter();
        let shared = shared.filter(|tenant| tenant.asks[0].arrivals == Arrivals::Shared);
        match self.asking.is_plain() {
            true => self.tables.len(),
            false => shared.map(|tenant| tenant.tables.len()).sum(),
        }
    }

    /// Whether clients of some tables' own ask, so that runs end by the clock and not by what was answered.
    pub fn is_timed(&self) -> bool {
        self.shared_tables() < self.tables.len()
    }

    /// The stream of queries that no table has for its own, if there is one.
    pub fn traffic(&self, rate: f64, seed: u64, flip: Option<Flip>) -> Option<Traffic> {
        let tables = 0..self.shared_tables();
        if tables.is_empty() {
            return None;
        }
        let mut traffic = Traffic::new(seed, traffic::Arrivals::Poisson { rate });
        let each = tables.len() / self.copies;
        for first in tables.step_by(each) {
            let copy = Group::new(first..first + each, self.queries)
                .share(1.0 / self.copies as f64)
                .table_skew(self.table_skew)
                .query_skew(self.query_skew);
            for group in copy.hot(self.hot_share) {
                traffic = traffic.group(group);
            }
        }
        Some(match flip {
            Some(flip) => traffic.flip(Duration::from_secs_f64(flip.at), Change::Shuffle),
            None => traffic,
        })
    }
}
