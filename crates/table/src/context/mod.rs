//! What a search is given besides its query: whether it is still wanted, where it runs, who helps. It says there what
//! it has read.

pub(crate) mod contain;
mod parts;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use chiplet_topology::DomainId;

use crate::error::SearchError;

/// One part of work that was shared out: its number, and a context of the worker that runs it. After a
/// [`ControlFlow::Break`] no more parts are begun. It does not panic.
pub type Part = dyn Fn(usize, &mut Context<'_>) -> ControlFlow<()> + Send + Sync;

/// The worker that runs a task, as the task's code sees it through its [`Context`].
pub trait Host {
    /// Whether anybody still waits for the task's answer. Asked now and then by the code that runs.
    fn is_wanted(&self) -> bool;

    /// The domain of the worker.
    fn domain(&self) -> DomainId;

    /// The NUMA node of that domain, by the operating system's number.
    fn node(&self) -> u32;

    /// Runs `code`, which waits for something that takes no processor, while another thread takes tasks in the worker's
    /// place. Returns how long it took.
    fn block(&self, code: &mut dyn FnMut()) -> Duration;

    /// Workers besides this one that may take parts.
    fn helpers(&self) -> usize;

    /// Runs the parts `0..count`, each once, on this worker and on those that help, and returns what they have used
    /// when all that were begun have ended. By then nothing refers to `code` any more.
    fn run_parts(&self, count: usize, code: Arc<Part>) -> Tally;
}

/// What a task reports that it used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Index data read, in bytes.
    pub bytes: u64,
    /// How long other workers ran parts of it.
    pub helped: Duration,
    /// How long it has waited for something that takes no processor.
    pub blocked: Duration,
}

impl Tally {
    /// Counts what another worker has used for the same task.
    pub fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.helped = self.helped.saturating_add(other.helped);
        self.blocked = self.blocked.saturating_add(other.blocked);
    }

    /// How much of the passed time its worker was busy with it.
    pub fn busy(&self, passed: Duration) -> Duration {
        passed.saturating_sub(self.blocked)
    }
}

/// What a [`Table`](crate::Table) is given with each query, and a closure with its turn.
///
/// A long search asks now and then whether it is still wanted, so that neither a passed deadline nor a dropped ticket
/// costs more than it must:
///
/// ```
/// use chiplet_table::{Context, SearchError};
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
#[derive(Default)]
pub struct Context<'a> {
    tally: Tally,
    /// `None` outside an executor: nothing stops the search, and nobody helps.
    host: Option<&'a dyn Host>,
}

/// A context for code that `host` runs.
#[inline]
pub fn context(host: &dyn Host) -> Context<'_> {
    Context {
        tally: Tally::default(),
        host: Some(host),
    }
}

/// What was reported to the context, and what helpers used.
#[inline]
pub fn tally(context: &Context<'_>) -> Tally {
    context.tally
}

impl Context<'_> {
    /// Counts `bytes` of index data as read. Placement uses them: bytes that are not reported are not seen.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.tally.bytes = self.tally.bytes.saturating_add(bytes);
    }

    /// Index data read so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.tally.bytes
    }

    /// Whether nobody waits for the answer any more: the deadline has passed, or the ticket was dropped. Takes some 50
    /// ns, so ask every few microseconds.
    pub fn should_stop(&self) -> bool {
        self.host.is_some_and(|host| !host.is_wanted())
    }

    /// [`Context::should_stop`] as an error, to end a search with `?`.
    ///
    /// # Errors
    /// [`SearchError::Stopped`]. Its ticket, if it is still there, resolves to the error `Expired`.
    pub fn check(&self) -> Result<(), SearchError> {
        match self.should_stop() {
            true => Err(SearchError::Stopped),
            false => Ok(()),
        }
    }

    /// Runs `code`, which is going to wait for something other than this processor: a file, a lock that is held for
    /// long, an answer from another machine or from another task. Meanwhile another thread takes tasks on this worker's
    /// core.
    ///
    /// The worker that runs this goes on with its task when `code` returns, and may share the core with the other
    /// thread until that has ended its own task. Each worker has one such substitute, or as many as the executor's
    /// builder says (`Builder::substitutes`). A thread is started for it when it is first needed. If all of them are
    /// inside tasks that block too, `code` keeps the core from others, as it would without this call; they then wait
    /// until another core is free or another domain helps.
    ///
    /// The time counts for the ticket's deadline and its report, but not as load of the table. It costs some
    /// microseconds, so it pays for waits of 100 us and more. Outside an executor `code` just runs.
    ///
    /// A task may wait for another of the same executor in this way. Without it such a wait is refused (the error
    /// `WouldDeadlock`), and so it is when no substitute is free.
    ///
    /// ```
    /// use chiplet_table::Context;
    ///
    /// fn with_file(context: &mut Context) -> std::io::Result<String> {
    ///     context.block_in_place(|| std::fs::read_to_string("/proc/self/comm"))
    /// }
    /// # let _ = with_file(&mut Context::default());
    /// ```
    pub fn block_in_place<R>(&mut self, code: impl FnOnce() -> R) -> R {
        let Some(host) = self.host else {
            return code();
        };
        let (mut code, mut result) = (Some(code), None);
        let blocked = host.block(&mut || result = code.take().map(|code| code()));
        self.tally.blocked += blocked;
        result.expect("a host runs the code that it is given")
    }

    /// The domain of the worker that runs this; `None` outside an executor.
    pub fn domain(&self) -> Option<DomainId> {
        self.host.map(|host| host.domain())
    }

    /// The NUMA node of that domain, by the operating system's number; `None` outside an executor.
    pub fn node(&self) -> Option<u32> {
        self.host.map(|host| host.node())
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("bytes", &self.bytes())
            .field("domain", &self.domain())
            .finish_non_exhaustive()
    }
}
