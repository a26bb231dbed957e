//! Building an executor: which cores, which bounds; then starting and pinning its workers.

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::queue::QUEUE_PER_WORKER;
use chiplet_policy::{Planner, PlannerConfig, SplitConfig, StealConfig};
use chiplet_topology::pin::Pin;
use chiplet_topology::{LevelChoice, Topology, numa_balancing};

use crate::engine::timer;
use crate::engine::worker::Worker;
use crate::engine::{Engine, EngineParts};
use crate::error::BuildError;
use crate::executor::Executor;
use crate::limits::QueryLimits;
use crate::placement::balancer::{Balancer, OnRemap};
use crate::placement::copier::{Copier, CopyLimits};
use crate::placement::cores;
use crate::placement::event::RemapEvent;
use crate::placement::nodes::Nodes;
use crate::placement::workers::{self, PinnedWorker, Place, WorkerOptions, Workers};
use crate::scheduler::{Crossing, Discipline, GroupSpec, Hub, Rules};
use crate::sync::{mpsc, now};

/// Stands for "as long as it takes".
const A_YEAR: Duration = Duration::from_secs(31_536_000);

/// Room for a task that does little, without optimization too.
const SMALLEST_STACK: usize = 128 << 10;

/// What a thread runs.
type Body = Box<dyn FnOnce() + Send>;

/// Settings of an executor; see [`Executor::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    topology: Option<Topology>,
    level: LevelChoice,
    pin: Option<Pin>,
    reserve: usize,
    max_workers: Option<usize>,
    substitutes: usize,
    stack_size: Option<usize>,
    queue_limit: Option<usize>,
    queue_per_worker: usize,
    table_limit: Option<usize>,
    limits: QueryLimits,
    run_length: u32,
    reorder: f64,
    bulk_wait: Option<Duration>,
    planner: PlannerConfig,
    steal: StealConfig,
    split: SplitConfig,
    copies: Option<CopyLimits>,
    believes_nodes: bool,
    on_remap: Option<OnRemap>,
    name: String,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            topology: None,
            level: LevelChoice::Auto,
            pin: None,
            reserve: 0,
            max_workers: None,
            substitutes: 1,
            stack_size: None,
            queue_limit: None,
            queue_per_worker: QUEUE_PER_WORKER,
            table_limit: None,
            limits: QueryLimits::default(),
            run_length: Discipline::RUN_LENGTH,
            reorder: Discipline::REORDER,
            bulk_wait: Discipline::BULK_WAIT,
            planner: PlannerConfig::default(),
            steal: StealConfig::default(),
            split: SplitConfig::default(),
            copies: Some(CopyLimits::default()),
            believes_nodes: false,
            on_remap: None,
            name: "chiplet".to_owned(),
        }
    }
}

impl Builder {
    /// The machine to run on. Without it the running machine is detected.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Which cache makes a domain when the machine is detected. Default: [`LevelChoice::Auto`].
    pub fn level(mut self, level: LevelChoice) -> Self {
        self.level = level;
        self
    }

    /// How tightly workers are tied. Default: [`Pin::Domain`], but [`Pin::None`] where a CPU quota leaves domains
    /// without workers: other containers may have the same domain, and then only the kernel can move either. A topology
    /// that is not this machine's is never pinned to.
    pub fn pin(mut self, pin: Pin) -> Self {
        self.pin = Some(pin);
        self
    }

    /// Cores left free for the rest of the process (network threads, a runtime). Default: 0. They are taken
    /// from the largest domains, and domain-pinned workers stay off them.
    pub fn reserve_cores(mut self, cores: usize) -> Self {
        self.reserve = cores;
        self
    }

    /// At most this many workers. Without it: one for each usable core, within the container's CPU quota.
    ///
    /// Under a quota, workers are packed into the fewest domains that hold them: the quota bounds their time wherever
    /// they run, and a domain of one worker cannot split a query. This bound spreads them evenly instead: each has the
    /// largest share of a cache. For few domains give a smaller machine ([`Topology::restricted_to`]).
    pub fn max_workers(mut self, workers: usize) -> Self {
        self.max_workers = Some(workers);
        self
    }

    /// How many threads may take tasks in place of each worker, one after the other, while tasks block
    /// ([`Context::block_in_place`](chiplet_table::Context::block_in_place)). Default: 1. None is started before it is
    /// needed; with 0 a task that blocks keeps its core.
    pub fn substitutes(mut self, each: usize) -> Self {
        self.substitutes = each;
        self
    }

    /// Bytes of stack of each thread of the executor, as [`std::thread::Builder::stack_size`] takes them: for searches,
    /// closures and destructors that recurse deeply. A stack that overflows ends the process, so less than 128 KiB
    /// counts as that. Default: that of Rust's threads, 2 MiB unless `RUST_MIN_STACK` says otherwise.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes.max(SMALLEST_STACK));
        self
    }

    /// Tasks that may wait in each domain for each worker of the one with the most; more are refused with `Overloaded`.
    /// Default: 256, which is a wait of 25 ms at 100 us a query, however many workers there are.
    /// [`Executor::queue_limit`] returns the resulting bound.
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    ///
    /// let machine = Topology::uniform(2, 4, 32 << 20);
    /// let executor = Executor::builder().topology(machine).queue_per_worker(100).build()?;
    /// assert_eq!(executor.queue_limit(), 400);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue_per_worker(mut self, tasks: usize) -> Self {
        self.queue_per_worker = tasks;
        self
    }

    /// Tasks that may wait in each domain, instead of what [`Builder::queue_per_worker`] makes it.
    pub fn queue_limit(mut self, tasks: usize) -> Self {
        self.queue_limit = Some(tasks);
        self
    }

    /// Tasks of one table that may wait in a domain. Default: three quarters of the domain's limit. In any case the
    /// last quarter of a queue is for tables with fewer waiting tasks than others, unless this limit alone leaves less.
    pub fn table_queue_limit(mut self, tasks: usize) -> Self {
        self.table_limit = Some(tasks);
        self
    }

    /// The most that one query may ask for. Default: no limits. A query over one is refused with
    /// [`SubmitError::OverLimit`](crate::SubmitError::OverLimit) when it is submitted.
    pub fn limits(mut self, limits: QueryLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How many queued tasks of one table a core may run in a row although older ones of other tables wait, so that it
    /// goes on with what its private cache holds. Default 16; with 1, and with 0, tasks start in the order in which
    /// they came. [`Builder::reorder`] bounds how long the older ones wait for that.
    #[doc(hidden)]
    pub fn run_length(mut self, tasks: u32) -> Self {
        self.run_length = tasks;
        self
    }

    /// How far a core may leave the order in which tasks came, to go on with the table that its private cache holds: a
    /// task may go before one that waits up to `share` of its time longer. So no task waits more than `1 / (1 -
    /// share)` times as long as in plain order. In `0.0..=0.9`; 0 is plain order, other values count as the nearest of
    /// these, NaN as the default, 0.3.
    ///
    /// It is the most. Where runs of one table gain little, as measured, the order is nearer to plain order.
    #[doc(hidden)]
    pub fn reorder(mut self, share: f64) -> Self {
        self.reorder = match share.is_nan() {
            true => Self::default().reorder,
            false => share.clamp(0.0, 0.9),
        };
        self
    }

    /// How long a task of [`Class::Bulk`](crate::Class::Bulk) gives way to interactive ones that wait in the same
    /// domain. After that it is ordered as if it had come just then. Zero makes the classes equal; with `None` bulk
    /// work is only done while no interactive task waits, which may be never.
    ///
    /// Default 100 ms: four times what a full queue of 100 us queries waits. So bulk work gives
    /// way to a burst of interactive queries as long as it lasts, and only then to those who come in too fast for good.
    pub fn bulk_wait(mut self, time: Option<Duration>) -> Self {
        self.bulk_wait = time;
        self
    }

    /// Windows, thresholds and mapping of placement.
    pub fn planner(mut self, config: PlannerConfig) -> Self {
        self.planner = config;
        self
    }

    /// The price of crossing domains.
    pub fn steal(mut self, config: StealConfig) -> Self {
        self.steal = config;
        self
    }

    /// When and how finely queries are split.
    pub fn split(mut self, config: SplitConfig) -> Self {
        self.split = config;
        self
    }

    /// Bytes that copies of tables may take, beyond the first of each. Default: 0.
    ///
    /// Where a table's homes are on several sockets, its memory is near one of them. Within this budget each gets a
    /// copy, if queries read enough of it there, and searches its own. A copy that is not used for ten minutes is given
    /// up. A table that asks for more than three tenths of a socket's cores gets homes on all sockets, if a copy for
    /// each fits.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        if let Some(limits) = &mut self.copies {
            limits.budget = bytes;
        }
        self
    }

    /// How many bytes a second are copied at most when a table's memory follows its home to another socket; with `None`
    /// it never does, and [`Builder::memory_budget`] counts for nothing. Default: 1 GB.
    ///
    /// One thread copies, where a machine has several sockets and a table says where its memory is
    /// ([`Table::residence`](chiplet_table::Table::residence)): if its homes read four times its size from another
    /// socket in a minute, at most once in ten minutes, and where there is room. Meanwhile there are two of it.
    pub fn copy_rate(mut self, bytes: Option<u64>) -> Self {
        let before = self.copies.unwrap_or_default();
        self.copies = bytes.map(|rate| CopyLimits { rate, ..before });
        self
    }

    /// Whether the system knows the NUMA nodes of a topology that is not this machine's: for tests.
    #[doc(hidden)]
    pub fn believe_nodes(mut self) -> Self {
        self.believes_nodes = true;
        self
    }

    /// Called after each placement change, on the balancer's thread, with no lock held. The same is logged
    /// through `tracing` at `INFO`.
    ///
    /// The executor keeps the callback until it is shut down. A callback that needs the executor should hold a
    /// [`Weak`](std::sync::Weak) to it: with an `Arc` the two keep each other until someone calls
    /// [`Executor::shutdown`].
    pub fn on_remap(mut self, callback: impl Fn(&RemapEvent) + Send + Sync + 'static) -> Self {
        self.on_remap = Some(Box::new(callback));
        self
    }

    /// Prefix of the threads' names. Default: `chiplet`; the kernel shows 15 bytes.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Detects the machine if need be, starts the workers, pins them, and waits until each has said what it
    /// was granted.
    ///
    /// # Errors
    /// [`BuildError`]. A refused pinning is no error: it is logged, and [`Executor::workers`] shows it.
    pub fn build(self) -> Result<Executor, BuildError> {
        let topology = match self.topology {
            Some(topology) => topology,
            None => Topology::detect(self.level)?,
        };
        for (what, value) in [
            ("queue_limit", self.queue_limit),
            ("queue_per_worker", Some(self.queue_per_worker)),
            ("table_queue_limit", self.table_limit),
            ("max_workers", self.max_workers),
        ]
        .into_iter()
        .chain(self.limits.named())
        {
            if value == Some(0) {
                return Err(BuildError::ZeroBound { what });
            }
        }
        if self.name.contains('\0') {
            return Err(BuildError::NulInName { name: self.name });
        }
        let plan = cores::choose(
            &topology,
            |_| true,
            |_| true,
            self.reserve,
            self.max_workers,
        )?;
        let largest = plan
            .iter()
            .map(|domain| domain.cores.len())
            .max()
            .unwrap_or(1);
        let queue_limit = self
            .queue_limit
            .unwrap_or(self.queue_per_worker.saturating_mul(largest));
        let table_limit = self
            .table_limit
            .unwrap_or_else(|| Discipline::usual_table_limit(queue_limit))
            .min(queue_limit);
        let domains = plan.iter().map(|domain| (domain.id, domain.cores.len()));
        let groups = GroupSpec::all(&topology, &domains.collect::<Vec<_>>());
        let rules = Rules {
            crossing: Crossing {
                steal: self.steal,
                groups: groups.len(),
            },
            substitutes: self.substitutes,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            discipline: Discipline {
                run_length: self.run_length,
                reorder: self.reorder,
                limit: queue_limit,
                table_limit,
                bulk_wait: self.bulk_wait,
            },
        };
        let mut group_of_domain = vec![None; topology.domains().len()];
        for (index, group) in groups.iter().enumerate().rev() {
            group_of_domain[group.domain.0 as usize] = Some(index);
        }
        let (hub, locals) = Hub::new(rules, groups);

        let tick = self
            .planner
            .windows
            .fast_bucket()
            .clamp(Duration::from_millis(1), Duration::from_secs(1));
        let topology = Arc::new(topology);
        let pin = if topology.is_this_machine() {
            self.pin
                .unwrap_or_else(|| cores::usual_pin(&topology, self.reserve))
        } else {
            Pin::None
        };
        let options = WorkerOptions {
            pin,
            reserve: self.reserve,
            max_workers: self.max_workers,
        };
        let nodes = Nodes::of(&topology, self.believes_nodes);
        let copies = self.copies.filter(|_| nodes.matter());
        let mut planner = Planner::new(self.planner, workers::specs(&plan, &topology));
        planner.set_memory_budget(copies.map_or(0, |limits| limits.budget));
        let balancer = Arc::new(Balancer::new(
            planner,
            Workers::new(Arc::clone(&topology), options),
            tick,
            hub.clock().clone(),
        ));
        if nodes.matter() && numa_balancing() == Some(true) {
            tracing::warn!(
                "automatic NUMA balancing is on: it takes pages of tables away for a while to see who reads them; build and \
                 load tables on nodes (Executor::nodes_for), which it leaves alone, or turn it off (sysctl \
                 kernel.numa_balancing=0)"
            );
        }
        let engine = Arc::new(Engine::new(EngineParts {
            stack_size: self.stack_size,
            nodes,
            split: self.split,
            hub,
            name: self.name,
            group_of_domain,
            queue_limit,
            table_limit,
            topology,
        }));

        let places = Place::all(&plan, pin);
        let (report, reports) = mpsc::channel();
        let threads = Arc::clone(&engine.threads);
        let give_up = |error| {
            engine.hub.close();
            balancer.stop();
            // Workers have nothing to do, so they end at once, and the last of them stops the timer.
            threads.join_until(now() + A_YEAR);
            Err(error)
        };
        for (place, local) in places.into_iter().zip(locals) {
            let (domain, index) = (place.domain, local.worker);
            let worker = Worker::new(Arc::clone(&engine), local);
            let report = report.clone();
            let body = move || {
                // The receiver is gone only if building has failed, and then the hub is closed.
                let _ = report.send(place.pin(worker.index()));
                drop(report);
                worker.run();
            };
            if let Err(error) = threads.spawn_worker(domain, index, body) {
                return give_up(error);
            }
        }
        drop(report);
        let mut workers: Vec<PinnedWorker> = std::iter::from_fn(|| reports.recv().ok()).collect();
        workers.sort_by_key(|worker| worker.info.index);
        balancer.add_workers(workers);

        let watching = Arc::clone(&engine);
        let (balancing, balanced) = (Arc::clone(&balancer), Arc::clone(&engine));
        // The thread owns the callback: one that keeps the executor lets go of it when a shutdown ends the thread.
        let on_remap = self.on_remap;
        let mut bodies: Vec<(&str, Body)> = vec![
            (
                "balance",
                Box::new(move || balancing.run(&balanced, on_remap)),
            ),
            ("watch", Box::new(move || watching.watch())),
        ];
        if let Some(limits) = copies {
            let copier = Copier {
                engine: Arc::clone(&engine),
                balancer: Arc::clone(&balancer),
                limits,
            };
            bodies.push(("copy", Box::new(move || copier.run())));
        }
        let others = bodies
            .into_iter()
            .map(|(what, body)| threads.spawn(what, body));
        let timers = (0..timer::THREADS).map(|_| threads.start_timer());
        // Each is started when it comes to it.
        for started in others.chain(timers) {
            if let Err(error) = started {
                return give_up(error);
            }
        }
        Ok(Executor::new(engine, balancer, self.limits))
    }
}
