//! A query's way through a frozen graph: down the layers, a walk over the ground, perhaps re-ranking.
//!
//! # Filters
//!
//! With a filter the walk goes through all rows and keeps the allowed ones, until `ef` of them are nearer than anything
//! it could go on from: recall is that of a search without a filter at the same `ef`. That follows the links of about
//! `ef / share` rows, where `share` of the rows are allowed. A scan compares `share * n` rows. Whichever is expected to
//! cost less is done; a walk that turns out dearer than the scan, because the allowed rows are far away from the query,
//! is given up for it.
//!
//! Under the inner product such a walk also follows `backlinks`, as the links alone do not lead to short rows.

use std::cell::RefCell;

use chiplet_table::hnsw_query_bytes;
use chiplet_table::{Context, Filter, Neighbor, Query, SearchError};

use super::format::{Prepared, RowDistances, RowFormat};
use super::frozen::Frozen;
use super::observe::{ObservedLayer, ObservedRows, Part, Read};
use super::packed::PackedLayer;
use super::walk::{Distances as _, Layer, Scratch};
use crate::kernel::Span;
use crate::nearest::Nearest;
use crate::poll;

/// What a thread keeps from one search to the next, so that none allocates: as much as its largest search needed.
#[derive(Default)]
pub(super) struct Searcher {
    /// The query's vector, prepared for the metric.
    vector: Vec<f32>,
    query: Prepared,
    full: Prepared,
    scratch: Scratch,
    nodes: Vec<u32>,
    distances: Vec<f32>,
    /// The answer.
    hits: Vec<Neighbor>,
    /// Bytes of the second copy's rows that the search has read.
    full_bytes: u64,
}

/// How much a query asks for: `1 <= k <= ef <= rows`.
pub(super) struct Size {
    pub(super) k: usize,
    pub(super) ef: usize,
    /// Whether that is so much that a scan of all rows is cheaper than a walk.
    pub(super) scans: bool,
}

thread_local! {
    static SEARCHER: RefCell<Searcher> = RefCell::default();
}

/// Runs `search` with this thread's searcher. A search within it, as a filter may start one, gets one of its own.
pub(super) fn with_searcher<T>(search: impl FnOnce(&mut Searcher) -> T) -> T {
    SEARCHER.with(|kept| {
        // If `search` panics, the next one begins with a new searcher.
        let mut searcher = kept.take();
        let found = search(&mut searcher);
        kept.replace(searcher);
        found
    })
}

/// Rows that a walk compares for each node it follows, about: of 32 links some 10 lead to nodes not met before.
/// Measured, as the next two, on GloVe 399,000 x 50, M = 16, bitmaps that allow 0.3 to 50 % of the rows, ef 10 to 160:
/// with them the cheaper way was taken each time, or one within a tenth of it.
const COMPARED_A_STEP: f64 = 10.0;

/// What a scan takes for each row that the filter refuses, and for each that it allows, to a row that a walk compares:
/// the processor fetches ahead of a scan.
const SCAN_REFUSED: f64 = 0.03;
const SCAN_ALLOWED: f64 = 0.6;

/// The fewest candidates for which a search without a filter may be a scan. A walk pays more for each the more it
/// keeps: for 8,000 of 100,000 rows of 16 dimensions it takes as long as a scan, for 12,000 1.3 times, for 50,000 3.3
/// times.
const MANY: usize = 1000;

/// Distances from `query` to the rows that a walk compares.
#[inline]
fn walked<'a>(query: &'a Prepared, graph: &'a Frozen) -> RowDistances<'a> {
    query.to(graph.meta.rows, graph.meta.metric, graph.rows())
}

/// Candidates that a walk for `k` rows keeps.
fn kept(graph: &Frozen, k: usize, ef: usize) -> usize {
    match graph.full() {
        Some(_) => RowFormat::kept(k, ef),
        None => ef,
    }
}

impl Searcher {
    /// Answers `query` by itself; what was read goes into `context`.
    pub(super) fn search(
        &mut self,
        graph: &Frozen,
        query: &Query,
        context: &mut Context,
    ) -> Result<&[Neighbor], SearchError> {
        let Some(size) = self.prepare(graph, query)? else {
            return Ok(&[]);
        };
        let Size { k, ef, scans } = size;
        let found = match query.requested_filter() {
            None if scans => false,
            None => {
                self.begin(graph, k, ef);
                let mut steps = 0;
                let each = poll::steps(graph.rows().stride(), graph.meta.followed_a_step());
                let mut settled = graph
                    .full()
                    .map(|_| graph.meta.rows.reranked(k).min(ef - ef / 4));
                while self.advance(graph) {
                    self.compare(graph);
                    if settled.is_some_and(|settled| self.scratch.pool.followed() >= settled) {
                        settled = None;
                        self.prefetch_full(graph, k);
                    }
                    steps += 1;
                    if steps % each == 0 && context.should_stop() {
                        self.end(graph, k);
                        return Err(SearchError::Stopped);
                    }
                }
                self.end(graph, k)
            }
            Some(filter) => {
                let plan = Plan::of(graph, filter, ef);
                plan.walks
                    && self.walk_where(graph, ef, filter, plan.budget, context)
                    && self.found(graph, k, Some(filter))
            }
        };
        self.answer(graph, query, k, found, context)
    }

    /// Hints that the candidates to compare once more are about those in the pool: the nearest have been followed, so
    /// few others will come before them. Their rows arrive while the walk goes on.
    fn prefetch_full(&self, graph: &Frozen, k: usize) {
        if let Some((_, rows)) = graph.full() {
            let candidates = self.scratch.pool.iter().take(graph.meta.rows.reranked(k));
            candidates.for_each(|(_, node)| rows.prefetch(node as usize, rows.stride()));
        }
    }

    /// Checks the query and takes what of it a search needs. `None` if nothing is asked for or nothing is there.
    ///
    /// # Errors
    /// What [`Table::search`](chiplet_table::Table::search) refuses.
    pub(super) fn prepare(
        &mut self,
        graph: &Frozen,
        query: &Query,
    ) -> Result<Option<Size>, SearchError> {
        let meta = &graph.meta;
        query.check(meta.dim)?;
        meta.metric
            .prepare_query_into(query.vector(), &mut self.vector)?;
        self.scratch.computed = 0;
        self.full_bytes = 0;
        let rows = graph.nodes();
        let k = query.k().min(rows);
        let usual = || meta.ef.max(meta.rows.least_ef(k));
        let ef = query.requested_ef().unwrap_or_else(usual).max(k).min(rows);
        let scans = ef >= MANY && walk_rows(ef, 1.0) > SCAN_ALLOWED * rows as f64;
        Ok((k > 0).then_some(Size { k, ef, scans }))
    }

    /// Begins a walk for `k` rows with `ef` candidates. After it [`Searcher::advance`] and [`Searcher::compare`] take
    /// turns until there is nothing to advance to; then [`Searcher::end`].
    pub(super) fn begin(&mut self, graph: &Frozen, k: usize, ef: usize) {
        let entry = self.descend(graph);
        let distances = walked(&self.query, graph);
        self.scratch
            .begin(&graph.ground(), &distances, entry, ef, kept(graph, k, ef));
    }

    #[inline]
    pub(super) fn advance(&mut self, graph: &Frozen) -> bool {
        self.scratch.advance(&graph.ground())
    }

    /// Hints that [`Searcher::compare`] comes next.
    #[inline]
    pub(super) fn prefetch(&self, graph: &Frozen) {
        let distances = walked(&self.query, graph);
        self.scratch.prefetch(&distances);
    }

    #[inline]
    pub(super) fn compare(&mut self, graph: &Frozen) {
        let distances = walked(&self.query, graph);
        self.scratch.compare(&graph.ground(), &distances);
    }

    /// Whether the walk found `k` rows: fewer if links do not lead to so many from the entry. No `ef` finds the others.
    pub(super) fn end(&mut self, graph: &Frozen, k: usize) -> bool {
        self.scratch.end(&graph.ground());
        self.found(graph, k, None)
    }

    /// Whether what a walk left in the pool are `k` rows, with those that are equal to one of them.
    fn found(&self, graph: &Frozen, k: usize, filter: Option<&Filter>) -> bool {
        let pool = &self.scratch.pool;
        pool.len() >= k
            || graph.has_copies() && {
                let rows = pool
                    .iter()
                    .flat_map(|(_, node)| same(graph, node, k, filter));
                rows.take(k).count() == k
            }
    }

    /// The nearest `k` rows: of those that a walk left in the pool, if it `found` enough; else of all.
    pub(super) fn answer(
        &mut self,
        graph: &Frozen,
        query: &Query,
        k: usize,
        found: bool,
        context: &mut Context,
    ) -> Result<&[Neighbor], SearchError> {
        if found {
            self.collect(graph, k, query.requested_filter());
        } else {
            self.scan(graph, query, k, context)?;
        }
        self.hits.retain(|hit| query.reaches(hit.distance));
        let walked = hnsw_query_bytes(
            self.scratch.computed,
            graph.rows().stride() as u64,
            (graph.meta.link_bytes * graph.meta.stride) as u64,
        );
        context.add_bytes(walked + self.full_bytes);
        Ok(&self.hits)
    }

    /// The nodes whose full rows the last [`Searcher::answer`] to a walk that found enough has compared, nearest first.
    pub(super) fn reranked(&self) -> &[u32] {
        &self.nodes
    }

    /// Leaves the `ef` nearest rows that `filter` allows in the pool; `false` if more than `budget` would be compared,
    /// or nobody waits for them.
    fn walk_where(
        &mut self,
        graph: &Frozen,
        ef: usize,
        filter: &Filter,
        budget: usize,
        context: &Context,
    ) -> bool {
        let entry = self.descend(graph);
        let distances = walked(&self.query, graph);
        let ids = graph.ids();
        let allows = |node| {
            filter.allows(ids.at(node as usize))
                || graph.has_copies()
                    && graph
                        .copies(node)
                        .any(|copy| filter.allows(ids.at(copy as usize)))
        };
        let ground = Widened {
            ground: graph.ground(),
            graph,
        };
        let wanted = || !context.should_stop();
        let each = poll::steps(graph.rows().stride(), 1);
        self.scratch.walk_where(
            &ground,
            &distances,
            entry,
            ef,
            allows,
            budget,
            (each, wanted),
        )
    }

    /// Prepares the query, and goes down the upper layers to where a walk over the ground begins; it also begins at
    /// node 0, from which links lead to every row.
    fn descend(&mut self, graph: &Frozen) -> [u32; 2] {
        let meta = &graph.meta;
        self.query
            .set(&self.vector, meta.rows, meta.metric, graph.grids());
        let distances = walked(&self.query, graph);
        let entry = self.scratch.enter(graph.upper(), &distances, meta.one_look);
        [entry, 0]
    }

    /// A walk as [`Searcher::begin`] to [`Searcher::end`] make it, which tells `observer` what it reads.
    pub(super) fn walk_observed(
        &mut self,
        graph: &Frozen,
        k: usize,
        ef: usize,
        observer: &dyn Fn(Read),
    ) -> bool {
        let meta = &graph.meta;
        self.query
            .set(&self.vector, meta.rows, meta.metric, graph.grids());
        let distances = ObservedRows {
            distances: walked(&self.query, graph),
            stride: graph.rows().stride() as u32,
            observer,
        };
        let scratch = &mut self.scratch;
        let layers = graph.upper().zip(graph.upper_offsets());
        let layers = layers.map(|(layer, start)| ObservedLayer {
            layer,
            part: Part::Upper,
            start,
            stride: (meta.link_bytes * meta.stride) as u32,
            observer,
        });
        let entry = scratch.enter(layers, &distances, meta.one_look);
        let ground = ObservedLayer {
            layer: graph.ground(),
            part: Part::Links,
            start: 0,
            stride: (meta.link_bytes * meta.ground_stride) as u32,
            observer,
        };
        scratch.walk(&ground, &distances, [entry, 0], ef, kept(graph, k, ef));
        self.found(graph, k, None)
    }

    /// The `k` nearest of the pool and of the rows that are equal to those, by the full rows if there are any.
    fn collect(&mut self, graph: &Frozen, k: usize, filter: Option<&Filter>) {
        let meta = &graph.meta;
        let ids = graph.ids();
        let filter = filter.filter(|_| graph.has_copies());
        let neighbors = |(distance, node)| {
            same(graph, node, k, filter).map(move |node| Neighbor {
                id: ids.at(node as usize),
                distance: meta.metric.reported(distance),
            })
        };
        let candidates = self.scratch.pool.iter();
        let compared = graph.full().map_or(k, |_| meta.rows.reranked(k));
        for (_, node) in candidates.clone().take(compared) {
            ids.prefetch(node as usize);
        }
        let hits = &mut self.hits;
        hits.clear();
        match graph.full() {
            None => {
                // All as near as the k-th, so that ties are decided by id.
                let reported = |(distance, _): (f32, u32)| meta.metric.reported(distance);
                let kth = candidates.clone().nth(k - 1).map(reported);
                let near = |&row: &(f32, u32)| kth.is_none_or(|kth| reported(row) <= kth);
                hits.extend(candidates.take_while(near).flat_map(neighbors));
            }
            Some((format, rows)) => {
                self.full
                    .set(&self.vector, format, meta.metric, graph.grids());
                self.nodes.clear();
                self.nodes
                    .extend(candidates.take(compared).map(|(_, node)| node));
                self.distances.resize(self.nodes.len(), 0.0);
                let distances = self.full.to(format, meta.metric, rows);
                distances.to(&self.nodes, &mut self.distances);
                self.full_bytes += (self.nodes.len() * rows.stride()) as u64;
                let nodes = self.nodes.iter().copied();
                let pairs = self.distances.iter().copied().zip(nodes);
                hits.extend(pairs.flat_map(neighbors));
            }
        }
        hits.sort_unstable();
        hits.truncate(k);
    }

    /// The `k` nearest of all rows that `query` allows, ascending.
    fn scan(
        &mut self,
        graph: &Frozen,
        query: &Query,
        k: usize,
        context: &Context,
    ) -> Result<(), SearchError> {
        let meta = &graph.meta;
        let (format, rows) = graph.full().unwrap_or((meta.rows, graph.rows()));
        self.full
            .set(&self.vector, format, meta.metric, graph.grids());
        let distances = self.full.to(format, meta.metric, rows);
        let ids = graph.ids();
        let mut nearest = Nearest::within(k, std::mem::take(&mut self.hits));
        let nodes = graph.nodes();
        let (block, between) = poll::blocks(rows.stride());
        for start in (0..nodes).step_by(block) {
            if start % between == 0 {
                context.check()?;
            }
            let span = Span {
                start,
                end: (start + block).min(nodes),
            };
            self.nodes.clear();
            self.nodes.extend(span.start as u32..span.end as u32);
            if let Some(filter) = query.requested_filter() {
                self.nodes
                    .retain(|&node| filter.allows(ids.at(node as usize)));
            }
            self.distances.resize(self.nodes.len(), 0.0);
            if self.nodes.len() == span.end - span.start {
                distances.compute(span, &mut self.distances);
            } else {
                distances.to(&self.nodes, &mut self.distances);
            }
            match graph.full() {
                Some(_) => self.full_bytes += (self.nodes.len() * rows.stride()) as u64,
                None => self.scratch.computed += self.nodes.len() as u64,
            }
            for (&node, &distance) in self.nodes.iter().zip(&self.distances) {
                nearest.offer(Neighbor {
                    id: ids.at(node as usize),
                    distance: meta.metric.reported(distance),
                });
            }
        }
        self.hits = nearest.into_sorted();
        Ok(())
    }
}

/// `node` and the nodes whose rows are equal to its own, of those that `filter` allows, if there is one; of the others
/// at most `k`, by id.
fn same<'a>(
    graph: &'a Frozen,
    node: u32,
    k: usize,
    filter: Option<&'a Filter>,
) -> impl Iterator<Item = u32> + 'a {
    let ids = graph.ids();
    let allowed =
        move |node: &u32| filter.is_none_or(|filter| filter.allows(ids.at(*node as usize)));
    let copies = graph.has_copies().then(|| graph.copies(node));
    let copies = copies.into_iter().flatten();
    let first = std::iter::once(node).filter(allowed);
    first.chain(copies.filter(allowed).take(k))
}

/// The ground as a walk through a filter follows it.
struct Widened<'a> {
    ground: PackedLayer<'a>,
    graph: &'a Frozen,
}

impl Layer for Widened<'_> {
    fn nodes(&self) -> usize {
        self.ground.nodes()
    }

    fn step(&self) -> usize {
        self.ground.step()
    }

    fn links(&self, node: u32) -> impl Iterator<Item = u32> {
        self.ground.links(node).chain(self.graph.backlinks(node))
    }

    fn prefetch(&self, node: u32) {
        self.ground.prefetch(node);
    }
}

/// Rows that a walk compares, about, where a filter allows this `share` of all.
fn walk_rows(ef: usize, share: f64) -> f64 {
    COMPARED_A_STEP * ef as f64 / share
}

/// Whether a search with a filter walks or scans.
struct Plan {
    walks: bool,
    /// Rows that a walk may compare before a scan is cheaper.
    budget: usize,
}

impl Plan {
    fn of(graph: &Frozen, filter: &Filter, ef: usize) -> Self {
        let nodes = graph.nodes();
        let share = graph.ids().allowed(filter, nodes);
        let scan = nodes as f64 * (SCAN_REFUSED * (1.0 - share) + SCAN_ALLOWED * share);
        Self {
            walks: walk_rows(ef, share) < scan,
            budget: (2.0 * scan) as usize,
        }
    }
}
