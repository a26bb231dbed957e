//! What a search needs on its way, kept by each thread for its next one: in the steady state a search allocates its answer
//! and nothing else.

use std::cell::Cell;

use super::best::Best;
use crate::kernel::Tables;

/// Buffers of one query.
#[derive(Default)]
pub(super) struct Scratch {
    /// The query, as the metric compares it.
    pub(super) query: Vec<f32>,
    /// Lists that it visits.
    pub(super) nprobe: usize,
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

/// Rows, and lists, that buffers keep room for between searches: 1 MiB each.
const KEPT: usize = 1 << 16;

thread_local! {
    static KEPT_BY_THREAD: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Calls `search` with this thread's buffers. They are taken out meanwhile: a filter that searches itself gets others.
pub(super) fn with<T>(search: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = KEPT_BY_THREAD.take().unwrap_or_default();
    let found = search(&mut scratch);
    scratch.best.shrink(KEPT);
    scratch.nearest_lists.shrink(KEPT);
    scratch.visits.clear();
    scratch.visits.shrink_to(KEPT);
    KEPT_BY_THREAD.set(Some(scratch));
    found
}
