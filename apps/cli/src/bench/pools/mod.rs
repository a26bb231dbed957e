//! What is compared: chiplet's executor with the settings of its strategies, pools that know no domains, and those that
//! people use today.
//!
//! All are driven alike, with as many workers on the same cores (but for `rayon-all`, which is there to show what that
//! costs it). [`Pool::send`] hands over one query and returns;
//! the thread that has the answer calls [`Done::finish`], which notes the time.

mod baseline;
mod closures;
mod executor;
#[cfg(feature = "faiss")]
mod openmp;

use std::sync::Arc;
use std::time::Instant;

#[cfg(not(feature = "faiss"))]
use anyhow::bail;
use anyhow::ensure;
use chiplet_policy::queue::QUEUE_PER_WORKER;
use chiplet_table::{Neighbor, Query};
use chiplet_topology::{Topology, pin};

use super::arguments::{Arguments, Choice, PoolKind};
use super::recorder::Completion;
use super::report::Steals;
use super::tables::BuiltTable;
use closures::Closures;

/// The threads that every pool gets.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    pub(crate) count: usize,
    /// The cpus that they may use: neither the senders' nor those of domains that are left out. Pools that know no
    /// domains let the system place their threads among these.
    cpus: Option<Vec<u32>>,
    /// The machine without the senders' cores, whose cores are whole.
    physical: Topology,
}

impl Workers {
    /// As many as the executor would start on `machine`, of which the cores of `senders` have been taken, and the time
    /// of a CPU quota, too.
    pub(crate) fn of(
        arguments: &Arguments,
        whole: &Topology,
        (machine, physical): (&Topology, &Topology),
        senders: usize,
    ) -> anyhow::Result<Self> {
        let usable = machine.worker_limit().min(whole.worker_limit() - senders);
        let count = match arguments.workers {
            Some(asked) => {
                ensure!(
                    asked as usize <= usable,
                    "--workers {asked}: this process may use {usable}, the senders' cores not counted"
                );
                asked as usize
            }
            None => usable,
        };
        let cpus = machine.domains().iter().flat_map(|domain| domain.cpus());
        let cpus = machine.is_this_machine().then(|| cpus.collect());
        Ok(Self {
            count,
            cpus,
            physical: physical.clone(),
        })
    }

    /// As many as a pool that counts logical processors would start by itself, the senders' left out.
    fn on_all_cpus(&self) -> Self {
        let count = match &self.cpus {
            Some(cpus) => cpus.len(),
            None => std::thread::available_parallelism().map_or(self.count, usize::from),
        };
        Self {
            count,
            cpus: self.cpus.clone(),
            physical: self.physical.clone(),
        }
    }

    /// Keeps the calling thread off the senders' cores.
    fn confine(&self) {
        if let Some(cpus) = &self.cpus
            && let Err(error) = pin::pin_current_thread(cpus)
        {
            eprintln!("chiplet: a pool's thread may use the senders' cores: {error}");
        }
    }
}

/// Tasks that may wait for each worker of the pools that are bounded. With `--rate max` all outstanding queries may be
/// one domain's.
fn bound(arguments: &Arguments, workers: usize) -> usize {
    let limit = (arguments.outstanding as usize * workers).max(QUEUE_PER_WORKER * workers);
    limit.max(arguments.clients.unwrap_or(0) as usize)
}

/// One query on its way.
pub(crate) struct Job {
    pub(crate) table: usize,
    pub(crate) query: Query,
    pub(crate) done: Done,
}

/// Who is told how a query ended. Dropping it says that it failed.
pub(crate) enum Done {
    Noted(Completion),
    Told(Told),
}

impl Done {
    /// The answer is there, or there is none.
    pub(crate) fn finish(self, answer: Option<&[Neighbor]>) {
        match self {
            Self::Noted(completion) => completion.finish(answer),
            Self::Told(told) => told.finish(answer),
        }
    }
}

/// Whoever asked from outside of this process.
pub(crate) trait Caller: Send + Sync {
    /// Query `id` has this answer, or none.
    fn tell(&self, id: u64, answer: Option<&[Neighbor]>);
}

/// The duty to tell a caller how query `id` ended.
pub(crate) struct Told {
    caller: Option<Arc<dyn Caller>>,
    id: u64,
}

impl Told {
    pub(crate) fn new(caller: Arc<dyn Caller>, id: u64) -> Self {
        Self {
            caller: Some(caller),
            id,
        }
    }

    fn finish(mut self, answer: Option<&[Neighbor]>) {
        self.end(answer);
    }

    fn end(&mut self, answer: Option<&[Neighbor]>) {
        if let Some(caller) = self.caller.take() {
            caller.tell(self.id, answer);
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.end(None);
    }
}

/// Something that answers queries.
pub(crate) trait Pool: Send + Sync {
    /// Hands a query over without waiting for it.
    fn send(&self, job: Job);

    /// The pool is under load from now on, or idle because it is another's turn: idle time is not the traffic's.
    fn turn(&self, _begins: bool) {}

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

/// Starts the pool that `choice` names, with all tables.
pub(crate) fn start(
    choice: &Choice,
    arguments: &Arguments,
    topology: &Topology,
    workers: &Workers,
    tables: &'static [BuiltTable],
) -> anyhow::Result<Box<dyn Pool>> {
    Ok(match choice.pool {
        PoolKind::Chiplet(strategy) => Box::new(executor::Executed::start(
            strategy, choice, arguments, topology, workers, tables,
        )?),
        PoolKind::Placebo => Box::new(executor::Executed::placebo(
            choice, arguments, workers, tables,
        )?),
        PoolKind::Baseline(strategy) => Box::new(baseline::Baseline::start(
            strategy, choice, arguments, topology, workers, tables,
        )?),
        PoolKind::Rayon => Box::new(Closures {
            pool: closures::rayon(workers)?,
            tables,
            graph: choice.graph,
        }),
        PoolKind::RayonAll => Box::new(Closures {
            pool: closures::rayon(&workers.on_all_cpus())?,
            tables,
            graph: choice.graph,
        }),
        PoolKind::SpawnBlocking => Box::new(Closures {
            pool: closures::spawn_blocking(workers)?,
            tables,
            graph: choice.graph,
        }),
        #[cfg(feature = "faiss")]
        PoolKind::OpenMp => Box::new(openmp::OpenMp::start(workers, tables)?),
        #[cfg(not(feature = "faiss"))]
        PoolKind::OpenMp => {
            bail!("openmp: this chiplet was built without Faiss; build it with --features faiss")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_on_all_cpus_has_a_thread_for_each_that_the_senders_leave() {
        let workers = Workers {
            count: 2,
            cpus: Some(vec![0, 1, 4, 5]),
            physical: Topology::uniform(1, 2, 0),
        };
        assert_eq!(workers.on_all_cpus().count, 4);
        let shared = Workers {
            count: 1,
            cpus: None,
            physical: Topology::uniform(1, 1, 0),
        };
        let cpus = std::thread::available_parallelism().unwrap().get();
        assert_eq!(shared.on_all_cpus().count, cpus);
    }
}
