//! What a search is given besides its query: whether it is still wanted, where it runs, memory to work in. It says there
//! what it has read.

use std::any::{Any, TypeId};
use std::fmt;

use chiplet_topology::DomainId;
use rustc_hash::FxHashMap;

use crate::table::SearchError;

/// Asked now and then by whoever runs a task: whether anybody still waits for the answer.
pub(crate) trait Wanted: Sync {
    fn is_wanted(&self) -> bool;
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
    bytes: u64,
    wanted: Option<&'a dyn Wanted>,
    place: Option<Place>,
    memory: Memory<'a>,
}

/// A context outside an executor: nothing stops the search, and its memory goes with it.
impl Default for Context<'_> {
    fn default() -> Self {
        Self {
            bytes: 0,
            wanted: None,
            place: None,
            memory: Memory::Own(Scratch::default()),
        }
    }
}

impl<'a> Context<'a> {
    pub(crate) fn new(wanted: &'a dyn Wanted, place: Place, scratch: &'a mut Scratch) -> Self {
        Self {
            bytes: 0,
            wanted: Some(wanted),
            place: Some(place),
            memory: Memory::Workers(scratch),
        }
    }

    /// Counts `bytes` of index data as read. Placement goes by them: what is not reported is not seen.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Index data read so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nobody waits for the answer any more: the deadline has passed, or the ticket was dropped. Takes some 50 ns,
    /// so ask every few microseconds.
    pub fn should_stop(&self) -> bool {
        self.wanted.is_some_and(|wanted| !wanted.is_wanted())
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

    /// The domain of the worker that runs this; `None` outside an executor.
    pub fn domain(&self) -> Option<DomainId> {
        self.place.map(|place| place.domain)
    }

    /// The NUMA node of that domain, by the operating system's number; `None` outside an executor.
    pub fn node(&self) -> Option<u32> {
        self.place.map(|place| place.node)
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
            .field("bytes", &self.bytes)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
