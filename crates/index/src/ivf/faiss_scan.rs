//! Scans by Faiss, for codes that this crate does not read itself.
//!
//! **Invariant: an answer is the `k` first rows of all lists visited, ordered by distance, then id**, however its units
//! were cut. Of equally distant rows Faiss keeps those that it met first. Therefore:
//!
//! 1. A call asks for more than `k` rows until its last one is farther away than the k-th. Then all rows up to there
//!    are known, and are put in order.
//! 2. With very many equally distant rows this ends at [`most_rows`]. Then each list is scanned alone in the same way.
//!    If that exceeds the bound too, the list gives `k` rows in Faiss' order, which depends on the list alone.
//!
//! Let `d` be the distance of the answer's k-th row. All nearer rows are returned. A list with more rows at exactly `d`
//! than the bound gives its own fixed order in every call that contains it; any other list's rows come in order of id.
//!
//! With a filter calls are repeated for twice as many rows until enough are allowed.
//!
//! Three traps of Faiss:
//!
//! * Residual fast-scan (`PQ<m>x4fsr`) scales its 8-bit tables to all lists of a call. So calls of fast-scan are always
//!   the same runs of [`grain`](chiplet_table::SplitTable::grain) lists.
//! * `search_preassigned` reads `nprobe` from the index. It is set once; shorter calls end with lists -1.
//! * Searches write global statistics without synchronisation. `faiss.cpp` passes statistics of the call's own;
//!   fast-scan indexes write the global ones all the same.

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
