//! One nearest-neighbour query, as every table understands it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Class;

use crate::error::SearchError;
use crate::filter::Filter;

/// One nearest-neighbour query: a vector and how thoroughly to look.
///
/// An executor may limit what one query can ask for (its `QueryLimits`); it has no limits by default.
///
/// ```
/// use chiplet_table::Query;
/// let query = Query::new([0.1, 0.2, 0.3]).top(5).ef(64);
/// assert_eq!(query.vector().len(), 3);
/// ```
#[derive(Debug, PartialEq)]
pub struct Query {
    vector: Vec<f32>,
    top: usize,
    // Small, as a refused query is moved back to its sender whole: the smaller, the better.
    ef: Requested,
    nprobe: Requested,
    radius: Option<f32>,
    filter: Option<Filter>,
    deadline: Option<Instant>,
    class: Option<Class>,
    attachment: Option<Attachment>,
}

/// A number that was asked for or not, in four bytes: one more than the number, or 0.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Requested(u32);

impl Requested {
    fn new(number: usize) -> Self {
        // The largest is as good as any larger one: more than any table has rows or lists.
        Self(u32::try_from(number).map_or(u32::MAX, |number| number.saturating_add(1)))
    }

    fn get(self) -> Option<usize> {
        self.0.checked_sub(1).map(|number| number as usize)
    }
}

impl fmt::Debug for Requested {
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

impl Clone for Query {
    fn clone(&self) -> Self {
        self.with_vector(self.vector.clone())
    }

    /// Keeps its vector's memory.
    fn clone_from(&mut self, other: &Self) {
        let mut vector = std::mem::take(&mut self.vector);
        vector.clone_from(&other.vector);
        *self = other.with_vector(vector);
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
            ef: Requested::default(),
            nprobe: Requested::default(),
            radius: None,
            filter: None,
            deadline: None,
            class: None,
            attachment: None,
        }
    }

    /// Asks the same of `vector`.
    fn with_vector(&self, vector: Vec<f32>) -> Self {
        Self {
            vector,
            top: self.top,
            ef: self.ef,
            nprobe: self.nprobe,
            radius: self.radius,
            filter: self.filter.clone(),
            deadline: self.deadline,
            class: self.class,
            attachment: self.attachment.clone(),
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
        self.ef = Requested::new(ef);
        self
    }

    /// Inverted lists to visit (IVF `nprobe`), of those that hold rows. With a [`Filter`] more are visited until they
    /// hold `top` rows that it allows, and all where it allows no more rows than `nprobe` lists hold. More than the
    /// table has visits all; 0 is refused with [`SearchError::ZeroProbes`]; without it the table's own default holds.
    /// Tables without lists ignore it.
    #[must_use]
    pub fn nprobe(mut self, nprobe: usize) -> Self {
        self.nprobe = Requested::new(nprobe);
        self
    }

    /// Returns only rows at most `distance` away, as the table reports distances (squared for L2, `1 - cos` for cosine,
    /// the negated product for inner products), and at most `top` of them. NaN is refused with
    /// [`SearchError::NoRadius`].
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

    /// The instant after which an answer is worthless. If there is no answer by then, the ticket resolves to the error
    /// `Expired`, whatever its worker does. The search itself ends when its table next asks
    /// ([`Context::check`](crate::Context::check)), as the built-in ones do every 10 to 50 us, or before its next scan
    /// unit.
    #[must_use]
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    /// [`Query::deadline`], counted from now.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        let now = Instant::now();
        // A span too long for the clock means "no deadline".
        match now.checked_add(time) {
            Some(at) => self.deadline(at),
            None => self,
        }
    }

    /// How urgent the query is. Without it, what its table's tasks are
    /// (its options), which is interactive unless said otherwise.
    ///
    /// ```
    /// use chiplet_table::{Class, Query};
    /// let nightly = Query::new([0.1, 0.2]).class(Class::Bulk);
    /// assert_eq!(nightly.requested_class(), Some(Class::Bulk));
    /// ```
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// Sends `attachment` along, for a table of your own to read with [`Query::attachment`]: the snapshot it shall
    /// search, a filter, where to report to. The executor does not look at it, and keeps it until the query has ended;
    /// a later call replaces an earlier one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use chiplet_table::Query;
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

    /// Asks the same of another vector, which is copied into the place of the present one: without an allocation, if it
    /// is no longer than any that this query has had.
    ///
    /// ```
    /// use chiplet_table::Query;
    ///
    /// let mut query = Query::new([0.1, 0.2]).top(5);
    /// query.set_vector(&[0.3, 0.4]);
    /// assert_eq!((query.vector(), query.k()), (&[0.3, 0.4][..], 5));
    /// ```
    pub fn set_vector(&mut self, vector: &[f32]) {
        self.vector.clear();
        self.vector.extend_from_slice(vector);
    }

    /// Replaces the filter, or removes it.
    pub fn set_filter(&mut self, filter: Option<Filter>) {
        self.filter = filter;
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

    /// The checks that every table owes its caller: dimension, finite components, `k >= 1`, `nprobe >= 1`, a radius
    /// that is a number.
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
        // All of them before it asks which: a loop without an early end takes many numbers a step.
        if !self.vector.iter().fold(true, |all, x| all & x.is_finite())
            && let Some(position) = self.vector.iter().position(|x| !x.is_finite())
        {
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
