//! A collection as the executor sees it: one table, whose index changes under it.
//!
//! Each query carries an [`Ask`]: the view that it shall search. The index answers for the base; delta blocks, and the
//! whole view where the query is exact or there is no index, are scanned. All of them are probes of one query, so
//! that the executor can hand them to several cores of the collection's home: an IVF query's lists, then the blocks.

use std::ops::Range;
use std::sync::Arc;

use chiplet::index::Nearest;
use chiplet::{Neighbor, Probe, Query, SearchError, SplitTable, Table, Work, merge_nearest};
use parking_lot::Mutex;
use tracing::Span;

use super::rows::{View, block_rows};
use super::schema::Settings;
use crate::telemetry::QUERY;

/// Probes with this bit are blocks to be scanned; the others are the index's own.
const BLOCK: u64 = 1 << 63;

/// The probe that stands for an index that cannot be split.
const WHOLE: u64 = 1 << 62;

/// What goes along with a query.
pub(crate) struct Ask {
    pub(crate) view: Arc<View>,
    /// Scan everything.
    pub(crate) exact: bool,
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
    grain: usize,
}

impl CollectionTable {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            dim: settings.dim,
            grain: settings.index.grain(),
        }
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

    fn first_block(&self) -> usize {
        match self.index() {
            Some(_) => self.view.base.blocks.len(),
            None => 0,
        }
    }

    fn block_probes(&self) -> impl Iterator<Item = Probe> + '_ {
        (self.first_block()..self.view.blocks()).map(|block| Probe {
            list: BLOCK | block as u64,
            distance: 0.0,
            cost_bytes: (self.view.block(block).len() * self.view.dim * size_of::<f32>()) as u64,
        })
    }

    /// The nearest live rows that the index finds. Dead rows may crowd out live ones, so more are asked for, until
    /// there are enough or the index has no more.
    fn live(
        &self,
        query: &Query,
        mut search: impl FnMut(&Query) -> Result<Vec<Neighbor>, SearchError>,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let k = query.k();
        if self.view.dead_in_base == 0 {
            return search(query);
        }
        let rows = self.view.base.rows;
        let mut more = k.saturating_add(self.view.dead_in_base.min(k.max(16)));
        loop {
            let ef = query.requested_ef().map(|ef| ef.saturating_add(more - k));
            let mut wider = query.clone().top(more);
            if let Some(ef) = ef {
                wider = wider.ef(ef);
            }
            let mut found = search(&wider)?;
            let all = found.len() < more || more >= rows;
            found.retain(|hit| !self.view.dead.contains(hit.id as u32));
            if all || found.len() >= k {
                found.truncate(k);
                return Ok(found);
            }
            more = more.saturating_mul(2);
        }
    }

    fn scan_block(&self, query: &Query, number: usize, nearest: &mut Nearest, work: &mut Work) {
        let view = &*self.view;
        let block = view.block(number);
        let first = view.first_row(number);
        for position in 0..block.len() {
            let row = first + position as u32;
            if !view.dead.contains(row) {
                let distance = view
                    .metric
                    .distance(query.vector(), block.vector(position, view.dim));
                nearest.offer(Neighbor {
                    id: u64::from(row),
                    distance,
                });
            }
        }
        work.add_bytes((block.len() * view.dim * size_of::<f32>()) as u64);
    }
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

    fn search(&self, query: &Query, work: &mut Work) -> Result<Vec<Neighbor>, SearchError> {
        self.search_whole(query, work)
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for CollectionTable {
    fn coarse(&self, query: &Query, work: &mut Work) -> Result<Vec<Probe>, SearchError> {
        query.check(self.dim)?;
        let ask = Self::ask(query)?;
        ask.spans.step(
            |request| step!(request, "coarse"),
            || {
                let mut probes = match ask.index() {
                    None => Vec::new(),
                    Some(index) => match index.as_split() {
                        Some(split) => split.coarse(query, work)?,
                        None => vec![Probe {
                            list: WHOLE,
                            distance: 0.0,
                            cost_bytes: graph_cost(query, self.dim),
                        }],
                    },
                };
                probes.extend(ask.block_probes());
                Ok(probes)
            },
        )
    }

    fn grain(&self) -> usize {
        self.grain
    }

    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        work: &mut Work,
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
                    parts.push(ask.live(query, |query| match index.as_split() {
                        Some(split) => split.scan(query, &probes[..indexed], lists.clone(), work),
                        None => index.search(query, work),
                    })?);
                    // The index numbers its rows from 0 without the gaps between blocks; the base has none.
                }
                let blocks = unit.start.max(indexed)..unit.end;
                if !blocks.is_empty() {
                    let rows = probes[blocks.clone()].len() * block_rows(self.dim);
                    let mut nearest = Nearest::new(query.k().min(rows));
                    for probe in &probes[blocks] {
                        let number = (probe.list & !BLOCK) as usize;
                        ask.scan_block(query, number, &mut nearest, work);
                    }
                    parts.push(nearest.into_sorted());
                }
                Ok(merge_nearest(query.k(), parts))
            },
        )
    }

    fn merge(&self, query: &Query, parts: Vec<Vec<Neighbor>>) -> Vec<Neighbor> {
        match Self::ask(query) {
            Ok(ask) => ask.spans.step(
                |request| step!(request, "merge"),
                || merge_nearest(query.k(), parts),
            ),
            Err(_) => merge_nearest(query.k(), parts),
        }
    }
}

/// About what a graph walk reads: a vector and some tens of links for each of a few times `ef` visits. It only has to
/// keep the splitter from putting the walk and many blocks into one unit.
fn graph_cost(query: &Query, dim: usize) -> u64 {
    let ef = query.requested_ef().unwrap_or(64).max(query.k());
    8 * ef as u64 * (dim * size_of::<f32>() + 64) as u64
}
