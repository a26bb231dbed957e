//! What is compared: chiplet's executor under each of its strategies, and the pools people use today.
//!
//! All are driven alike. [`Contender::send`] hands over one query and returns; whoever has the answer, on whatever
//! thread, calls [`Completion::finish`], which notes the time. Nobody waits on anybody's behalf.

mod chiplet;
#[cfg(feature = "faiss")]
mod openmp;
mod pools;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use chiplet_executor::{Query, Strategy};

use super::arguments::{self, Arguments, Kind};
use super::record::Completion;
use super::report::Steals;
use super::shelf::{Graph, Shelf};
use chiplet_topology::Topology;

/// Workers that every contender gets: what the executor would start.
pub(crate) fn workers(arguments: &Arguments, topology: &Topology) -> anyhow::Result<usize> {
    let usable = topology.worker_limit();
    match arguments.workers {
        Some(asked) => {
            ensure!(
                asked as usize <= usable,
                "--workers {asked}: this process may use {usable}"
            );
            Ok(asked as usize)
        }
        None => Ok(usable),
    }
}

/// One query on its way.
pub(crate) struct Job {
    pub(crate) table: usize,
    pub(crate) query: Query,
    pub(crate) done: Completion,
}

/// Something that answers queries.
pub(crate) trait Contender: Send + Sync {
    /// Hands a query over without waiting for it.
    fn send(&self, job: Job);

    /// Steals and remaps since the start, if it counts them.
    fn counts(&self) -> Option<(Steals, u64)> {
        None
    }

    /// The main home of each table now, if it places them.
    fn homes(&self) -> Option<Vec<u32>> {
        None
    }

    /// Tables that moved since the last call: which, when, where to.
    fn moves(&self) -> Vec<(usize, Instant, u32)> {
        Vec::new()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    Chiplet(Strategy),
    Rayon,
    SpawnBlocking,
    OpenMp,
}

/// A strategy as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pool: Pool,
    pub(crate) graph: Graph,
    /// Length of the fast traffic window, where the strategy's name gives one.
    window: Option<Duration>,
}

impl Choice {
    pub(crate) const HELP: &'static str = "\
Strategies to compare; ratios are to the first.

Of chiplet's executor:
  ccd-aware       tables at home on a domain, scans split within it, stealing priced;
                  scans of tables that no cache keeps go to other domains, too
  ccd-aware-fifo  the same, but queries start in the order in which they came
  ccd-aware-local the same as ccd-aware, but all scans stay in their domain
  ccd-aware-bytes the same as ccd-aware-local, but tables are placed by bytes read instead of time
  global-steal    work stealing that does not know the machine
  round-robin     each worker in turn, nothing stolen
  fork-join       each worker in turn, an IVF query's lists over all cores, then a barrier
Other pools, on the same tables and queries:
  rayon           a rayon pool, one spawn a query
  spawn-blocking  tokio's spawn_blocking
  openmp          Faiss's own OpenMP over the queries that wait for a table (needs --kind ivf)
Append +usearch to search usearch graphs instead of our own: ccd-aware+usearch.
Append @SECONDS to set the fast traffic window of one strategy: ccd-aware@1,ccd-aware@10.";

    /// Whether Faiss searches, which needs tables of its own.
    #[cfg(feature = "faiss")]
    pub(crate) fn is_openmp(&self) -> bool {
        self.pool == Pool::OpenMp
    }

    /// Whether this can run such tables, in this build.
    pub(crate) fn check(&self, kind: Kind) -> anyhow::Result<()> {
        ensure!(
            self.pool != Pool::OpenMp || kind == Kind::Ivf,
            "openmp is Faiss's own batch search: it needs --kind ivf"
        );
        ensure!(
            self.graph == Graph::Own || kind != Kind::Ivf,
            "{self}: there are no graphs with --kind ivf"
        );
        ensure!(
            self.graph == Graph::Own || cfg!(feature = "usearch"),
            "{self}: this chiplet was built without usearch; build it with --features usearch"
        );
        Ok(())
    }

    /// Starts it, with all tables.
    pub(crate) fn start(
        &self,
        arguments: &Arguments,
        topology: &Topology,
        shelf: &Arc<Shelf>,
    ) -> anyhow::Result<Box<dyn Contender>> {
        let workers = workers(arguments, topology)?;
        Ok(match self.pool {
            Pool::Chiplet(strategy) => Box::new(chiplet::Executed::start(
                strategy,
                chiplet::Settings {
                    graph: self.graph,
                    window: self.window.or(arguments.window),
                },
                arguments,
                topology,
                shelf,
            )?),
            Pool::Rayon => Box::new(pools::Rayon::start(workers, shelf, self.graph)?),
            Pool::SpawnBlocking => {
                Box::new(pools::SpawnBlocking::start(workers, shelf, self.graph)?)
            }
            #[cfg(feature = "faiss")]
            Pool::OpenMp => Box::new(openmp::OpenMp::start(shelf)?),
            #[cfg(not(feature = "faiss"))]
            Pool::OpenMp => bail!("openmp: this chiplet was built without Faiss"),
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.pool {
            Pool::Chiplet(strategy) => strategy.name,
            Pool::Rayon => "rayon",
            Pool::SpawnBlocking => "spawn-blocking",
            Pool::OpenMp => "openmp",
        })?;
        if self.graph == Graph::Usearch {
            f.write_str("+usearch")?;
        }
        match self.window {
            Some(window) => write!(f, "@{}", window.as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl FromStr for Choice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (text, window) = match text.split_once('@') {
            None => (text, None),
            Some((text, seconds)) => (text, Some(arguments::window(seconds)?)),
        };
        let (name, graph) = match text.split_once('+') {
            None => (text, Graph::Own),
            Some((name, "usearch")) => (name, Graph::Usearch),
            Some((_, other)) => {
                bail!("unknown graph index {other:?}: only +usearch can be appended")
            }
        };
        let pool = match name {
            "rayon" => Pool::Rayon,
            "spawn-blocking" => Pool::SpawnBlocking,
            "openmp" => Pool::OpenMp,
            name => match name.parse() {
                Ok(strategy) => Pool::Chiplet(strategy),
                Err(_) => bail!(
                    "unknown strategy {name:?}: use one of {}, rayon, spawn-blocking, openmp",
                    Strategy::ALL.map(|strategy| strategy.name).join(", ")
                ),
            },
        };
        ensure!(
            window.is_none() || matches!(pool, Pool::Chiplet(_)),
            "{name} has no traffic window: @SECONDS is for chiplet's own strategies"
        );
        Ok(Self {
            pool,
            graph,
            window,
        })
    }
}
