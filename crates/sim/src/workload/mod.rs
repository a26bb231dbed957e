//! What is searched and how often: tables, and the traffic over them.

mod paper;
mod prepare;
mod recipe;

use chiplet_workload::traffic::{Arrivals, Change, Group, Traffic};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(crate) use prepare::{Plan, drawn, tile};
pub use prepare::{Prepared, Sampling};
pub use recipe::{Recipe, RecipeError};

/// Tables and traffic. Made by a [`Recipe`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// How it is called in reports.
    pub name: String,
    /// The tables. The first is the most popular one.
    pub tables: Vec<Table>,
    /// Zipf exponent over the tables.
    pub table_skew: f64,
    /// Zipf exponent over a table's queries.
    pub query_skew: f64,
    /// Different queries of each table.
    pub queries: usize,
    /// The part of all queries that goes to the first table beside its share by the law.
    pub hot_share: f64,
}

/// One table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Table {
    /// A graph (HNSW).
    Graph {
        /// Rows.
        rows: u64,
        /// Components of a row, 4 bytes each.
        dim: u32,
        /// M: a node has twice as many links on the ground layer.
        m: u32,
        /// Candidates of a search.
        ef: usize,
    },
    /// Inverted lists of full rows.
    Lists {
        /// Rows.
        rows: u64,
        /// Components of a row, 4 bytes each.
        dim: u32,
        /// Lists.
        lists: usize,
        /// Lists that a query visits.
        probes: usize,
    },
}

impl Table {
    /// Components of a row.
    pub fn dim(&self) -> u32 {
        match *self {
            Self::Graph { dim, .. } | Self::Lists { dim, .. } => dim,
        }
    }

    /// Bytes of all rows and links.
    pub fn bytes(&self) -> u64 {
        match *self {
            Self::Graph { rows, dim, m, .. } => rows * (4 * u64::from(dim) + 8 * u64::from(m)),
            Self::Lists { rows, dim, .. } => rows * 4 * u64::from(dim),
        }
    }
}

/// When the hot set moves.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Flip {
    /// Seconds from the beginning of the run.
    pub at: f64,
}

impl Workload {
    /// The stream of queries.
    pub(crate) fn traffic(&self, rate: f64, seed: u64, flip: Option<Flip>) -> Traffic {
        let tables = 0..self.tables.len();
        let group = |tables| {
            Group::new(tables, self.queries)
                .table_skew(self.table_skew)
                .query_skew(self.query_skew)
        };
        let mut traffic = Traffic::new(seed, Arrivals::Poisson { rate });
        if self.hot_share > 0.0 {
            traffic = traffic.group(group(0..1).share(self.hot_share));
        }
        if self.hot_share < 1.0 {
            traffic = traffic.group(group(tables).share(1.0 - self.hot_share));
        }
        match flip {
            Some(flip) => traffic.flip(Duration::from_secs_f64(flip.at), Change::Shuffle),
            None => traffic,
        }
    }
}
