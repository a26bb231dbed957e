//! The executor as its user sees it: add tables, submit, look, shut down.

pub(crate) mod builder;
pub(crate) mod shutdown;
mod submit_many;
mod table_options;

use std::sync::Arc;
use std::time::Instant;

use chiplet_policy::{Homes, Placement, TableId};
use chiplet_table::Class;
use chiplet_table::{Context, IntoTable, Neighbor, Query, Table};
use chiplet_topology::{Process, Topology, TopologyError};

use crate::engine::Engine;
use crate::engine::completion::Live;
use crate::engine::registry::{EntryRef, Index};
use crate::engine::task::Header;
use crate::error::{Error, Refused, SubmitError, TableError};
use crate::jobs::closure::Closure;
use crate::jobs::search;
use crate::limits::QueryLimits;
use crate::options::TableOptions;
use crate::placement::balancer::Balancer;
use crate::placement::workers::WorkerInfo;
use crate::snapshot::{self, Snapshot};
use crate::ticket::Ticket;
use builder::Builder;

/// Runs vector searches where their tables are already in cache.
///
/// Each table has a home: a cache domain (CCD) that runs its queries. The executor measures what each table
/// reads and moves tables when traffic shifts. It is meant to be shared behind an [`Arc`] by every thread that
/// has queries; submitting never blocks.
///
/// In a fork of the process that built it every call fails, or panics, with [`SubmitError::Forked`] (Linux), but
/// [`Executor::shutdown`] and the like.
///
/// ```
/// use chiplet_executor::{Executor, Topology};
///
/// let executor = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20)).build()?;
/// let table = executor.add_closure_table("songs", 1 << 20);
/// let answer = executor.spawn(table, || 6 * 7).wait()?;
/// assert_eq!(answer, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Executor {
    pub(crate) engine: Arc<Engine>,
    pub(crate) balancer: Arc<Balancer>,
    limits: QueryLimits,
    /// The one that has the threads.
    process: Process,
}

impl Executor {
    /// An executor's settings, all with defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(engine: Arc<Engine>, balancer: Arc<Balancer>, limits: QueryLimits) -> Self {
        Self {
            engine,
            balancer,
            limits,
            process: Process::this(),
        }
    }

    /// Adds a table and gives it a home. Its queries may be submitted at once, from any thread. A caller that keeps the
    /// table too hands over an `Arc` of it.
    pub fn add_table(&self, name: impl Into<Arc<str>>, table: impl IntoTable) -> TableId {
        self.add_table_with(name, table, TableOptions::default())
    }

    /// [`Executor::add_table`] with options from the beginning.
    pub fn add_table_with(
        &self,
        name: impl Into<Arc<str>>,
        table: impl IntoTable,
        options: TableOptions,
    ) -> TableId {
        let placed = self.engine.placed(table.into_table());
        let memory = (placed.bytes, placed.package);
        self.add(name.into(), Index::new(placed), memory, options)
    }

    /// Adds a table that only closures search ([`Executor::spawn`]), of about `size_bytes` bytes.
    pub fn add_closure_table(&self, name: impl Into<Arc<str>>, size_bytes: u64) -> TableId {
        let (memory, options) = ((size_bytes, None), TableOptions::new());
        self.add(name.into(), Index::default(), memory, options)
    }

    /// The balancer, unless a lock that it takes may have been held at a fork, for ever.
    #[track_caller]
    fn balancer(&self) -> &Arc<Balancer> {
        assert!(self.process.is_this(), "{}", SubmitError::Forked);
        &self.balancer
    }

    fn add(
        &self,
        name: Arc<str>,
        index: Index,
        (size_bytes, package): (u64, Option<u32>),
        options: TableOptions,
    ) -> TableId {
        let balancer = self.balancer();
        let registry = &self.engine.registry;
        let id = registry.reserve();
        balancer.planner(|planner| {
            let homes = planner.add_table_on(id, size_bytes, package);
            registry.publish(id, name, index, options, homes);
        });
        id
    }

    /// The NUMA nodes on which a new table should have its memory: those of the socket where its home would be now.
    /// Empty on a machine with one socket, where all memory is equally near. Build or load the table with them, then add
    /// it soon:
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20)).build()?;
    /// assert_eq!(executor.nodes_for_new(), []);
    /// // HnswTable::build(&rows, dim, &config.memory(MemoryPolicy::on(executor.nodes_for_new())))
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn nodes_for_new(&self) -> Vec<u32> {
        let home = self.balancer().planner(|planner| planner.home_for_new());
        self.nodes_near(&home)
    }

    /// The NUMA nodes on which another index for `table` should have its memory ([`Executor::replace_table`]): those of
    /// the socket where its home is now. None on a machine with one socket, and if there is no such table.
    #[must_use]
    pub fn nodes_of(&self, table: TableId) -> Vec<u32> {
        let placement = self.placement();
        let homes = placement.homes(table);
        homes.map_or_else(Vec::new, |homes| self.nodes_near(homes))
    }

    fn nodes_near(&self, homes: &Homes) -> Vec<u32> {
        let home = homes.main().domain;
        let package = self.engine.topology.domains()[home.0 as usize].package;
        self.engine.nodes.of_package(package)
    }

    /// Puts another index behind `table`, as a service does after a rebuild. The table keeps its id, name, homes,
    /// options, traffic, counters and latencies, and nobody waits.
    ///
    /// Queries submitted once this has returned search the new index. Those accepted before are answered by the old
    /// one, which is dropped after the last of them, once its ticket is read or dropped: within a second, by a thread
    /// of the executor that runs no queries. The new index may have another dimension; it refuses what does not fit.
    ///
    /// # Errors
    /// [`TableError`], and the new index back.
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    /// use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
    ///
    /// /// Finds nothing but its version.
    /// struct Version(u64);
    ///
    /// impl Table for Version {
    ///     fn dim(&self) -> usize { 1 }
    ///     fn len(&self) -> usize { 1 }
    ///     fn size_bytes(&self) -> u64 { 8 }
    ///     fn search(&self, _: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
    ///         Ok(vec![Neighbor { id: self.0, distance: 0.0 }])
    ///     }
    /// }
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20)).build()?;
    /// let table = executor.add_table("songs", Version(1));
    /// executor.replace_table(table, Version(2))?;
    /// assert_eq!(executor.search(table, Query::new([0.5])).wait()?[0].id, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace_table(
        &self,
        table: TableId,
        index: impl IntoTable,
    ) -> Result<(), Refused<Arc<dyn Table>, TableError>> {
        let placed = self.engine.placed(index.into_table());
        let memory = (placed.bytes, placed.package);
        let next = |before: &Index| match before.main() {
            Some(_) => Ok(Index::new(placed.clone())),
            None => Err(TableError::NoIndex),
        };
        let replace = || self.engine.registry.replace(table, next);
        let replaced = self
            .find_to_change(table)
            .and_then(|_| self.balancer.replace_table(table, memory, replace));
        if let Err(reason) = replaced {
            let input = placed.table;
            return Err(Refused { reason, input });
        }
        let now = self.engine.scheduler.clock().now();
        for group in 0..self.engine.scheduler.groups.count() {
            let mut state = self.engine.scheduler.groups.lock(group);
            state.queue.replaced(table, now);
        }
        Ok(())
    }

    /// Removes a table: new queries are refused with [`SubmitError::UnknownTable`], accepted ones are
    /// answered, and the index is dropped after the last of them, once its ticket is read or dropped.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn remove_table(&self, table: TableId) -> Result<(), TableError> {
        self.find_to_change(table)?;
        let removed = self.engine.registry.remove(table);
        self.balancer
            .remove_table(removed.ok_or(TableError::Unknown)?);
        Ok(())
    }

    /// Searches `table`. A refused query's ticket resolves to [`Error::Refused`] at once; use
    /// [`Executor::submit`] to see the refusal before waiting and keep the query.
    pub fn search(&self, table: TableId, query: Query) -> Ticket<Vec<Neighbor>> {
        self.submit(table, query)
            .unwrap_or_else(|refused| Ticket::refused(refused.reason))
    }

    /// Searches `table`, or says at once why not and hands the query back.
    ///
    /// # Errors
    /// [`Refused`] with the reason: over a bound, no such table, shutting down, or a query that asks for more than
    /// [`Builder::limits`] allows. The table finds other faults of a query: the ticket then resolves to
    /// [`Error::Search`].
    pub fn submit(
        &self,
        table: TableId,
        query: Query,
    ) -> Result<Ticket<Vec<Neighbor>>, Refused<Query>> {
        self.submit_as(table, query, false)
    }

    /// [`Executor::submit`] for a caller that is `patient`: it waits where there is no room and asks again until it is
    /// answered, so it is counted nowhere as refused.
    #[doc(hidden)]
    pub fn submit_as(
        &self,
        table: TableId,
        query: Query,
        patient: bool,
    ) -> Result<Ticket<Vec<Neighbor>>, Refused<Query>> {
        let entry = match self.find_index(table, std::slice::from_ref(&query)) {
            Ok(entry) => entry,
            Err(reason) => {
                let input = query;
                return Err(Refused { reason, input });
            }
        };
        let (class, expires) = (query.requested_class(), query.expires());
        let header = self.header(entry, class, expires, true);
        let task = Arc::new(search::task(header, query));
        let admitted = self
            .engine
            .admit(&task.header, Arc::clone(&task) as _, patient);
        match admitted {
            Ok(()) => Ok(Ticket::live(task)),
            Err(reason) => {
                // Refused tasks are in no queue, so this is the only reference; the copy is for the compiler.
                let input = Arc::try_unwrap(task)
                    .map_or_else(|task| task.work.query.clone(), |task| task.work.query);
                Err(Refused { reason, input })
            }
        }
    }

    /// Runs a closure on `table`'s home. A refused closure's ticket resolves to [`Error::Refused`] at once.
    ///
    /// Threads and processes that it starts keep the worker's cpus for good, as the system hands them down: start them
    /// in [`unpinned`](chiplet_topology::pin::unpinned).
    pub fn spawn<F, T>(&self, table: TableId, code: F) -> Ticket<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_fn(table, None, move |_| code())
            .unwrap_or_else(|refused| Ticket::refused(refused.reason))
    }

    /// Runs a closure on `table`'s home, or says at once why not and hands it back. The closure may report the
    /// bytes it reads; without that its traffic is estimated from the time it takes. It is of its table's class
    /// ([`TableOptions::class`]).
    ///
    /// At `deadline` the ticket resolves to [`Error::Expired`] if there is no answer yet. A closure that has not
    /// started then never will; one that runs may ask [`Context::should_stop`], and what it returns is dropped.
    ///
    /// # Errors
    /// [`Refused`] with the reason: over a bound, no such table, shutting down.
    pub fn submit_fn<F, T>(
        &self,
        table: TableId,
        deadline: Option<Instant>,
        code: F,
    ) -> Result<Ticket<T>, Refused<F>>
    where
        F: FnOnce(&mut Context) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_fn_as(table, deadline, code, false)
    }

    /// [`Executor::submit_fn`], as [`Executor::submit_as`] says.
    #[doc(hidden)]
    pub fn submit_fn_as<F, T>(
        &self,
        table: TableId,
        deadline: Option<Instant>,
        code: F,
        patient: bool,
    ) -> Result<Ticket<T>, Refused<F>>
    where
        F: FnOnce(&mut Context) -> T + Send + 'static,
        T: Send + 'static,
    {
        let entry = match self.find(table) {
            Ok(entry) => entry,
            Err(reason) => {
                let input = code;
                return Err(Refused { reason, input });
            }
        };
        let header = self.header(entry, None, deadline, true);
        let task = Arc::new(Live::new(header, Closure, code));
        let admitted = self
            .engine
            .admit(&task.header, Arc::clone(&task) as _, patient);
        match admitted {
            Ok(()) => Ok(Ticket::live(task)),
            Err(reason) => match task.take_code() {
                Some(input) => Err(Refused { reason, input }),
                None => unreachable!("a refused task is in no queue, so nobody has taken its code"),
            },
        }
    }

    #[inline(always)]
    fn find(&self, table: TableId) -> Result<EntryRef, SubmitError> {
        if !self.process.is_this() {
            return Err(SubmitError::Forked);
        }
        self.engine
            .registry
            .refer(table)
            .ok_or(SubmitError::UnknownTable)
    }

    /// The table that is to be changed.
    fn find_to_change(&self, table: TableId) -> Result<EntryRef, TableError> {
        self.find(table).map_err(|error| match error {
            SubmitError::Forked => TableError::Forked,
            _ => TableError::Unknown,
        })
    }

    /// The table that is to be searched for `queries`, or why they are refused.
    fn find_index(&self, table: TableId, queries: &[Query]) -> Result<EntryRef, SubmitError> {
        let entry = self.find(table)?;
        if entry.index.main().is_none() {
            return Err(SubmitError::NotSearchable);
        }
        self.limits.check(queries)?;
        Ok(entry)
    }

    /// What is known of a task of `class`, or the table's, that `expires` and is passed over if it is `limited`.
    #[inline(always)]
    fn header(
        &self,
        entry: EntryRef,
        class: Option<Class>,
        expires: Option<Instant>,
        limited: bool,
    ) -> Header {
        let class = class.unwrap_or_else(|| entry.state.options.get().class);
        let accepted = self.engine.scheduler.clock().now();
        Header::new(entry, accepted, expires, (class, limited))
    }

    /// All counters. Reading them holds no worker and no submit up for longer than one small step ([`Snapshot`]).
    pub fn snapshot(&self) -> Snapshot {
        snapshot::take(&self.engine, self.balancer())
    }

    /// Stops the clock of placement (`true`), or lets it go on (`false`). While it stands no table moves by its
    /// traffic, and idle time does not count as less traffic. Queries are served as before. What they use meanwhile
    /// never counts as traffic. Workers that lose their cpus still move. Calls are not counted: one `false` lets it go
    /// on after any number of `true`.
    ///
    /// For times whose traffic says nothing about what comes: a benchmark's pause, a drain for maintenance.
    pub fn hold_placement(&self, hold: bool) {
        self.balancer().hold(&self.engine, hold);
    }

    /// The placement in force.
    pub fn placement(&self) -> Arc<Placement> {
        self.balancer().view().0
    }

    /// The machine this executor runs on.
    pub fn topology(&self) -> &Topology {
        &self.engine.topology
    }

    /// Tasks that may wait in each domain before more are refused ([`Builder::queue_per_worker`],
    /// [`Builder::queue_limit`]).
    pub fn queue_limit(&self) -> usize {
        self.engine.queue_limit
    }

    /// The workers and what the operating system granted each, at this moment.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.balancer().workers(|workers| workers.infos())
    }

    /// The logical cpus of its [`Executor::topology`] that the executor may use and no worker at work is tied to,
    /// ascending: what other threads of the process, such as a runtime's, may be pinned to without a worker beside
    /// them. Cores are left free by [`Builder::reserve_cores`]; [`Executor::restrict_to`] and changes of the machine
    /// change the answer, the latter within a second.
    ///
    /// Empty if there are none, and if any worker at work floats ([`Pin::None`](crate::Pin::None), or the system has
    /// refused to pin it): then no cpu is free of workers.
    ///
    /// ```
    /// use chiplet_executor::Executor;
    /// use chiplet_topology::pin::pin_current_thread;
    ///
    /// let cores = std::thread::available_parallelism()?.get();
    /// let executor = Executor::builder().reserve_cores(usize::from(cores > 2)).build()?;
    /// let free = executor.free_cpus();
    /// // A runtime does this in each of its threads: in tokio, `on_thread_start`.
    /// let other = std::thread::spawn(move || match free.is_empty() {
    ///     true => Ok(Vec::new()), // it shares the workers' cpus
    ///     false => pin_current_thread(&free),
    /// });
    /// # other.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn free_cpus(&self) -> Vec<u32> {
        self.balancer().workers(|workers| workers.free_cpus())
    }

    /// Uses only these cpus of its [`Executor::topology`] from now on, so that a service can give cores back while it
    /// runs, and take them again: a later call replaces an earlier one, and all cpus lift it.
    ///
    /// Workers whose cores are gone finish the task that they run, on the cpus that are left, and stand by; tables of a
    /// domain without workers move, and what was queued for them goes along. No task is lost. The same happens by
    /// itself, within a second, when cpus go offline or the process's cpuset changes (Linux).
    ///
    /// A domain never gets more workers than it was started with.
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(2, 4, 32 << 20)).build()?;
    /// executor.restrict_to(&[0, 1, 2])?;
    /// assert_eq!(executor.workers().iter().filter(|worker| worker.at_work).count(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TopologyError::NothingLeft`] if none of them is a cpu of the topology; nothing changes then.
    pub fn restrict_to(&self, cpus: &[u32]) -> Result<(), TopologyError> {
        self.engine.topology.restricted_to(cpus)?;
        self.balancer().restrict(&self.engine, cpus);
        Ok(())
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("workers", &self.engine.scheduler.layout.workers())
            .field("domains", &self.engine.topology.domains().len())
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Executor>();
    shareable::<Ticket<Vec<Neighbor>>>();
    shareable::<Error>();
};
