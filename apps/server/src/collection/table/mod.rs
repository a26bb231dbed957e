//! A collection as the executor sees it: one table, whose index changes under it.
//!
//! Each query carries an [`Ask`]: the view that it shall search. The index answers for the base; delta blocks, and the
//! whole view where the query is exact or there is no index, are scanned. All of them are probes of one query, so
//! that the executor can hand them to several cores of the collection's home: an IVF query's lists, then the blocks.

use std::ops::Range;
use std::sync::Arc;

use chiplet::index::Nearest;
use chiplet::table::merge_nearest;
use chiplet::{Context, Filter, Neighbor, Probe, Query, SearchError, SplitTable, Table};
use parking_lot::Mutex;
use tracing::Span;

use super::refined::candidates;
use super::rows::{View, block_rows};
use super::schema::Settings;
use crate::telemetry::QUERY;

/// Probes with this bit are blocks to be scanned; the others are the index's own.
const BLOCK: u64 = 1 << 63;

/// The probe that stands for an index that cannot be split.
const WHOLE: u64 = 1 << 62;

/// Rows that are asked for beside the `k` wanted, at least, where rows are dead.
const FEWEST_MORE: usize = 16;

/// Rows that a filter lets through which are read one by one rather than looked for in lists: beside a filter of as
/// few, which lists they are in hardly matters, and reading them takes as long as scanning some lists.
const FEW_MATCHES: u64 = 5_000;

/// Matching rows that lists are visited for, at most: as many are kept sorted.
const MOST_SOUGHT: u64 = 16_384;

/// Rows whose distances are computed in one call: enough that the call costs nothing beside them, few enough for the
/// stack.
const AT_ONCE: usize = 256;

/// What goes along with a query.
pub(crate) struct Ask {
    pub(crate) view: Arc<View>,
    /// Scan everything.
    pub(crate) exact: bool,
    /// Leave out what the index does not have.
    pub(crate) indexed_only: bool,
    pub(crate) spans: Spans,
}

/// A query's spans. `request` is the parent; `queue` ends when a worker takes the query up.
pub(crate) struct Spans {
    request: Span,
    queue: Mutex<Option<Span>>,
}

/// A span of a step of a query.
macro_rules! step {
    ($request:expr, $name:literal) => {
        tracing::debug_span!(target: QUERY, parent: $request, $name)
    };
}

impl Spans {
    pub(crate) fn under(request: Span) -> Self {
        let queue = (!request.is_disabled()).then(|| step!(&request, "queue"));
        Self {
            request,
            queue: Mutex::new(queue),
        }
    }

    /// Runs a step of the query in a span of its own; nothing but that if nobody listens.
    fn step<T>(&self, span: impl FnOnce(&Span) -> Span, code: impl FnOnce() -> T) -> T {
        if self.request.is_disabled() {
            return code();
        }
        drop(self.queue.lock().take());
        span(&self.request).in_scope(code)
    }
}

/// The executor's table of a collection. Its rows are in the queries' views.
pub(crate) struct CollectionTable {
    dim: usize,
}

impl CollectionTable {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { dim: settings.dim }
    }

    fn ask(query: &Query) -> Result<&Ask, SearchError> {
        query.attachment().ok_or_else(|| {
            SearchError::Backend("the query carries no view of its collection".into())
        })
    }
}

impl Ask {
    /// The index, if this query may use it.
    fn index(&self) -> Option<&dyn Table> {
        match self.exact {
            true => None,
            false => self.view.base.index.as_deref(),
        }
    }

    /// Lists whose scans find candidates, by codes, for their merge to compare. A filter's are compared as they are
    /// found: its query is not cut.
    fn unmerged(&self, query: &Query) -> Option<&dyn SplitTable> {
        let coded = self.view.base.coded && query.requested_filter().is_none();
        self.index().filter(|_| coded)?.as_split()
    }

    fn first_block(&self) -> usize {
        match self.index() {
            Some(_) => self.view.base.blocks.len(),
            None => 0,
        }
    }

    fn block_probes(&self, from: usize) -> impl Iterator<Item = Probe> + '_ {
        let indexed = self.view.base.index.as_ref();
        let end = match self.indexed_only {
            true => indexed.map_or(0, |_| self.view.base.blocks.len()),
            false => self.view.blocks(),
        };
        (from..end).map(|block| Probe {
            list: BLOCK | block as u64,
            distance: 0.0,
            cost_bytes: (self.view.block(block).len() * self.view.dim * size_of::<f32>()) as u64,
        })
    }

    /// What an index of lists is asked with a filter: nothing if the rows that match are read one by one.
    ///
    /// Lists are visited by place, so a filter that goes with the place may have no row in the nearest of them. Rows
    /// that are no more than a query without a filter would look at are read; of more, lists are visited until they had
    /// as large a part of the matching rows as that query's have of all rows.
    fn in_lists(
        &self,
        query: &Query,
        filter: &Filter,
        lists: &dyn SplitTable,
        context: &mut Context,
    ) -> Result<Option<Probe>, SearchError> {
        let matches = filter.count().unwrap_or(u64::MAX);
        if matches <= FEW_MATCHES {
            return Ok(None);
        }
        let sought = self.sought(query, matches, lists, context)?;
        // That part of all rows.
        let rows = sought.saturating_mul(self.view.base.rows as u64) / matches;
        if matches <= rows {
            return Ok(None);
        }
        Ok(Some(Probe {
            list: WHOLE,
            distance: 0.0,
            cost_bytes: rows * (self.view.dim * size_of::<f32>()) as u64,
        }))
    }

    /// Rows that its lists have to find for `k` results: of codes more, as the nearest by codes are not the nearest
    /// rows.
    fn candidates(&self, k: usize) -> usize {
        match self.view.base.coded {
            true => candidates(k),
            false => k,
        }
    }

    /// Matching rows that are worth visiting lists for.
    fn sought(
        &self,
        query: &Query,
        matches: u64,
        lists: &dyn SplitTable,
        context: &mut Context,
    ) -> Result<u64, SearchError> {
        let usual = lists.coarse(query, context)?.len() as u64;
        let all = lists
            .coarse(&query.clone().nprobe(usize::MAX), context)?
            .len() as u64;
        let part = matches.saturating_mul(usual) / all.max(1);
        let fewest = self.candidates(query.k()) as u64;
        Ok(part.min(MOST_SOUGHT).max(fewest))
    }

    /// The nearest matching rows of the lists, which are visited until they had enough of them.
    fn visit(
        &self,
        query: &Query,
        lists: &dyn SplitTable,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let filter = query.requested_filter();
        let matches = filter.and_then(Filter::count).unwrap_or(u64::MAX);
        let sought = self.sought(query, matches, lists, context)? as usize;
        let all = lists.coarse(&query.clone().nprobe(usize::MAX), context)?;
        let many = query.clone().top(sought);
        let (mut found, mut visited) = (Vec::new(), 0);
        let mut next = lists.coarse(query, context)?.len().max(1);
        while visited < all.len() && found.len() < sought {
            context.check()?;
            let end = all.len().min(visited + next);
            let more = lists.scan(&many, &all, visited..end, context)?;
            found = merge_nearest(sought, vec![found, more]);
            (visited, next) = (end, next.saturating_mul(2));
        }
        lists.merge(query, vec![found], context)
    }

    /// The nearest `wanted` live rows that the index finds, for the `k` of the query. Dead rows may crowd out live
    /// ones, so more are asked for, until there are enough or the index has no more; `None` if it would have to be
    /// asked for more than `most`.
    fn live(
        &self,
        query: &Query,
        wanted: usize,
        most: usize,
        mut search: impl FnMut(&Query) -> Result<Vec<Neighbor>, SearchError>,
    ) -> Result<Option<Vec<Neighbor>>, SearchError> {
        let k = query.k();
        // A filter lets through live rows only.
        if self.view.dead_in_base == 0 || query.requested_filter().is_some() {
            return search(query).map(Some);
        }
        let rows = self.view.base.rows;
        let mut more = k.saturating_add(self.view.dead_in_base.min(k.max(FEWEST_MORE)));
        while more <= most {
            let ef = query.requested_ef().map(|ef| ef.saturating_add(more - k));
            let mut wider = query.clone().top(more);
            if let Some(ef) = ef {
                wider = wider.ef(ef);
            }
            let mut found = search(&wider)?;
            let all = found.len() < more || more >= rows;
            found.retain(|hit| !self.view.dead.contains(hit.id as u32));
            if all || found.len() >= wanted {
                found.truncate(wanted);
                return Ok(Some(found));
            }
            more = more.saturating_mul(2);
        }
        Ok(None)
    }

    /// The nearest live rows that a graph finds. Beside many dead rows it is walked so widely that a scan is cheaper.
    fn walk(
        &self,
        query: &Query,
        index: &dyn Table,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let k = query.k();
        let most = widest_walk(self.view.base.rows, k);
        if let Some(found) = self.live(query, k, most, |query| index.search(query, context))? {
            return Ok(found);
        }
        let mut nearest = Nearest::new(query.k().min(self.view.base.rows));
        for number in 0..self.view.base.blocks.len() {
            self.scan_block(query, number, &mut nearest, context);
        }
        Ok(nearest.into_sorted())
    }

    fn scan_block(
        &self,
        query: &Query,
        number: usize,
        nearest: &mut Nearest,
        context: &mut Context,
    ) {
        let view = &*self.view;
        let block = view.block(number);
        let mut row = view.first_row(number);
        let filter = query.requested_filter();
        if let Some(filter) = filter
            && is_narrow(filter, view)
        {
            return scan_few(view, query, filter, number, nearest, context);
        }
        // A filter lets through live rows only.
        let allowed = |row: u32| match filter {
            Some(filter) => filter.allows(u64::from(row)),
            None => !view.dead.contains(row),
        };
        let mut distances = [0.0; AT_ONCE];
        for rows in block.vectors(view.dim).chunks(AT_ONCE * view.dim) {
            let distances = &mut distances[..rows.len() / view.dim];
            // Of dead rows too: asking first would cost more than it saves.
            view.metric.distances_to(query.vector(), rows, distances);
            for &mut distance in distances {
                if allowed(row) {
                    nearest.offer(Neighbor {
                        id: u64::from(row),
                        distance,
                    });
                }
                row += 1;
            }
        }
        context.add_bytes((block.len() * view.dim * size_of::<f32>()) as u64);
    }
}

/// Whether a filter lets through so few rows that they are looked at one by one.
fn is_narrow(filter: &Filter, view: &View) -> bool {
    filter
        .count()
        .is_some_and(|count| count < u64::from(view.end()) / 8)
}

/// Scans the rows of a block that a filter lets through, and reads no other.
fn scan_few(
    view: &View,
    query: &Query,
    filter: &Filter,
    number: usize,
    nearest: &mut Nearest,
    context: &mut Context,
) {
    let (block, first) = (view.block(number), view.first_row(number));
    let rows = (first..).zip(block.vectors(view.dim).chunks_exact(view.dim));
    let mut scanned = 0;
    for (row, vector) in rows.filter(|&(row, _)| filter.allows(u64::from(row))) {
        scanned += 1;
        nearest.offer(Neighbor {
            id: u64::from(row),
            distance: view.metric.distance(query.vector(), vector),
        });
    }
    context.add_bytes((scanned * view.dim * size_of::<f32>()) as u64);
}

impl Table for CollectionTable {
    fn dim(&self) -> usize {
        self.dim
    }

    /// Zero: a collection grows and shrinks; its traffic is measured, its size is in the view.
    fn len(&self) -> usize {
        0
    }

    fn size_bytes(&self) -> u64 {
        0
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        self.search_whole(query, context)
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for CollectionTable {
    fn coarse(&self, query: &Query, context: &mut Context) -> Result<Vec<Probe>, SearchError> {
        query.check(self.dim)?;
        let ask = Self::ask(query)?;
        ask.spans.step(
            |request| step!(request, "coarse"),
            || {
                let mut first = ask.first_block();
                let mut probes = match ask.index() {
                    None => Vec::new(),
                    Some(index) => match (index.as_split(), query.requested_filter()) {
                        (Some(lists), Some(filter)) => {
                            let probe = ask.in_lists(query, filter, lists, context)?;
                            if probe.is_none() {
                                first = 0;
                            }
                            probe.into_iter().collect()
                        }
                        (Some(split), None) => split.coarse(query, context)?,
                        (None, _) => vec![Probe {
                            list: WHOLE,
                            distance: 0.0,
                            cost_bytes: graph_cost(query, self.dim),
                        }],
                    },
                };
                probes.extend(ask.block_probes(first));
                Ok(probes)
            },
        )
    }

    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let ask = Self::ask(query)?;
        ask.spans.step(
            |request| step!(request, "scan"),
            || {
                let indexed = probes.partition_point(|probe| probe.list & BLOCK == 0);
                let mut parts = Vec::new();
                if unit.start < indexed
                    && let Some(index) = ask.index()
                {
                    let lists = unit.start..unit.end.min(indexed);
                    parts.push(match index.as_split() {
                        Some(split) if query.requested_filter().is_some() => {
                            ask.visit(query, split, context)?
                        }
                        // Its lists are scanned whole, however many rows are asked for.
                        Some(split) => ask
                            .live(query, ask.candidates(query.k()), usize::MAX, |query| {
                                split.scan(query, &probes[..indexed], lists.clone(), context)
                            })?
                            .unwrap_or_default(),
                        None => ask.walk(query, index, context)?,
                    });
                    // The index numbers its rows from 0 without the gaps between blocks; the base has none.
                }
                let blocks = unit.start.max(indexed)..unit.end;
                if !blocks.is_empty() {
                    let rows = probes[blocks.clone()].len() * block_rows(self.dim);
                    let mut nearest = Nearest::new(query.k().min(rows));
                    for probe in &probes[blocks] {
                        let number = (probe.list & !BLOCK) as usize;
                        ask.scan_block(query, number, &mut nearest, context);
                    }
                    parts.push(nearest.into_sorted());
                }
                Ok(match ask.unmerged(query) {
                    // Distances of codes and of rows have no order. Candidates come first.
                    Some(_) => parts.concat(),
                    None => merge_nearest(query.k(), parts),
                })
            },
        )
    }

    fn merge(
        &self,
        query: &Query,
        mut parts: Vec<Vec<Neighbor>>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let ask = Self::ask(query)?;
        ask.spans.step(
            |request| step!(request, "merge"),
            || {
                if let Some(lists) = ask.unmerged(query) {
                    // Blocks of the base are not scanned beside its index.
                    let base = ask.view.base.rows as u64;
                    let cut = |part: &mut Vec<Neighbor>| {
                        let scanned = part.partition_point(|hit| hit.id < base);
                        part.split_off(scanned)
                    };
                    let scanned: Vec<_> = parts.iter_mut().map(cut).collect();
                    let exact = lists.merge(query, parts, context)?;
                    parts = scanned;
                    parts.push(exact);
                }
                Ok(merge_nearest(query.k(), parts))
            },
        )
    }
}

/// Rows that a graph may be asked for to find `k` live ones. A walk looks at some tens of rows for each that it is
/// asked for, here and there, so that beyond a small part of all rows reading them one after the other takes no longer.
fn widest_walk(rows: usize, k: usize) -> usize {
    (rows / 32).max(k.max(FEWEST_MORE).saturating_mul(16))
}

/// About what a graph walk reads: a vector and some tens of links for each of a few times `ef` visits. It only has to
/// keep the splitter from putting the walk and many blocks into one unit.
fn graph_cost(query: &Query, dim: usize) -> u64 {
    let ef = query.requested_ef().unwrap_or(64).max(query.k());
    8 * ef as u64 * (dim * size_of::<f32>() + 64) as u64
}

#[cfg(test)]
mod tests;
