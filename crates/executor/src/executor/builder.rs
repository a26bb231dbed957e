//! Building an executor: which cores, which bounds; then starting and pinning its workers.

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::queue::QUEUE_PER_WORKER;
use chiplet_policy::{Planner, PlannerConfig, SplitConfig, StealConfig};
use chiplet_topology::pin::Pin;
use chiplet_topology::{LevelChoice, Topology, numa_balancing};

use crate::engine::deadline;
use crate::engine::worker::Worker;
use crate::engine::{Engine, EngineParts};
use crate::error::BuildError;
use crate::executor::Executor;
use crate::limits::QueryLimits;
use crate::placement::balancer::{Balancer, OnRemap};
use crate::placement::copier::Copier;
use crate::placement::cores;
use crate::placement::event::RemapEvent;
use crate::placement::nodes::Nodes;
use crate::placement::workers::{self, PinnedWorker, Workers};
use crate::scheduler::{Crossing, Discipline, GroupSpec, Rules, Scheduler};
use crate::sync::{mpsc, now};

/// Stands for "as long as it takes".
const A_YEAR: Duration = Duration::from_secs(31_536_000);

/// Room for a task that does little, without optimization too.
const SMALLEST_STACK: usize = 128 << 10;

/// What a thread runs.
type Body = Box<dyn FnOnce() + Send>;

/// The settings with a method for each, of its name, as `settings!` of `chiplet_policy` has them; and fields without.
macro_rules! builder {
    (
        $(#[$about:meta])*
        pub struct Builder {
            $($(#[$doc:meta])* $name:ident($Given:ty): $Kept:ty = $default:expr,)*
        }
        and { $($field:ident: $Type:ty = $value:expr,)* }
    ) => {
        $(#[$about])*
        pub struct Builder {
            $($name: $Kept,)*
            $($field: $Type,)*
        }

        impl Default for Builder {
            fn default() -> Self {
                Self { $($name: $default,)* $($field: $value,)* }
            }
        }

        impl Builder {
            $(
                $(#[$doc])*
                pub fn $name(mut self, $name: $Given) -> Self {
                    self.$name = $name.into();
                    self
                }
            )*
        }
    };
}

builder! {
    /// Settings of an executor; see [`Executor::builder`].
    #[must_use = "a builder does nothing until `build`"]
    pub struct Builder {
        /// The machine to run on. Without it the running machine is detected.
        topology(Topology): Option<Topology> = None,

        /// Which cache makes a domain when the machine is detected. Default: [`LevelChoice::Auto`].
        level(LevelChoice): LevelChoice = LevelChoice::Auto,

        /// How tightly workers are tied. Default: [`Pin::Domain`], but [`Pin::None`] where a CPU quota leaves domains
        /// without workers: other containers may have the same domain, and then only the kernel can move either. A
        /// topology that is not this machine's is never pinned to.
        pin(Pin): Option<Pin> = None,

        /// Cores left free for the rest of the process (network threads, a runtime). Default: 0. They are taken
        /// from the largest domains, and domain-pinned workers stay off them.
        reserve_cores(usize): usize = 0,

        /// At most this many workers. Without it: one for each usable core, within the container's CPU quota.
        ///
        /// Under a quota, workers are packed into the fewest domains that hold them: the quota bounds their time
        /// wherever they run, and a domain of one worker cannot split a query. This bound spreads them evenly instead:
        /// each has the largest share of a cache. For few domains give a smaller machine ([`Topology::restricted_to`]).
        max_workers(usize): Option<usize> = None,

        /// How many threads may take tasks in place of each worker, one after the other, while tasks block
        /// ([`Context::block_in_place`](chiplet_table::Context::block_in_place)). Default: 1. None is started before it
        /// is needed; with 0 a task that blocks keeps its core.
        substitutes(usize): usize = 1,

        /// Bytes of stack of each thread of the executor, as [`std::thread::Builder::stack_size`] takes them: for
        /// searches, closures and destructors that recurse deeply. A stack that overflows ends the process, so less
        /// than 128 KiB counts as that. Default: that of Rust's threads, 2 MiB unless `RUST_MIN_STACK` says otherwise.
        stack_size(usize): Option<usize> = None,

        /// Tasks that may wait in each domain for each worker of the one with the most; more are refused with
        /// `Overloaded`. Default: 256, which is a wait of 25 ms at 100 us a query, however many workers there are.
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
        queue_per_worker(usize): usize = QUEUE_PER_WORKER,

        /// Tasks that may wait in each domain, instead of what [`Builder::queue_per_worker`] makes it.
        queue_limit(usize): Option<usize> = None,

        /// Tasks of one table that may wait in a domain. Default: three quarters of the domain's limit. In any case the
        /// last quarter of a queue is for tables with fewer waiting tasks than others, unless this limit alone leaves
        /// less.
        table_queue_limit(usize): Option<usize> = None,

        /// The most that one query may ask for. Default: no limits. A query over one is refused with
        /// [`SubmitError::OverLimit`](crate::SubmitError::OverLimit) when it is submitted.
        limits(QueryLimits): QueryLimits = QueryLimits::new(),

        /// How many queued tasks of one table a core may run in a row although older ones of other tables wait, so that
        /// it goes on with what its private cache holds. Default 16; with 1, and with 0, tasks start in the order in
        /// which they came. [`Builder::reorder`] bounds how long the older ones wait for that.
        #[doc(hidden)]
        run_length(u32): u32 = Discipline::RUN_LENGTH,

        /// How far a core may leave the order in which tasks came, to go on with the table that its private cache
        /// holds: a task may go before one that waits up to this share of its time longer. So no task waits more than
        /// `1 / (1 - share)` times as long as in plain order. In `0.0..=0.9`; 0 is plain order, other values count as
        /// the nearest of these, NaN as the default, 0.3.
        ///
        /// It is the most. Where runs of one table gain little, as measured, the order is nearer to plain order.
        #[doc(hidden)]
        reorder(f64): f64 = Discipline::REORDER,

        /// The weight of all tasks of [`Class::Bulk`](crate::Class::Bulk) together, while interactive ones wait in the
        /// same domain: they get as much time as an interactive table of this weight
        /// ([`TableOptions::weight`](crate::TableOptions::weight)) would. Besides, they get all that no interactive
        /// task waits for. With 0 they get no more than that, which may be nothing.
        ///
        /// Default 1/16. In `0.0..=1.0`; other values count as the nearest of these, NaN as the default.
        bulk_weight(f32): f32 = Discipline::BULK_WEIGHT,

        /// Windows, thresholds and mapping of placement.
        planner(PlannerConfig): PlannerConfig = PlannerConfig::new(),

        /// The price of crossing domains.
        steal(StealConfig): StealConfig = StealConfig::new(),

        /// When and how finely queries are split.
        split(SplitConfig): SplitConfig = SplitConfig::new(),

        /// Bytes that copies of tables may take, beyond the first of each. Default: 0.
        ///
        /// Where a table's homes are on several sockets, its memory is near one of them. Within this budget each gets a
        /// copy, if queries read enough of it there, and searches its own. A copy that is not used for ten minutes is
        /// given up. A table that asks for more than three tenths of a socket's cores gets homes on all sockets, if a
        /// copy for each fits.
        memory_budget(u64): u64 = 0,

        /// How many bytes a second are copied at most when a table's memory follows its home to another socket; with
        /// `None` it never does, and [`Builder::memory_budget`] counts for nothing. Default: 1 GB.
        ///
        /// One thread copies, where a machine has several sockets and a table says where its memory is
        /// ([`Table::residence`](chiplet_table::Table::residence)): if its homes read four times its size from another
        /// socket in a minute, at most once in ten minutes, and where there is room. Meanwhile there are two of it.
        copy_rate(Option<u64>): Option<u64> = Some(Copier::USUAL_RATE),

        /// Whether the system knows the NUMA nodes of a topology that is not this machine's: for tests.
        #[doc(hidden)]
        believe_nodes(bool): bool = false,

        /// Prefix of the threads' names. Default: `chiplet`; the kernel shows 15 bytes.
        name(impl Into<String>): String = "chiplet".to_owned(),
    }
    and {
        on_remap: Option<OnRemap> = None,
    }
}

impl Builder {
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
        let bounds = [
            ("queue_limit", self.queue_limit),
            ("queue_per_worker", Some(self.queue_per_worker)),
            ("table_queue_limit", self.table_queue_limit),
            ("max_workers", self.max_workers),
        ];
        let mut bounds = bounds.into_iter().chain(self.limits.named());
        if let Some((what, _)) = bounds.find(|&(_, bound)| bound == Some(0)) {
            return Err(BuildError::ZeroBound { what });
        }
        if self.name.contains('\0') {
            return Err(BuildError::NulInName { name: self.name });
        }
        let (reserve, max_workers) = (self.reserve_cores, self.max_workers);
        let plan = cores::choose(&topology, |_| true, |_| true, reserve, max_workers)?;
        let sizes = plan.iter().map(|domain| domain.cores.len());
        let largest = sizes.max().unwrap_or(1);
        let queue_limit = self
            .queue_limit
            .unwrap_or(self.queue_per_worker.saturating_mul(largest));
        let table_limit = self
            .table_queue_limit
            .unwrap_or_else(|| Discipline::usual_table_limit(queue_limit))
            .min(queue_limit);
        let domains = plan.iter().map(|domain| (domain.id, domain.cores.len()));
        let groups = GroupSpec::all(&topology, &domains.collect::<Vec<_>>());
        let rules = Rules {
            prefetches: true,
            crossing: Crossing {
                steal: self.steal,
                groups: groups.len(),
            },
            substitutes: self.substitutes,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            discipline: Discipline {
                run_length: self.run_length,
                reorder: match self.reorder.is_nan() {
                    true => Discipline::REORDER,
                    false => self.reorder.clamp(0.0, 0.9),
                },
                limit: queue_limit,
                table_limit,
                bulk_weight: match self.bulk_weight.is_nan() {
                    true => Discipline::BULK_WEIGHT,
                    false => self.bulk_weight.clamp(0.0, 1.0),
                },
            },
        };
        let mut group_of_domain = vec![None; topology.domains().len()];
        for (index, group) in groups.iter().enumerate().rev() {
            group_of_domain[group.domain.0 as usize] = Some(index);
        }
        let (scheduler, locals) = Scheduler::new(rules, groups);

        let bucket = self.planner.windows.fast_bucket();
        let tick = bucket.clamp(Duration::from_millis(1), Duration::from_secs(1));
        let topology = Arc::new(topology);
        let pin = match topology.is_this_machine() {
            true => self.pin,
            false => Some(Pin::None),
        };
        let pin = pin.unwrap_or_else(|| cores::usual_pin(&topology, reserve));
        let nodes = Nodes::of(&topology, self.believe_nodes);
        let copy_rate = self.copy_rate.filter(|_| nodes.matter());
        let mut planner = Planner::new(self.planner, workers::specs(&plan, &topology));
        planner.set_memory_budget(copy_rate.map_or(0, |_| self.memory_budget));
        let workers = Workers::new(Arc::clone(&topology), pin, (reserve, max_workers));
        let clock = scheduler.clock().clone();
        let balancer = Arc::new(Balancer::new(planner, workers, tick, clock));
        if nodes.matter() && numa_balancing() == Some(true) {
            tracing::warn!(
                "automatic NUMA balancing is on: it takes pages of tables away for a while to see who reads them; build and \
                 load tables on nodes (Executor::nodes_for_new), which it leaves alone, or turn it off (sysctl \
                 kernel.numa_balancing=0)"
            );
        }
        let engine = Arc::new(Engine::new(EngineParts {
            stack_size: self.stack_size.map(|bytes| bytes.max(SMALLEST_STACK)),
            nodes,
            split: self.split,
            scheduler,
            name: self.name,
            group_of_domain,
            queue_limit,
            table_limit,
            topology,
        }));

        let threads = &engine.threads;
        let failed = |error| {
            // Those that have been started have nothing to do, so they end at once. The last worker stops the timer.
            engine.scheduler.close();
            balancer.stop();
            threads.join_until(now() + A_YEAR);
            error
        };
        let start = |name: &str, body: Body| threads.spawn(name, body).map_err(&failed);
        let (report, reports) = mpsc::channel();
        for (pinned, local) in PinnedWorker::all(&plan, pin).into_iter().zip(locals) {
            let (domain, index) = (pinned.info.domain, local.worker);
            let worker = Worker::new(Arc::clone(&engine), local);
            let report = report.clone();
            let body = move || {
                // The receiver is gone only if building has failed, and then the scheduler is closed.
                let _ = report.send(pinned.pin_this());
                drop(report);
                worker.run();
            };
            let started = threads.spawn_worker(domain, index, body);
            started.map_err(&failed)?;
        }
        drop(report);
        let mut workers: Vec<PinnedWorker> = std::iter::from_fn(|| reports.recv().ok()).collect();
        workers.sort_by_key(|worker| worker.info.index);
        balancer.workers(|all| all.add(workers));

        let watching = Arc::clone(&engine);
        let (balancing, balanced) = (Arc::clone(&balancer), Arc::clone(&engine));
        // The thread owns the callback: one that keeps the executor lets go of it when a shutdown ends the thread.
        let on_remap = self.on_remap;
        let balance = move || balancing.run(&balanced, on_remap);
        start("balance", Box::new(balance))?;
        start("monitor", Box::new(move || watching.watch()))?;
        if let Some(rate) = copy_rate {
            let copier = Copier {
                engine: Arc::clone(&engine),
                balancer: Arc::clone(&balancer),
                rate,
            };
            start("copy", Box::new(move || copier.run()))?;
        }
        for _ in 0..deadline::THREADS {
            threads.start_timer().map_err(&failed)?;
        }
        Ok(Executor::new(engine, balancer, self.limits))
    }
}
