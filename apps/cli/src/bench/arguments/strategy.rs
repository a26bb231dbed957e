//! The strategies that `--strategy` names: which pool, on which graphs, with which traffic window.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{bail, ensure};
use chiplet_bench::baselines::{PLACEBO, Strategy};

use super::values::{self, Kind};

/// Which library searches the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Graph {
    Own,
    Usearch,
}

/// Who runs the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    /// The executor with a strategy's settings.
    Chiplet(Strategy),
    /// The executor with the settings of `ccd-aware-fifo`, over domains that share no cache.
    Placebo,
    /// A pool that knows no domains.
    Baseline(Strategy),
    Rayon,
    /// With as many threads as there are logical processors.
    RayonAll,
    SpawnBlocking,
    OpenMp,
}

/// A strategy as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) pool: PoolKind,
    pub(crate) graph: Graph,
    /// Length of the fast traffic window, where the strategy's name gives one.
    pub(crate) window: Option<Duration>,
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
  placebo         the same as ccd-aware-fifo, but the cores of a socket are dealt to its domains at random: whatever
                  ccd-aware-fifo gains over it is the caches' part. Domains of one core each are one domain together
Other pools, on the same tables and queries:
  global-steal    work stealing that does not know the machine, an IVF query's lists for whoever is idle
  round-robin     each worker in turn, nothing stolen
  fork-join       each worker in turn, an IVF query's lists over all cores, then a barrier
  rayon           a rayon pool, one spawn a query
  rayon-all       the same with rayon's own number of threads, one for each logical processor
  spawn-blocking  tokio's spawn_blocking
  openmp          Faiss's own OpenMP over the queries that wait for a table (needs --kind ivf)
Append +usearch to search usearch graphs instead of our own: ccd-aware+usearch.
Append @SECONDS to set the fast traffic window of one strategy: ccd-aware@1,ccd-aware@10.";

    /// Whether Faiss searches, which needs tables of its own.
    #[cfg(feature = "faiss")]
    pub(crate) fn is_openmp(&self) -> bool {
        self.pool == PoolKind::OpenMp
    }

    /// Whether this can run such tables, in this build.
    pub(crate) fn check(&self, kind: Kind) -> anyhow::Result<()> {
        ensure!(
            self.pool != PoolKind::OpenMp || kind == Kind::Ivf,
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
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.pool {
            PoolKind::Chiplet(strategy) | PoolKind::Baseline(strategy) => strategy.name,
            PoolKind::Placebo => PLACEBO,
            PoolKind::Rayon => "rayon",
            PoolKind::RayonAll => "rayon-all",
            PoolKind::SpawnBlocking => "spawn-blocking",
            PoolKind::OpenMp => "openmp",
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
            Some((text, seconds)) => (text, Some(values::window(seconds)?)),
        };
        let (name, graph) = match text.split_once('+') {
            None => (text, Graph::Own),
            Some((name, "usearch")) => (name, Graph::Usearch),
            Some((_, other)) => {
                bail!("unknown graph index {other:?}: only +usearch can be appended")
            }
        };
        let pool = match name {
            PLACEBO => PoolKind::Placebo,
            "rayon" => PoolKind::Rayon,
            "rayon-all" => PoolKind::RayonAll,
            "spawn-blocking" => PoolKind::SpawnBlocking,
            "openmp" => PoolKind::OpenMp,
            name => match name.parse() {
                Ok(strategy) => match Strategy::is_chiplets(&strategy) {
                    true => PoolKind::Chiplet(strategy),
                    false => PoolKind::Baseline(strategy),
                },
                Err(_) => bail!(
                    "unknown strategy {name:?}: use one of {}, {PLACEBO}, rayon, rayon-all, spawn-blocking, openmp",
                    Strategy::ALL.map(|strategy| strategy.name).join(", ")
                ),
            },
        };
        ensure!(
            window.is_none() || matches!(pool, PoolKind::Chiplet(_) | PoolKind::Placebo),
            "{name} has no traffic window: @SECONDS is for chiplet's own strategies"
        );
        Ok(Self {
            pool,
            graph,
            window,
        })
    }
}
