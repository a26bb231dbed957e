//! Named sets of rules, so that every claim is an A/B in one run: three baselines, chiplet's own, and chiplet's own
//! with one rule changed: without runs, with scan units that never leave their domain, and beside that with tables
//! placed by bytes.
//!
//! | name | routing | IVF splitting | stealing | tables placed by |
//! |---|---|---|---|---|
//! | `round-robin` | next worker in turn | never | never | - |
//! | `fork-join` | next worker in turn | every list over all cores, then a barrier | lists only | - |
//! | `global-steal` | next worker in turn | every list, for whoever is idle | anywhere | - |
//! | `ccd-aware` | the table's home domain | by load; of tables that no cache keeps over all domains | the priced steal order | time |
//! | `ccd-aware-fifo` | as `ccd-aware`, but queries start in the order in which they came | | | |
//! | `ccd-aware-local` | as `ccd-aware`, but a query is split within its domain alone | | | |
//! | `ccd-aware-bytes` | as `ccd-aware-local`, but tables are placed by the bytes that they pull | | | bytes |
//!
//! The first two are V0 of arXiv 2605.10090 (for HNSW and for IVF as Faiss does it with OpenMP), the
//! third is its V1 (bthread), `ccd-aware` its V2 with what chiplet adds. Its V2 balances the bytes a second that tables
//! pull, as `ccd-aware-bytes` does.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chiplet_policy::queue::Discipline;
use chiplet_policy::{PlaceBy, PlannerConfig, SplitConfig, StealConfig};
use thiserror::Error;

/// Which worker a new query goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Routing {
    /// The next worker in turn, each with a queue of its own, whatever the table.
    Rotate,
    /// The table's home domain, with one queue that its workers share.
    Home,
}

/// How a query that can be split is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Splitting {
    /// Not at all: one task.
    Never,
    /// Every list is a unit that any worker of the machine may take next, as OpenMP's dynamic schedule
    /// hands them out. Where queries are not stolen ([`Stealing::Never`]) the query's own worker takes
    /// no other query until all units are done: the barrier of a fork-join loop.
    AllCores,
    /// By cost and by load, for the workers of one domain; see [`chiplet_policy::next_unit`].
    Domain,
    /// As [`Splitting::Domain`], and units of tables that no cache keeps spill over to workers that other domains can
    /// spare; see [`SplitConfig::stream_caches`].
    Spill,
}

impl Splitting {
    /// Whether units are cut by cost and by load, and a worker that has taken one takes one after the other.
    pub fn is_by_load(self) -> bool {
        match self {
            Self::Domain | Self::Spill => true,
            Self::Never | Self::AllCores => false,
        }
    }
}

/// Who may take work that was given to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stealing {
    /// Nobody: a worker runs what was given to it.
    Never,
    /// Any worker from any domain that has a task waiting, at no price: topology-blind, as bthread.
    Anywhere,
    /// The priced steal order of `chiplet_policy`.
    StealOrder,
}

/// A named way to route, place, split and steal.
///
/// ```
/// use chiplet_baselines::Strategy;
///
/// let strategy: Strategy = "global-steal".parse()?;
/// assert_eq!(strategy, Strategy::GLOBAL_STEAL);
/// assert_eq!(Strategy::default().name, "ccd-aware");
/// # Ok::<(), chiplet_baselines::UnknownStrategy>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// The name that [`FromStr`] reads and [`Display`](fmt::Display) prints.
    pub name: &'static str,
    /// Which worker a query goes to.
    pub routing: Routing,
    /// How a query is split.
    pub splitting: Splitting,
    /// Who takes work from whom.
    pub stealing: Stealing,
    /// What is balanced when tables are placed; without meaning for [`Routing::Rotate`].
    pub placing: PlaceBy,
    /// Queued queries of one table that a core may run in a row although older ones of other tables wait; 1 is plain
    /// first-in-first-out, and 0 counts as 1.
    pub run_length: u32,
}

impl Strategy {
    /// `round-robin`: queries go to the workers in turn and stay there.
    pub const ROUND_ROBIN: Self = Self {
        name: "round-robin",
        routing: Routing::Rotate,
        splitting: Splitting::Never,
        stealing: Stealing::Never,
        placing: PlaceBy::Time,
        run_length: 1,
    };

    /// `fork-join`: as `round-robin`, but an IVF query's lists go over all cores with a barrier.
    pub const FORK_JOIN: Self = Self {
        name: "fork-join",
        splitting: Splitting::AllCores,
        ..Self::ROUND_ROBIN
    };

    /// `global-steal`: work stealing that does not know the machine.
    pub const GLOBAL_STEAL: Self = Self {
        name: "global-steal",
        splitting: Splitting::AllCores,
        stealing: Stealing::Anywhere,
        ..Self::ROUND_ROBIN
    };

    /// `ccd-aware`: queries stay where their table is in cache, and a core runs up to 16 of one table in a row. Scan
    /// units of tables that no cache keeps go to any domain with workers to spare.
    pub const CCD_AWARE: Self = Self {
        name: "ccd-aware",
        routing: Routing::Home,
        splitting: Splitting::Spill,
        stealing: Stealing::StealOrder,
        placing: PlaceBy::Time,
        run_length: Discipline::RUN_LENGTH,
    };

    /// `ccd-aware-fifo`: `ccd-aware` without runs.
    pub const CCD_AWARE_FIFO: Self = Self {
        name: "ccd-aware-fifo",
        run_length: 1,
        ..Self::CCD_AWARE
    };

    /// `ccd-aware-local`: `ccd-aware` whose scan units never leave their domain.
    pub const CCD_AWARE_LOCAL: Self = Self {
        name: "ccd-aware-local",
        splitting: Splitting::Domain,
        ..Self::CCD_AWARE
    };

    /// `ccd-aware-bytes`: `ccd-aware-local` with tables placed by the bytes a second that they pull.
    pub const CCD_AWARE_BYTES: Self = Self {
        name: "ccd-aware-bytes",
        placing: PlaceBy::Traffic,
        ..Self::CCD_AWARE_LOCAL
    };

    /// Those that the executor runs, with [`Strategy::planner`], [`Strategy::split`] and `run_length` as its settings.
    pub const CHIPLETS: [Self; 4] = [
        Self::CCD_AWARE_FIFO,
        Self::CCD_AWARE_BYTES,
        Self::CCD_AWARE_LOCAL,
        Self::CCD_AWARE,
    ];

    /// All strategies, baselines first.
    pub const ALL: [Self; 7] = [
        Self::ROUND_ROBIN,
        Self::FORK_JOIN,
        Self::GLOBAL_STEAL,
        Self::CCD_AWARE_FIFO,
        Self::CCD_AWARE_BYTES,
        Self::CCD_AWARE_LOCAL,
        Self::CCD_AWARE,
    ];

    /// Whether the executor runs it; the others are [`Pool`](crate::Pool)s.
    pub fn is_chiplets(&self) -> bool {
        self.routing == Routing::Home
    }

    /// The executor's settings of placement under this strategy.
    pub fn planner(&self, config: PlannerConfig) -> PlannerConfig {
        config.mapper(config.mapper.placing(self.placing))
    }

    /// The executor's settings of splitting under this strategy.
    pub fn split(&self, config: SplitConfig) -> SplitConfig {
        config.stream_caches(
            config
                .stream_caches
                .filter(|_| self.splitting == Splitting::Spill),
        )
    }

    /// The price of crossing under this strategy: none, or one that nothing is worth.
    pub fn steal(&self, config: StealConfig) -> StealConfig {
        match self.stealing {
            Stealing::Never => config.cold_factor(None),
            Stealing::Anywhere => config.cold_factor(Some(1.0)).cold_limit(Duration::ZERO),
            Stealing::StealOrder => config,
        }
    }
}

/// [`Strategy::CCD_AWARE`].
impl Default for Strategy {
    fn default() -> Self {
        Self::CCD_AWARE
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// A name that no strategy has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown strategy {name:?}: use one of {}",
    Strategy::ALL.map(|strategy| strategy.name).join(", ")
)]
pub struct UnknownStrategy {
    /// The name that was asked for.
    pub name: String,
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.name == name)
            .ok_or_else(|| UnknownStrategy {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_is_found_by_the_name_it_prints() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_exist() {
        let error = "ccd".parse::<Strategy>().unwrap_err().to_string();
        assert!(error.contains("\"ccd\""), "{error}");
        for strategy in Strategy::ALL {
            assert!(error.contains(strategy.name), "{error}");
        }
    }
}
