//! Tables that are asked by clients of their own, on terms of their own.

use std::ops::Range;

use chiplet_table::Class;
use serde::{Serialize, Serializer};

/// Who asks which tables, where that is not the workload's one stream of queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asking {
    /// All tables, in their order. Empty if every table is asked by the common stream on the terms that all tables have
    /// by default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<Tenant>,
    /// Virtual seconds before anything is counted.
    pub warm: f64,
    /// Virtual seconds that are counted.
    pub seconds: f64,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            tenants: Vec::new(),
            warm: 0.0,
            seconds: 10.0,
        }
    }
}

impl Asking {
    /// Whether it says nothing.
    pub fn is_plain(&self) -> bool {
        self.tenants.is_empty()
    }

    fn tenant(&self, table: usize) -> Option<&Tenant> {
        let mut tenants = self.tenants.iter();
        tenants.find(|tenant| tenant.tables.contains(&table))
    }

    /// The domain that a table stays in.
    pub fn home(&self, table: usize) -> Option<usize> {
        self.tenant(table)?.home
    }

    /// Queries a second that a table's own clients send, if each takes so many seconds. Those of a closed loop are
    /// taken to keep as many workers busy as they are, but no more than a domain has.
    pub fn rate(&self, table: usize, seconds: f64, domain: f64) -> f64 {
        let asks = self.tenant(table).map(|tenant| tenant.asks.iter());
        let rates = asks.into_iter().flatten().map(|ask| match ask.arrivals {
            Arrivals::Shared => 0.0,
            Arrivals::Rate(rate) => rate,
            Arrivals::Outstanding(queries) => f64::from(queries).min(domain) / seconds.max(1e-9),
            Arrivals::Burst { queries, every } => {
                every.map_or(0.0, |every| f64::from(queries) / every)
            }
        });
        rates.sum()
    }
}

/// Tables that are asked alike, on the same terms: one `[[tables]]` of a recipe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tenant {
    /// How it is called in reports.
    pub name: String,
    /// Which of the workload's tables.
    pub tables: Range<usize>,
    /// The weight of each.
    pub weight: f32,
    /// Tasks of each that a domain's queue may hold, if not as many as of any table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_limit: Option<usize>,
    /// The domain that all of them stay in, if it is not the planner that says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<usize>,
    /// When their tasks take longer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// Who asks. One entry for each kind of query.
    pub asks: Vec<Ask>,
}

/// Queries of one kind to each table of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ask {
    /// When they come.
    pub arrivals: Arrivals,
    /// How urgent they are.
    #[serde(serialize_with = "class")]
    pub class: Class,
    /// Milliseconds after which nobody waits for the answer any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<f64>,
    /// Seconds after which they begin to come.
    pub from: f64,
    /// Seconds after which no more come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
    /// How many times what tasks of their table take they take; of tables of tasks alone.
    pub work: f64,
}

/// When queries come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// With the workload's common stream.
    Shared,
    /// At random, so many a second on average for each table, whether there is room for them or not: an open loop.
    Rate(f64),
    /// So many clients for each table, each of which asks again when it has been told how its last query ended: a
    /// closed loop, and with many clients a flood.
    Outstanding(u32),
    /// So many at once, again each so many seconds if that is given.
    Burst {
        /// Queries.
        queries: u32,
        /// Seconds from one to the next.
        #[serde(skip_serializing_if = "Option::is_none")]
        every: Option<f64>,
    },
}

/// Tasks that take longer than their search: they stand for a read from disk, a page-fault storm, a cgroup's throttled
/// period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stall {
    /// Milliseconds longer.
    pub ms: f64,
    /// Which tasks.
    pub of: Stalled,
}

/// Which tasks of each table a stall meets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stalled {
    /// The next so many that begin so many seconds into the run.
    At {
        /// Seconds.
        seconds: f64,
        /// Tasks.
        tasks: u32,
    },
    /// Each with this probability.
    Chance(f64),
}

fn class<S: Serializer>(class: &Class, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class_name(*class))
}

/// As workload files and reports call it.
pub fn class_name(class: Class) -> &'static str {
    match class {
        Class::Interactive => "interactive",
        Class::Bulk => "bulk",
    }
}
