//! What all threads of one executor share: the queues, the tables, the counters, and what a task is to them.
//!
//! The engine knows tasks by one trait ([`task::Task`]), and no more of placement than the homes that tables have.
//! `jobs` has the tasks that there are, `placement` gives tables their homes, and `executor` puts all of it together.

mod admit;
pub(crate) mod completion;
pub(crate) mod current;
pub(crate) mod deadline;
pub(crate) mod live;
mod purge;
pub(crate) mod registry;
pub(crate) mod stats;
pub(crate) mod substitutes;
pub(crate) mod task;
mod threads;
pub(crate) mod worker;

use std::sync::Arc;

use chiplet_policy::SplitConfig;
use chiplet_table::Table;
use chiplet_topology::Topology;

use crate::placement::nodes::Nodes;
use crate::scheduler::Scheduler;
use crate::sync::atomic::AtomicBool;
use crate::sync::now;
use deadline::Timer;
use registry::{Common, Placed, Registry};
use stats::Stats;
use substitutes::Substitutes;
use task::{Invitation, Task};
use threads::Threads;

pub(crate) struct Engine {
    pub(crate) id: u64,
    pub(crate) topology: Arc<Topology>,
    pub(crate) nodes: Nodes,
    pub(crate) split: SplitConfig,
    pub(crate) scheduler: Scheduler<Arc<dyn Task>, Invitation>,
    pub(crate) registry: Registry,
    pub(crate) stats: Stats,
    pub(crate) threads: Arc<Threads>,
    pub(crate) substitutes: Substitutes,
    /// Group of each domain of the topology; `None` if it has no worker.
    pub(crate) group_of_domain: Vec<Option<usize>>,
    pub(crate) queue_limit: usize,
    pub(crate) table_limit: usize,
    /// A shutdown has ended what was queued: nothing that has not begun is begun any more.
    abandons: AtomicBool,
    /// One has waited for as long as it was to, and ended.
    pub(crate) was_shut_down: AtomicBool,
}

/// The fixed parts of [`Engine`].
pub(crate) struct EngineParts {
    /// What its threads' names begin with.
    pub(crate) name: String,
    /// Of each thread; `None` for the system's.
    pub(crate) stack_size: Option<usize>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) nodes: Nodes,
    pub(crate) split: SplitConfig,
    pub(crate) scheduler: Scheduler<Arc<dyn Task>, Invitation>,
    pub(crate) group_of_domain: Vec<Option<usize>>,
    pub(crate) queue_limit: usize,
    pub(crate) table_limit: usize,
}

impl Engine {
    pub(crate) fn new(parts: EngineParts) -> Self {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let timer = Arc::new(Timer::default());
        let stats = Stats::new(
            parts.scheduler.groups.count(),
            parts.scheduler.layout.threads(),
        );
        let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let common = Common {
            executor: id,
            timer: Arc::clone(&timer),
            cores: Arc::clone(&parts.scheduler.cores),
            began: now(),
            domains: parts.topology.domains().len(),
        };
        Self {
            id,
            split: parts.split,
            registry: Registry::new(common),
            scheduler: parts.scheduler,
            topology: parts.topology,
            nodes: parts.nodes,
            stats,
            threads: Arc::new(Threads::new(parts.name, parts.stack_size, timer)),
            substitutes: Substitutes::default(),
            group_of_domain: parts.group_of_domain,
            queue_limit: parts.queue_limit,
            table_limit: parts.table_limit,
            abandons: AtomicBool::new(false),
            was_shut_down: AtomicBool::new(false),
        }
    }

    /// An index, with what is known of its memory where that matters.
    pub(crate) fn placed(&self, table: Arc<dyn Table>) -> Placed {
        let residence = match self.nodes.matter() {
            true => table.residence(),
            false => Vec::new(),
        };
        Placed {
            package: self.nodes.package_of(&residence),
            bytes: table.size_bytes(),
            residence,
            table,
        }
    }
}
