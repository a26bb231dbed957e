//! Memory that builds take for a while, within the limit of points and indexes.
//!
//! A build has the rows twice, and an index that nobody has counted yet. It asks for all of that before it begins. What
//! does not fit beside other builds waits for them; what does not fit alone is not built.

use parking_lot::{Condvar, Mutex};

use super::point::stored_bytes;
use super::rows::View;
use super::schema::{Distance, IndexKind, Settings};
use crate::memory::Budget;

/// What a build takes at its peak, beside what its collection has already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Need {
    bytes: u64,
    /// It leaves less than there was. Without it the memory of what was deleted would never come back, so it may go
    /// over the limit where there is no room beside.
    frees: bool,
}

impl Need {
    /// An estimate: of what is written while the build runs nothing is known.
    pub(crate) fn of(view: &View, settings: &Settings) -> Self {
        let copies = view.live as u64 * stored_bytes(view.dim, 0);
        let index = match has_index(view.live, settings) {
            true => index_bytes(view.live, view.dim, &settings.index),
            false => 0,
        };
        // The index scales a copy of its own to length 1.
        let scaled = match settings.distance {
            Distance::Cosine if index > 0 => vector_bytes(view.live, view.dim),
            _ => 0,
        };
        let dead = view.dead.len();
        let forgotten = dead as u64 * stored_bytes(view.dim, 0) + view.base.index_bytes;
        Self {
            bytes: copies + index + scaled,
            // Copying all for a few dead rows is not worth the risk.
            frees: forgotten > index && dead >= (view.live + dead) / 5,
        }
    }

    /// What to say where there is too little.
    pub(crate) fn refusal(&self, limit: u64) -> String {
        let bytes = self.bytes;
        format!(
            "a build takes about {bytes} bytes more for a while, beyond the memory limit of {limit} bytes; delete points, or raise limits.memory_bytes"
        )
    }
}

/// Whether so many points get an index.
pub(crate) fn has_index(rows: usize, settings: &Settings) -> bool {
    settings.index != IndexKind::Flat
        && vector_bytes(rows, settings.dim) >= settings.full_scan_bytes
        && rows >= settings.index.fewest_points()
}

/// What an index over `rows` rows takes. hnsw_rs allocates each link by itself, 48 bytes and a pointer, and some 500 bytes for
/// each point besides its vector; a point of the ground layer has up to twice M links. Lists hold a code and an id for
/// each point, and have a centroid each.
pub(crate) fn index_bytes(rows: usize, dim: usize, kind: &IndexKind) -> u64 {
    match kind {
        IndexKind::Hnsw { m, .. } => vector_bytes(rows, dim) + (rows * (500 + 56 * 2 * m)) as u64,
        IndexKind::Ivf { nlist, code, .. } => {
            let parts = code.strip_prefix("PQ").and_then(|parts| {
                let parts = parts.strip_suffix("x4fs").unwrap_or(parts);
                parts.parse::<usize>().ok()
            });
            let code = match parts {
                Some(parts) => parts,
                None if code == "SQ8" => dim,
                None => dim * size_of::<f32>(),
            };
            (rows * (code + 8)) as u64 + vector_bytes(lists(*nlist, rows), dim)
        }
        IndexKind::Flat => 0,
    }
}

/// The lists of an index over `rows` rows. Faiss trains on 39 rows a list at least; a small collection gets fewer.
pub(crate) fn lists(nlist: usize, rows: usize) -> usize {
    nlist.min((rows / 39).max(1))
}

fn vector_bytes(rows: usize, dim: usize) -> u64 {
    (rows * dim * size_of::<f32>()) as u64
}

/// Hands out memory to builds.
#[derive(Default)]
pub(crate) struct Allowance {
    /// Builds that have some.
    running: Mutex<usize>,
    ended: Condvar,
}

impl Allowance {
    /// Takes what a build needs from `budget`, once other builds have left enough; `None` if that is never enough.
    pub(crate) fn take<'a>(&'a self, budget: &'a Budget, need: &Need) -> Option<Loan<'a>> {
        let mut running = self.running.lock();
        while !budget.try_take(need.bytes) {
            if *running == 0 {
                if !need.frees {
                    return None;
                }
                budget.take(need.bytes);
                break;
            }
            self.ended.wait(&mut running);
        }
        *running += 1;
        Some(Loan {
            allowance: self,
            budget,
            bytes: need.bytes,
        })
    }
}

/// Memory of a build that runs; given back when it is dropped.
pub(crate) struct Loan<'a> {
    allowance: &'a Allowance,
    budget: &'a Budget,
    bytes: u64,
}

impl Loan<'_> {
    /// Leaves a part of it to the collection, which counts that itself from now on.
    pub(crate) fn leave(&mut self, bytes: u64) {
        let part = bytes.min(self.bytes);
        self.bytes -= part;
        self.budget.give_back(part);
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut running = self.allowance.running.lock();
        self.budget.give_back(self.bytes);
        *running -= 1;
        self.allowance.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::point::PointId;
    use super::*;

    fn need(bytes: u64, frees: bool) -> Need {
        Need { bytes, frees }
    }

    #[test]
    fn a_build_that_does_not_fit_is_refused_unless_it_frees_memory() {
        let (allowance, budget) = (Allowance::default(), Budget::new(10));
        budget.take(5);
        assert!(allowance.take(&budget, &need(6, false)).is_none());
        assert_eq!(budget.used(), 5);
        let mut fits = allowance.take(&budget, &need(5, false)).unwrap();
        fits.leave(2);
        assert_eq!(budget.used(), 8);
        drop(fits);
        assert_eq!(budget.used(), 5);
        drop(allowance.take(&budget, &need(6, true)).unwrap());
        assert_eq!(budget.used(), 5);
    }

    #[test]
    fn what_fits_alone_waits_for_other_builds() {
        let (allowance, budget) = (Allowance::default(), Budget::new(10));
        let first = allowance.take(&budget, &need(6, false)).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| allowance.take(&budget, &need(7, false)).is_some());
            drop(first);
            assert!(waits.join().unwrap());
        });
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_a_build_needs_is_rows_index_and_for_cosine_the_vectors_once_more() {
        let settings = |distance, index| Settings {
            dim: 4,
            distance,
            index,
            full_scan_bytes: 10 * 16,
            rebuild_bytes: 0,
            metadata: BTreeMap::new(),
            fields: BTreeMap::new(),
        };
        let mut edit = View::new(4, Distance::Euclid.metric()).edit();
        for id in 0..10 {
            edit.push(PointId::Number(id), &[0.0; 4], [1, 2, 3].into(), id);
        }
        let view = edit.finish();
        let hnsw = || IndexKind::Hnsw {
            m: 16,
            ef_construct: 100,
        };
        let (copies, graph) = (10 * (16 + 112), 10 * (16 + 500 + 56 * 32));
        let of = |view: &View, distance, index| Need::of(view, &settings(distance, index));
        for (distance, index, bytes) in [
            (Distance::Euclid, IndexKind::Flat, copies),
            (Distance::Euclid, hnsw(), copies + graph),
            (Distance::Cosine, hnsw(), copies + graph + 160),
        ] {
            assert_eq!(of(&view, distance, index), need(bytes, false));
        }
        // Below the size of an index only the rows are copied; to forget a fifth of them is worth it.
        let mut edit = view.edit();
        edit.kill(0);
        let view = edit.finish();
        let copies = 9 * (16 + 112);
        assert_eq!(of(&view, Distance::Cosine, hnsw()), need(copies, false));
        let mut edit = view.edit();
        edit.kill(1);
        let view = edit.finish();
        let copies = 8 * (16 + 112);
        assert_eq!(of(&view, Distance::Cosine, hnsw()), need(copies, true));
    }
}
