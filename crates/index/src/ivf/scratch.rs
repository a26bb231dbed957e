//! What a search needs on its way, kept by each thread for its next one: in the steady state a search allocates its
//! answer and nothing else.

use std::cell::Cell;

use chiplet_table::Neighbor;

use super::best::Best;
use crate::exact::Compared;
use crate::kernel::Tables;

/// Buffers of one query.
#[derive(Default)]
pub(super) struct Scratch {
    /// The query, as the metric compares it.
    pub(super) query: Vec<f32>,
    /// How many lists are ranked to find those that it visits.
    pub(super) ranked: usize,
    /// Whether its filter allows so few rows that all of them are compared.
    pub(super) few: bool,
    /// The query before it is mapped, where it is.
    pub(super) given: Vec<f32>,
    /// The query, as a list's codes are compared with it.
    pub(super) shifted: Vec<f32>,
    /// What products are taken off, whichever list they are of.
    pub(super) start: f32,
    pub(super) tables: Tables,
    pub(super) best: Best,
    pub(super) nearest_lists: Best,
    /// Groups whose lists are looked at.
    pub(super) groups: Vec<u32>,
    /// Lists to visit, nearest first, with their centroids' distances.
    pub(super) visits: Vec<(u32, f32)>,
}

/// Buffers of several queries that are searched together.
#[derive(Default)]
pub(super) struct Several {
    /// One a query, at least.
    pub(super) searches: Vec<Scratch>,
    /// Which query each is of.
    pub(super) numbers: Vec<usize>,
    /// Lists to visit, with the searches that do and their centroids' distances.
    pub(super) visits: Vec<(u32, usize, f32)>,
    /// One answer.
    pub(super) found: Vec<Neighbor>,
    pub(super) compared: Compared,
}

/// Rows, and lists, that buffers keep room for between searches: 1 MiB each.
const KEPT: usize = 1 << 16;

/// The same of each of several queries, and of all their visits.
const KEPT_OF_EACH: usize = KEPT / 64;

thread_local! {
    static KEPT_BY_THREAD: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
    static SEVERAL: Cell<Option<Box<Several>>> = const { Cell::new(None) };
}

/// Calls `search` with this thread's buffers. They are taken out meanwhile: a filter that searches itself gets others.
pub(super) fn with<T>(search: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = KEPT_BY_THREAD.take().unwrap_or_default();
    let found = search(&mut scratch);
    scratch.shrink(KEPT);
    KEPT_BY_THREAD.set(Some(scratch));
    found
}

/// As [`with`], with the buffers for `count` queries.
pub(super) fn with_many(count: usize, search: impl FnOnce(&mut Several)) {
    let mut several = SEVERAL.take().unwrap_or_default();
    if several.searches.len() < count {
        several.searches.resize_with(count, Scratch::default);
    }
    search(&mut several);
    let searches = several.searches.iter_mut();
    searches.for_each(|scratch| scratch.shrink(KEPT_OF_EACH));
    several.visits.clear();
    several.visits.shrink_to(KEPT);
    several.found.clear();
    several.found.shrink_to(KEPT);
    several.compared.shrink(KEPT);
    SEVERAL.set(Some(several));
}

impl Scratch {
    /// Gives back memory beyond room for so many rows, and lists.
    fn shrink(&mut self, kept: usize) {
        self.best.shrink(kept);
        self.nearest_lists.shrink(kept);
        self.visits.clear();
        self.visits.shrink_to(kept);
    }
}
