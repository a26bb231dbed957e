//! What the executor asks of a vector table: one trait to be searched, one more to be split.
//!
//! The executor knows no index library. [`Table::search`] answers a whole query on one core. A table
//! that also implements [`SplitTable`] has its queries cut into scan units that run on several cores of
//! the same domain: `coarse` names the lists to visit and what each costs, `scan` visits some of them,
//! `merge` combines the answers. `merge(scan(a), scan(b), ..)` must equal `search`, however the lists
//! were cut.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::Class;

use crate::context::Context;
use crate::filter::Filter;
use crate::sync;

/// One nearest-neighbour query: a vector and how thoroughly to look.
///
/// An executor may limit what one query can ask for ([`QueryLimits`](crate::QueryLimits)); it has no limits by default.
///
/// ```
/// use chiplet_executor::Query;
/// let query = Query::new([0.1, 0.2, 0.3]).top(5).ef(64);
/// assert_eq!(query.vector().len(), 3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    vector: Vec<f32>,
    top: usize,
    // Small, as a refused query is moved back to its sender whole: the smaller, the better.
    ef: Asked,
    nprobe: Asked,
    radius: Option<f32>,
    filter: Option<Filter>,
    deadline: Option<Instant>,
    class: Option<Class>,
    attachment: Option<Attachment>,
}

/// A number that was asked for or not, in four bytes: one more than the number, or 0.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Asked(u32);

impl Asked {
    fn new(number: usize) -> Self {
        // The largest is as good as any larger one: more than any table has rows or lists.
        Self(u32::try_from(number).map_or(u32::MAX, |number| number.saturating_add(1)))
    }

    fn get(self) -> Option<usize> {
        self.0.checked_sub(1).map(|number| number as usize)
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// What a caller sends along with a query; equal only to itself.
#[derive(Clone)]
struct Attachment(Arc<dyn Any + Send + Sync>);

impl PartialEq for Attachment {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl Query {
    /// Neighbours returned when [`Query::top`] is not called, as in most vector databases.
    pub const DEFAULT_TOP: usize = 10;

    /// A query for the [`Query::DEFAULT_TOP`] nearest neighbours of `vector`. Pass a `Vec` to hand it over
    /// without a copy.
    pub fn new(vector: impl Into<Vec<f32>>) -> Self {
        Self {
            vector: vector.into(),
            top: Self::DEFAULT_TOP,
            ef: Asked::default(),
            nprobe: Asked::default(),
            radius: None,
            filter: None,
            deadline: None,
            class: None,
            attachment: None,
        }
    }

    /// How many neighbours to return (k). More than the table holds returns all it holds; 0 is refused
    /// with [`SearchError::ZeroTop`].
    #[must_use]
    pub fn top(mut self, k: usize) -> Self {
        self.top = k;
        self
    }

    /// Candidate list length of a graph search (HNSW `ef`). Below `top` it counts as `top`; without it the
    /// table's own default holds. Tables without a graph ignore it.
    #[must_use]
    pub fn ef(mut self, ef: usize) -> Self {
        self.ef = Asked::new(ef);
        self
    }

    /// Inverted lists to visit (IVF `nprobe`). More than the table has visits all; 0 is refused with
    /// [`SearchError::ZeroProbes`]; without it the table's own default holds. Tables without lists ignore it.
    #[must_use]
    pub fn nprobe(mut self, nprobe: usize) -> Self {
        self.nprobe = Asked::new(nprobe);
        self
    }

    /// Returns only rows at most `distance` away, as the table reports distances (squared for L2, `1 - cos` for cosine,
    /// the negated product for inner products), and at most `top` of them. NaN is refused with [`SearchError::NoRadius`].
    #[must_use]
    pub fn radius(mut self, distance: f32) -> Self {
        self.radius = Some(distance);
        self
    }

    /// Returns only rows that `filter` allows: the nearest of those.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// The instant after which an answer is worthless: the ticket resolves to [`Error::Expired`](crate::Error::Expired)
    /// then, if there is no answer yet, whatever its worker does. The search itself ends when its table next asks
    /// ([`Context::check`]), as the built-in ones do every 10 to 50 us, or before its next scan unit.
    #[must_use]
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    /// [`Query::deadline`], counted from now.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        let now = sync::now();
        // A span too long for the clock means "no deadline".
        match now.checked_add(time) {
            Some(at) => self.deadline(at),
            None => self,
        }
    }

    /// How urgent the query is. Without it, what its table's tasks are
    /// ([`TableOptions::class`](crate::TableOptions::class)), which is interactive unless said otherwise.
    ///
    /// ```
    /// use chiplet_executor::{Class, Query};
    /// let nightly = Query::new([0.1, 0.2]).class(Class::Bulk);
    /// assert_eq!(nightly.requested_class(), Some(Class::Bulk));
    /// ```
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// Sends `attachment` along, for a table of your own to read with [`Query::attachment`]: the snapshot it shall
    /// search, a filter, where to report to. The executor does not look at it, and keeps it until the query has ended; a
    /// later call replaces an earlier one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use chiplet_executor::Query;
    ///
    /// struct OnlyEven;
    /// let query = Query::new([0.5]).attach(Arc::new(OnlyEven));
    /// assert!(query.attachment::<OnlyEven>().is_some());
    /// assert!(query.attachment::<u64>().is_none());
    /// ```
    #[must_use]
    pub fn attach<T: Any + Send + Sync>(mut self, attachment: Arc<T>) -> Self {
        self.attachment = Some(Attachment(attachment));
        self
    }

    /// What was sent along, if it is a `T`.
    pub fn attachment<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.attachment.as_ref()?.0.downcast_ref()
    }

    /// The query vector, `[dim]`.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// Neighbours asked for (k).
    pub fn k(&self) -> usize {
        self.top
    }

    /// The `ef` asked for, if any.
    pub fn requested_ef(&self) -> Option<usize> {
        self.ef.get()
    }

    /// The `nprobe` asked for, if any.
    pub fn requested_nprobe(&self) -> Option<usize> {
        self.nprobe.get()
    }

    /// The radius asked for, if any.
    pub fn requested_radius(&self) -> Option<f32> {
        self.radius
    }

    /// The filter to apply, if any.
    pub fn requested_filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// Whether the query's filter lets the row `id` be returned.
    #[inline]
    pub fn allows(&self, id: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.allows(id))
    }

    /// Whether a row at `distance` is within the query's radius.
    #[inline]
    pub fn reaches(&self, distance: f32) -> bool {
        self.radius.is_none_or(|radius| distance <= radius)
    }

    /// The class asked for, if any.
    pub fn requested_class(&self) -> Option<Class> {
        self.class
    }

    /// When the answer becomes worthless, if ever.
    pub fn expires(&self) -> Option<Instant> {
        self.deadline
    }

    /// The checks that every table owes its caller: dimension, finite components, `k >= 1`, `nprobe >= 1`, a radius that
    /// is a number.
    ///
    /// # Errors
    /// [`SearchError::WrongDimension`], [`SearchError::NotFinite`], [`SearchError::ZeroTop`],
    /// [`SearchError::ZeroProbes`], [`SearchError::NoRadius`].
    pub fn check(&self, dim: usize) -> Result<(), SearchError> {
        if self.vector.len() != dim {
            return Err(SearchError::WrongDimension {
                expected: dim,
                got: self.vector.len(),
            });
        }
        if let Some(position) = self.vector.iter().position(|x| !x.is_finite()) {
            return Err(SearchError::NotFinite {
                position,
                value: self.vector[position],
            });
        }
        if self.top == 0 {
            return Err(SearchError::ZeroTop);
        }
        if self.nprobe.get() == Some(0) {
            return Err(SearchError::ZeroProbes);
        }
        if self.radius.is_some_and(f32::is_nan) {
            return Err(SearchError::NoRadius);
        }
        Ok(())
    }
}

/// A found vector. Ordered by distance, then by id, so that equal distances have one order everywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// The id the vector was stored under.
    pub id: u64,
    /// Distance to the query: smaller is nearer, in every metric (inner product is negated).
    pub distance: f32,
}

impl Eq for Neighbor {}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Neighbor {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then(self.id.cmp(&other.id))
    }
}

/// A vector table that answers a whole query on the calling thread.
pub trait Table: Send + Sync + 'static {
    /// Components of each vector.
    fn dim(&self) -> usize;

    /// Vectors stored.
    fn len(&self) -> usize;

    /// Whether nothing is stored. A search of an empty table finds nothing and is no error.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory the table's index occupies, in bytes, as well as it is known.
    fn size_bytes(&self) -> u64;

    /// The NUMA node that holds the index's memory, if it is one and known. Asked when the table is added or replaced, on
    /// machines with several packages: its home is near that memory, as long as load and caches allow.
    fn node(&self) -> Option<u32> {
        None
    }

    /// The nearest neighbours of `query`, ascending; what was read goes into `context`.
    ///
    /// # Errors
    /// Whatever [`Query::check`] refuses, and what the index itself reports.
    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError>;

    /// As [`Table::search`] for each of `queries`, with equal answers in their order; one answer a query. For a table
    /// that gains from having several at once, such as lists that are read once for all queries that visit them.
    fn search_batch(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Vec<Result<Vec<Neighbor>, SearchError>> {
        let search = |query| self.search(query, context);
        queries.iter().map(search).collect()
    }

    /// How many queries a call of [`Table::search_batch`] should have, at most. The executor looks at tickets and
    /// deadlines between calls, and a panic fails the queries of its call: with 1, the default, that is one query.
    fn batch_size(&self) -> usize {
        1
    }

    /// This table as one whose queries can be split, if they can.
    fn as_split(&self) -> Option<&dyn SplitTable> {
        None
    }
}

/// An inverted list that a query will visit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// The list's number in its index.
    pub list: u64,
    /// Distance from the query to the list's centroid.
    pub distance: f32,
    /// What scanning the list reads, in bytes.
    pub cost_bytes: u64,
}

/// A table whose query can be cut into scan units.
pub trait SplitTable: Table {
    /// The lists `query` will visit, nearest first, with their costs.
    ///
    /// # Errors
    /// As [`Table::search`].
    fn coarse(&self, query: &Query, context: &mut Context) -> Result<Vec<Probe>, SearchError>;

    /// How many neighbouring probes are always scanned together. Units are cut at multiples of it,
    /// which keeps answers independent of how the query was cut.
    fn grain(&self) -> usize {
        1
    }

    /// The nearest neighbours within `probes[unit]`, ascending, at most `query.k()`. `unit` starts at a
    /// multiple of [`SplitTable::grain`] and ends at one or at `probes.len()`.
    ///
    /// # Errors
    /// As [`Table::search`].
    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError>;

    /// Combines the answers of all units. The default keeps the `query.k()` nearest, ties broken by id.
    fn merge(&self, query: &Query, parts: Vec<Vec<Neighbor>>) -> Vec<Neighbor> {
        merge_nearest(query.k(), parts)
    }

    /// The whole query on the calling thread, as one unit: a [`Table::search`] that answers as a split query does.
    ///
    /// # Errors
    /// As [`Table::search`].
    fn search_whole(
        &self,
        query: &Query,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let probes = self.coarse(query, context)?;
        let part = self.scan(query, &probes, 0..probes.len(), context)?;
        Ok(self.merge(query, vec![part]))
    }
}

/// The `k` nearest of several answers, ascending, ties broken by id.
pub fn merge_nearest(k: usize, parts: Vec<Vec<Neighbor>>) -> Vec<Neighbor> {
    let mut all: Vec<Neighbor> = parts.into_iter().flatten().collect();
    if all.len() > k && k > 0 {
        all.select_nth_unstable(k - 1);
    }
    all.truncate(k);
    all.sort_unstable();
    all
}

/// Why a table could not answer a query.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The query vector has the wrong number of components.
    #[error("the query has {got} components, the table's vectors have {expected}")]
    WrongDimension {
        /// Components of the table's vectors.
        expected: usize,
        /// Components of the query.
        got: usize,
    },
    /// A component of the query is NaN or infinite.
    #[error("component {position} of the query is {value}; every component must be finite")]
    NotFinite {
        /// Index of the first such component.
        position: usize,
        /// Its value.
        value: f32,
    },
    /// The query is so long that its distances do not fit in an `f32`.
    #[error("the query's norm is {norm:e}; over {limit:e} distances overflow f32, scale it down")]
    TooLong {
        /// Euclidean norm of the query.
        norm: f64,
        /// The largest norm the table accepts.
        limit: f64,
    },
    /// `top(0)`.
    #[error("top(0) asks for no neighbours; ask for at least one")]
    ZeroTop,
    /// `nprobe(0)`.
    #[error("nprobe(0) visits no list; ask for at least one")]
    ZeroProbes,
    /// `radius(NaN)`.
    #[error("radius(NaN) is no distance; leave it out to ask for rows at any distance")]
    NoRadius,
    /// The search was given up: [`Context::check`](crate::Context::check) said that nobody waits for it any more.
    #[error("the search was stopped, as nobody waits for its answer any more")]
    Stopped,
    /// The index has not been trained.
    #[error("the index is not trained; train it before it is searched")]
    Untrained,
    /// The index library reported an error.
    #[error("the index failed: {0}")]
    Backend(String),
}
