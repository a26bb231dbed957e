//! The scan of some lists: the first `k` rows by distance, then id, out of a library that orders by distance
//! alone.
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

use chiplet_executor::{Neighbor, Probe, SearchError, Table, Work, merge_nearest};

use super::IvfTable;
use super::ffi::Scanner;

/// Rows asked for beyond `k` at first. One would show that there is no tie, which is the rule; a few more
/// spare the second scan where there is a small one.
const SPARE_ROWS: usize = 4;

/// Rows asked for at most. Ties of this many rows are no accident but copies of one vector.
fn most_rows(k: usize) -> usize {
    k.saturating_mul(4).saturating_add(1024)
}

/// The `k` nearest rows of `probes` to the prepared `query`, ascending. The first probe must begin a grain.
pub(super) fn nearest(
    table: &IvfTable,
    k: usize,
    query: &[f32],
    probes: &[Probe],
    work: &mut Work,
) -> Result<Vec<Neighbor>, SearchError> {
    let k = k.min(table.len());
    if k == 0 {
        return Ok(Vec::new());
    }
    let scanner = table.ivf.scanner();
    let mut scan = Scan {
        table,
        k,
        query,
        scanner,
        work,
    };
    let mut parts = Vec::with_capacity(1);
    for lists in probes.chunks(table.ivf.width()) {
        if let Some(hits) = scan.in_order(lists)? {
            parts.push(hits);
        } else if table.by_grain {
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
    Ok(merge_nearest(k, parts))
}

/// One query's scans.
struct Scan<'a> {
    table: &'a IvfTable,
    k: usize,
    query: &'a [f32],
    scanner: Scanner<'a>,
    work: &'a mut Work,
}

impl Scan<'_> {
    /// The nearest rows of `lists`: the k-th, all as near as that, and perhaps more. `None` if those are too
    /// many.
    fn in_order(&mut self, lists: &[Probe]) -> Result<Option<Vec<Neighbor>>, SearchError> {
        let most = most_rows(self.k).min(self.table.len());
        let mut wanted = self.k.saturating_add(SPARE_ROWS).min(most);
        loop {
            let hits = self.rows(lists, wanted)?;
            let all_found = hits.len() < wanted || wanted == self.table.len();
            let past_ties = match (hits.get(self.k - 1), hits.last()) {
                (Some(kth), Some(last)) => kth.distance < last.distance,
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
        self.work.add_bytes(bytes);
        let table = self.table;
        let lists = lists
            .iter()
            .map(|probe| (probe.list, table.centroid_distance(probe.distance)));
        self.scanner
            .run(self.query, lists, wanted)
            .map_err(SearchError::Backend)
            .map(|found| {
                found
                    .map(|(id, faiss)| Neighbor {
                        id: id as u64,
                        distance: table.reported(faiss),
                    })
                    .collect()
            })
    }
}
