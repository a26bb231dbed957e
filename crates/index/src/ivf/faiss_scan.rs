//! Scans by Faiss, for codes that this crate does not read itself: the first `k` rows by distance, then id, out of a library
//! that orders by distance alone.
//!
//! A scan unit's lists are handed to Faiss in one call (or in several, if they are many). **Invariant: an answer is the `k`
//! first rows of all lists visited, ordered by distance, then id.** That names no unit, so a split search equals an unsplit
//! one exactly, however its units were cut. Faiss does not promise as much: which of several equally distant rows end up
//! last among its `k` depends on the order in which it met them.
//!
//! Faiss is asked for more than `k` rows until its last one is farther away than the k-th; the rows up to
//! there are then all there are, and can be put in order. With very many equally distant rows this would go on
//! for long, so it ends at [`most_rows`], and each list of the call is scanned alone: as above if that
//! succeeds within the same bound, else for its `k` rows in Faiss' order, which depends on the list alone.
//!
//! Why answers still do not depend on how a query was cut: let `d` be the distance of the k-th row of the
//! whole answer. All rows nearer than `d` are in whatever is returned. Rows at exactly `d` are in question
//! only for lists where they are more than fit. If a list alone has more of them than the bound, so has every
//! call that contains it: it always comes to the list's own fixed order. If it has not, its rows come in
//! order of id, whether its call kept within the bound or fell back to its lists.
//!
//! A filter is applied to what Faiss returns, so a call is repeated for twice as many rows until enough of them are
//! allowed, or there are no more.
//!
//! The distance of a row must not depend on the other lists in the call. One kind of code breaks this: the
//! 8-bit tables of residual fast-scan (`PQ<m>x4fsr`) are scaled to all lists of a call. For fast-scan,
//! calls therefore are always the same runs of lists, [`SplitTable::grain`](chiplet_table::SplitTable::grain) each.
//!
//! Two traps of Faiss shape the calls. `nprobe` is a field of the index that `search_preassigned` reads as
//! the number of lists it was passed: it is set once, before the index is shared, and shorter calls are
//! filled up with list -1, which Faiss skips. And through the C interface every search adds to global statistics
//! (`indexIVF_stats`) without synchronisation: a data race, on a cache line that travels between cores. `faiss.cpp`
//! passes statistics of the call's own instead; fast-scan indexes write the global ones all the same.

use chiplet_table::ivf_list_bytes;
use chiplet_table::{Context, Neighbor, Probe, Query, SearchError, merge_nearest};

use super::ffi::{Ivf, Scanner};
use crate::metric::Metric;

/// Rows asked for beyond `k` at first. One would show that there is no tie, which is the rule; a few more
/// spare the second scan where there is a small one.
const SPARE_ROWS: usize = 4;

/// Rows asked for at most. Ties of this many rows are no accident but copies of one vector.
fn most_rows(k: usize) -> usize {
    k.saturating_mul(4).saturating_add(1024)
}

/// A Faiss index that is searched by Faiss.
pub(super) struct FaissLists {
    pub(super) ivf: Ivf,
    pub(super) metric: Metric,
    /// The ids of the rows, where the index has row numbers.
    pub(super) ids: Option<Vec<u64>>,
    /// Whether every call scans exactly one grain.
    pub(super) by_grain: bool,
    /// Bytes of one stored code.
    pub(super) code_bytes: u64,
}

impl FaissLists {
    /// The `k` nearest rows of `probes` to the prepared `vector`, ascending. The first probe must begin a grain.
    pub(super) fn nearest(
        &self,
        query: &Query,
        vector: &[f32],
        probes: &[Probe],
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let k = query.k().min(self.ivf.rows());
        if k == 0 {
            return Ok(Vec::new());
        }
        let mut scan = Scan {
            lists: self,
            k,
            query,
            vector,
            scanner: self.ivf.scanner(),
            context,
        };
        let mut parts = Vec::with_capacity(1);
        for lists in probes.chunks(self.ivf.width()) {
            if let Some(hits) = scan.in_order(lists)? {
                parts.push(hits);
            } else if self.by_grain {
                // The call is always this one, so its own order will do.
                parts.push(scan.rows(lists, k)?);
            } else {
                for list in lists.chunks(1) {
                    let hits = match scan.in_order(list)? {
                        Some(hits) => hits,
                        None => scan.rows(list, k)?,
                    };
                    parts.push(hits);
                }
            }
        }
        let mut answer = merge_nearest(k, parts);
        answer.retain(|hit| query.reaches(hit.distance));
        Ok(answer)
    }

    /// Bytes of the rows of `list`.
    pub(super) fn list_bytes(&self, list: usize) -> u64 {
        ivf_list_bytes(self.ivf.list_len(list) as u64, self.code_bytes)
    }

    /// What Faiss calls a row.
    pub(super) fn id(&self, faiss: i64) -> u64 {
        match &self.ids {
            Some(ids) => ids[faiss as usize],
            None => faiss as u64,
        }
    }

    /// What Faiss calls a distance, in the convention of [`Metric`].
    pub(super) fn reported(&self, faiss: f32) -> f32 {
        self.metric.reported(match self.metric {
            Metric::L2 => faiss,
            Metric::Cosine => 1.0 - faiss,
            // Not -faiss: a product of 0 shall be 0.0, as -0.0 would sort before it.
            Metric::InnerProduct => 0.0 - faiss,
        })
    }
}

/// The centroid distance as a [`Probe`] has it (smaller is nearer) and back: Faiss' own, negated for inner
/// products. It is passed back to Faiss, so nothing may round it.
pub(super) fn centroid_distance(metric: Metric, distance: f32) -> f32 {
    match metric {
        Metric::L2 => distance,
        Metric::Cosine | Metric::InnerProduct => -distance,
    }
}

/// One query's scans.
struct Scan<'a, 'c> {
    lists: &'a FaissLists,
    k: usize,
    query: &'a Query,
    vector: &'a [f32],
    scanner: Scanner<'a>,
    context: &'a mut Context<'c>,
}

impl Scan<'_, '_> {
    /// The nearest rows of `lists`: the k-th, all as near as that, and perhaps more. `None` if those are too
    /// many.
    fn in_order(&mut self, lists: &[Probe]) -> Result<Option<Vec<Neighbor>>, SearchError> {
        let all = self.lists.ivf.rows();
        let filter = self.query.requested_filter();
        let most = match filter {
            Some(_) => all,
            None => most_rows(self.k).min(all),
        };
        let mut wanted = self.k.saturating_add(SPARE_ROWS).min(most);
        loop {
            let mut hits = self.rows(lists, wanted)?;
            let all_found = hits.len() < wanted || wanted == all;
            let last = hits.last().map(|hit| hit.distance);
            if let Some(filter) = filter {
                hits.retain(|hit| filter.allows(hit.id));
            }
            let past_ties = match (hits.get(self.k - 1), last) {
                (Some(kth), Some(last)) => kth.distance < last,
                // Too few are allowed among those found.
                (None, Some(_)) => filter.is_none(),
                _ => true,
            };
            if all_found || past_ties {
                return Ok(Some(hits));
            }
            if wanted == most {
                return Ok(None);
            }
            wanted = wanted.saturating_mul(2).min(most);
        }
    }

    /// The `wanted` nearest rows of `lists`, nearest first, ties in Faiss' order.
    fn rows(&mut self, lists: &[Probe], wanted: usize) -> Result<Vec<Neighbor>, SearchError> {
        let bytes: u64 = lists.iter().map(|probe| probe.cost_bytes).sum();
        if bytes == 0 {
            return Ok(Vec::new());
        }
        self.context.add_bytes(bytes);
        let from = self.lists;
        let lists = lists
            .iter()
            .map(|probe| (probe.list, centroid_distance(from.metric, probe.distance)));
        self.scanner
            .run(self.vector, lists, wanted)
            .map_err(SearchError::Backend)
            .map(|found| {
                found
                    .map(|(id, faiss)| Neighbor {
                        id: from.id(id),
                        distance: from.reported(faiss),
                    })
                    .collect()
            })
    }
}
