//! What a search is given besides its query: whether it is still wanted, where it runs, memory to work in. It says there
//! what it has read.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::{Class, TableId};
use chiplet_topology::DomainId;
use rustc_hash::FxHashMap;

use crate::engine::worker::Worker;
use crate::table::SearchError;

/// What a context knows of the task that it belongs to.
pub(crate) trait Wanted: Send + Sync {
    /// Asked now and then by whoever runs the task: whether anybody still waits for the answer.
    fn is_wanted(&self) -> bool;

    /// The table that it counts for.
    fn table_id(&self) -> TableId;

    /// Of which class it is, and when it came.
    fn came(&self) -> (Class, Instant);
}

/// A task by reference, of which there can be one more: for the worker that runs a part of it.
pub(crate) trait Owner {
    fn task(&self) -> &dyn Wanted;
    fn share(&self) -> Arc<dyn Wanted>;
}

impl<W: Wanted + 'static> Owner for Arc<W> {
    fn task(&self) -> &dyn Wanted {
        &**self
    }

    fn share(&self) -> Arc<dyn Wanted> {
        Arc::clone(self) as _
    }
}

impl Owner for Arc<dyn Wanted> {
    fn task(&self) -> &dyn Wanted {
        &**self
    }

    fn share(&self) -> Arc<dyn Wanted> {
        Arc::clone(self)
    }
}

/// What a task says that it used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// Index data read, in bytes.
    pub(crate) bytes: u64,
    /// How long other workers ran parts of it.
    pub(crate) helped: Duration,
    /// How long it has waited for something that takes no processor.
    pub(crate) blocked: Duration,
}

impl Used {
    pub(crate) fn add(&mut self, other: Used) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.helped = self.helped.saturating_add(other.helped);
        self.blocked = self.blocked.saturating_add(other.blocked);
    }

    /// How long its worker was busy with it, of the time that passed.
    pub(crate) fn busy(&self, passed: Duration) -> Duration {
        passed.saturating_sub(self.blocked)
    }
}

/// Where a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) domain: DomainId,
    pub(crate) node: u32,
}

/// Values of any type that a worker keeps from task to task, one of each type.
#[derive(Default)]
pub(crate) struct Scratch(FxHashMap<TypeId, Box<dyn Any + Send>>);

impl Scratch {
    fn get<T: Any + Default + Send>(&mut self) -> &mut T {
        let kept = self.0.entry(TypeId::of::<T>());
        let kept = kept.or_insert_with(|| Box::<T>::default());
        let kept: &mut dyn Any = &mut **kept;
        kept.downcast_mut().expect("it is stored under its type")
    }
}

/// Memory of the worker, or of the context itself.
enum Memory<'a> {
    Own(Scratch),
    Workers(&'a mut Scratch),
}

/// What a [`Table`](crate::Table) is given with each query, and a closure with its turn.
///
/// A long search asks now and then whether it is still wanted, so that neither a passed deadline nor a dropped ticket
/// costs more than it must:
///
/// ```
/// use chiplet_executor::{Context, SearchError};
///
/// fn nearest(rows: &[f32], to: f32, context: &mut Context) -> Result<f32, SearchError> {
///     let mut nearest = f32::INFINITY;
///     for block in rows.chunks(1_000) {
///         context.check()?;
///         nearest = block.iter().map(|row| (row - to).abs()).fold(nearest, f32::min);
///         context.add_bytes(4 * block.len() as u64);
///     }
///     Ok(nearest)
/// }
///
/// // Outside an executor nothing stops it.
/// let mut context = Context::default();
/// assert_eq!(nearest(&[1.0, 4.0, 9.0], 5.0, &mut context)?, 1.0);
/// assert_eq!(context.bytes(), 12);
/// # Ok::<(), SearchError>(())
/// ```
pub struct Context<'a> {
    used: Used,
    /// Who runs this, and for which task; `None` outside an executor.
    run: Option<(&'a Worker, &'a dyn Owner)>,
    memory: Memory<'a>,
}

/// A context outside an executor: nothing stops the search, and its memory goes with it.
impl Default for Context<'_> {
    fn default() -> Self {
        Self {
            used: Used::default(),
            run: None,
            memory: Memory::Own(Scratch::default()),
        }
    }
}

impl<'a> Context<'a> {
    pub(crate) fn new(worker: &'a Worker, task: &'a dyn Owner, scratch: &'a mut Scratch) -> Self {
        Self {
            used: Used::default(),
            run: Some((worker, task)),
            memory: Memory::Workers(scratch),
        }
    }

    pub(crate) fn run(&self) -> Option<(&'a Worker, &'a dyn Owner)> {
        self.run
    }

    pub(crate) fn used(&self) -> Used {
        self.used
    }

    /// Counts what others have used for the same task.
    pub(crate) fn add_used(&mut self, used: Used) {
        self.used.add(used);
    }

    /// Counts `bytes` of index data as read. Placement goes by them: what is not reported is not seen.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.used.bytes = self.used.bytes.saturating_add(bytes);
    }

    /// Index data read so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.used.bytes
    }

    /// Whether nobody waits for the answer any more: the deadline has passed, or the ticket was dropped. Takes some 50 ns,
    /// so ask every few microseconds.
    pub fn should_stop(&self) -> bool {
        self.run.is_some_and(|(_, task)| !task.task().is_wanted())
    }

    /// [`Context::should_stop`] as an error, to end a search with `?`.
    ///
    /// # Errors
    /// [`SearchError::Stopped`]. Its ticket, if it is still there, resolves to [`Error::Expired`](crate::Error::Expired).
    pub fn check(&self) -> Result<(), SearchError> {
        match self.should_stop() {
            true => Err(SearchError::Stopped),
            false => Ok(()),
        }
    }

    /// Runs `code`, which is going to wait for something other than this processor: a file, a lock that is held for long,
    /// an answer from another machine or from another task. Meanwhile another thread takes tasks on this worker's core.
    ///
    /// The worker that runs this goes on with its task when `code` returns, and may share the core with the other thread
    /// until that has ended its own task. Each worker has one such substitute, or as many as
    /// [`Builder::substitutes`](crate::Builder::substitutes) says. A thread is started for it when it is first needed.
    /// If all of them are inside tasks that block too, `code` keeps the core from others, as it would without this call;
    /// they then wait until another core is free or another domain helps.
    ///
    /// The time counts for the ticket's deadline and its [`Report`](crate::Report), but not as load of the table. It costs
    /// some microseconds, so it pays for waits of 100 us and more. Outside an executor `code` just runs.
    ///
    /// A task may wait for another of the same executor in this way. Without it such a wait is refused
    /// ([`Error::WouldDeadlock`](crate::Error::WouldDeadlock)), and so it is when no substitute is free.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use chiplet_executor::{Executor, Topology};
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(1, 1, 32 << 20)).build()?;
    /// let executor = Arc::new(executor);
    /// let table = executor.add_closure_table("songs", 1 << 20);
    /// let inner = Arc::clone(&executor);
    /// let outer = executor.submit_fn(table, None, move |context| {
    ///     let asked = inner.spawn(table, || 6 * 7);
    ///     context.block_in_place(|| asked.wait())
    /// })?;
    /// assert_eq!(outer.wait()??, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn block_in_place<R>(&mut self, code: impl FnOnce() -> R) -> R {
        let Some((worker, _)) = self.run else {
            return code();
        };
        let (result, blocked) = worker.block(code);
        self.used.blocked += blocked;
        result
    }

    /// The domain of the worker that runs this; `None` outside an executor.
    pub fn domain(&self) -> Option<DomainId> {
        self.place().map(|place| place.domain)
    }

    /// The NUMA node of that domain, by the operating system's number; `None` outside an executor.
    pub fn node(&self) -> Option<u32> {
        self.place().map(|place| place.node)
    }

    fn place(&self) -> Option<Place> {
        self.run.map(|(worker, _)| worker.place())
    }

    /// A value of type `T` that the worker keeps from task to task: buffers that would else be allocated in each. At
    /// first it is `T::default()`; later it is as the last task left it, whichever table's, even if that one panicked.
    ///
    /// ```
    /// use chiplet_executor::Context;
    ///
    /// /// A type of one's own, so that other tables' values are not mistaken for it.
    /// #[derive(Default)]
    /// struct Visited(Vec<u32>);
    ///
    /// let mut context = Context::default();
    /// context.scratch::<Visited>().0.push(7);
    /// assert_eq!(context.scratch::<Visited>().0, [7]);
    /// ```
    pub fn scratch<T: Any + Default + Send>(&mut self) -> &mut T {
        match &mut self.memory {
            Memory::Own(scratch) => scratch.get(),
            Memory::Workers(scratch) => scratch.get(),
        }
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("bytes", &self.bytes())
            .field("place", &self.place())
            .finish_non_exhaustive()
    }
}
