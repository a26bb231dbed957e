//! What the executor asks of a vector table: one trait to be searched, one more to be split.
//!
//! The executor knows no index library. [`Table::search`] answers a whole query on one core. A table
//! that also implements [`SplitTable`] has its queries cut into scan units that run on several cores of
//! the same domain: `coarse` names the lists to visit and what each costs, `scan` visits some of them,
//! `merge` combines the answers. `merge(scan(a), scan(b), ..)` must equal `search`, however the lists
//! were cut.

use std::ops::Range;
use std::sync::Arc;

use crate::context::Context;
use crate::error::SearchError;
use crate::neighbor::{Neighbor, merge_nearest};
use crate::query::Query;

/// The function that [`Table::search_each`] calls with each query's number and answer.
pub type TakeAnswer<'a> = dyn FnMut(usize, Result<&[Neighbor], SearchError>) + 'a;

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

    /// The NUMA nodes that hold the index's memory, each with how many bytes; empty, the default, if that is not known.
    /// Asked when the table is added or replaced, on machines with several packages: its first home is near that
    /// memory, as long as load and caches allow.
    fn residence(&self) -> Vec<(u32, u64)> {
        Vec::new()
    }

    /// A copy of this table that answers alike and has its memory on these NUMA nodes: on one, or spread evenly over
    /// several. With it a table's memory follows its home from socket to socket. The default, `None`: this table is not
    /// copied.
    ///
    /// `pace` is told before each piece, of a few MiB at most, how many bytes are copied next, and takes its time. With
    /// `false` the copy is not wanted any more: `None`.
    ///
    /// # Errors
    /// Whatever keeps the copy from being made; this table stays as it is.
    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        let _ = (nodes, pace);
        Ok(None)
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

    /// As [`Table::search_batch`], for a caller that keeps the answers in a place of its own: each is given to
    /// `answer`, once, with its query's number in `queries`, in any order. A table whose scratch can hold an answer
    /// gives it from there, so that many queries take no allocation each. The default hands on what
    /// [`Table::search_batch`] returns, or [`Table::search`] of one query.
    ///
    /// ```
    /// use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
    ///
    /// /// One number.
    /// struct Number(f32);
    ///
    /// impl Table for Number {
    ///     fn dim(&self) -> usize { 1 }
    ///     fn len(&self) -> usize { 1 }
    ///     fn size_bytes(&self) -> u64 { 4 }
    ///     fn search(&self, query: &Query, _: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
    ///         query.check(1)?;
    ///         Ok(vec![Neighbor { id: 0, distance: (self.0 - query.vector()[0]).abs() }])
    ///     }
    /// }
    ///
    /// let queries = [1.0, f32::NAN, 5.0].map(|x| Query::new([x]));
    /// let mut distances = [f32::INFINITY; 3];
    /// Number(3.0).search_each(&queries, &mut Context::default(), &mut |number, found| {
    ///     if let Ok([nearest]) = found {
    ///         distances[number] = nearest.distance;
    ///     }
    /// });
    /// assert_eq!(distances, [2.0, f32::INFINITY, 2.0]);
    /// ```
    fn search_each(&self, queries: &[Query], context: &mut Context, answer: &mut TakeAnswer<'_>) {
        if let [query] = queries {
            match self.search(query, context) {
                Ok(found) => answer(0, Ok(&found)),
                Err(error) => answer(0, Err(error)),
            }
            return;
        }
        for (number, found) in self.search_batch(queries, context).into_iter().enumerate() {
            match found {
                Ok(found) => answer(number, Ok(&found)),
                Err(error) => answer(number, Err(error)),
            }
        }
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

/// What [`Table::copy_to`] makes is a table like any other.
impl<T: Table + ?Sized> Table for Box<T> {
    fn dim(&self) -> usize {
        (**self).dim()
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }

    fn residence(&self) -> Vec<(u32, u64)> {
        (**self).residence()
    }

    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        (**self).copy_to(nodes, pace)
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        (**self).search(query, context)
    }

    fn search_batch(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Vec<Result<Vec<Neighbor>, SearchError>> {
        (**self).search_batch(queries, context)
    }

    fn search_each(&self, queries: &[Query], context: &mut Context, answer: &mut TakeAnswer<'_>) {
        (**self).search_each(queries, context, answer);
    }

    fn batch_size(&self) -> usize {
        (**self).batch_size()
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        (**self).as_split()
    }
}

/// What can be passed as a table: a table, or an `Arc` of one that the caller keeps too.
pub trait IntoTable {
    /// The table, which may have other owners.
    fn into_table(self) -> Arc<dyn Table>;
}

impl<T: Table> IntoTable for T {
    fn into_table(self) -> Arc<dyn Table> {
        Arc::new(self)
    }
}

impl<T: Table> IntoTable for Arc<T> {
    fn into_table(self) -> Arc<dyn Table> {
        self
    }
}

impl IntoTable for Arc<dyn Table> {
    fn into_table(self) -> Arc<dyn Table> {
        self
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

    /// Combines the answers of all units, once for each query: the one place for what needs all of them, such as
    /// comparing the candidates of all units with exact rows. What it reads goes into `context`. The default keeps the
    /// `query.k()` nearest, ties broken by id.
    ///
    /// # Errors
    /// As [`Table::search`].
    fn merge(
        &self,
        query: &Query,
        parts: Vec<Vec<Neighbor>>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let _ = context;
        Ok(merge_nearest(query.k(), parts))
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
        self.merge(query, vec![part], context)
    }
}
