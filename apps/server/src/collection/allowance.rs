//! Memory that builds take for a while, beside points and indexes.
//!
//! A build has the rows twice, what it works with, and an index that nobody has counted yet (`footprint`). All builds
//! together may take that up to twice the limit of points and indexes, which by default is half of the memory there is.
//! A build asks before it begins: what does not fit beside other builds waits for them; what does not fit alone is not
//! built.

use parking_lot::{Condvar, Mutex};

use super::footprint::{Footprint, has_index, vector_bytes};
use super::point::stored_bytes;
use super::rows::View;
use super::schema::{Distance, Settings};
use crate::memory::Budget;

/// What a build takes, beside what its collection has already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// At its peak.
    bytes: u64,
    /// Of that, what stays.
    index: u64,
    /// What the collection gives back in the end: rows that are dead, and its old index.
    forgotten: u64,
}

impl Need {
    /// An estimate: of what is written while the build runs nothing is known.
    pub(crate) fn of(view: &View, settings: &Settings) -> Self {
        let copies = view.live as u64 * stored_bytes(view.dim, 0);
        let indexed = has_index(view.live, settings);
        let index = match indexed {
            true => Footprint::of(view.live, view.dim, &settings.index),
            false => Footprint::default(),
        };
        // The index scales a copy of its own to length 1.
        let scaled = match settings.distance {
            Distance::Cosine if indexed => vector_bytes(view.live, view.dim),
            _ => 0,
        };
        let dead = view.dead.len() as u64 * stored_bytes(view.dim, 0);
        Self {
            bytes: copies + index.peak + scaled,
            index: index.finished,
            forgotten: dead + view.base.index_bytes,
        }
    }

    /// As without an index.
    pub(crate) fn without_index(view: &View) -> Self {
        Self {
            bytes: view.live as u64 * stored_bytes(view.dim, 0),
            index: 0,
            forgotten: 0,
        }
    }

    /// What to say where there is too little.
    pub(crate) fn refusal(&self, limit: u64) -> String {
        let Self { bytes, index, .. } = self;
        format!(
            "a build takes about {bytes} bytes for a while and {index} for good, which is too much beside what there is with limits.memory_bytes = {limit}; delete points, or raise it"
        )
    }
}

/// Hands out memory to builds.
#[derive(Default)]
pub(crate) struct Allowance {
    running: Mutex<Running>,
    ended: Condvar,
}

/// Builds that have some, and how much.
#[derive(Default)]
struct Running {
    builds: usize,
    bytes: u64,
    /// Of these, what stays.
    indexes: u64,
}

/// Why there is no memory for a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMuch {
    /// Its index does not fit beside points and indexes.
    ForGood,
    /// What it takes while it runs does not fit.
    ForAWhile,
}

impl Allowance {
    /// Takes what a build needs beside what `budget` says is used, once other builds have left enough.
    ///
    /// # Errors
    /// That is never enough.
    pub(crate) fn take(&self, budget: &Budget, need: &Need) -> Result<Loan<'_>, TooMuch> {
        let mut running = self.running.lock();
        loop {
            let (used, limit) = (budget.kept(), budget.limit());
            let stays = used.saturating_add(running.indexes + need.index);
            let peak = used.saturating_add(running.bytes + need.bytes);
            let too_much = if stays > limit.saturating_add(need.forgotten) {
                TooMuch::ForGood
            } else if peak > limit.saturating_mul(2) {
                TooMuch::ForAWhile
            } else {
                break;
            };
            if running.builds == 0 {
                return Err(too_much);
            }
            self.ended.wait(&mut running);
        }
        running.builds += 1;
        running.bytes += need.bytes;
        running.indexes += need.index;
        Ok(Loan {
            allowance: self,
            bytes: need.bytes,
            index: need.index,
        })
    }
}

/// Memory of a build that runs; given back when it is dropped.
pub(crate) struct Loan<'a> {
    allowance: &'a Allowance,
    bytes: u64,
    index: u64,
}

impl Loan<'_> {
    /// Leaves the index to the collection, which counts that itself from now on.
    pub(crate) fn leave_index(&mut self) {
        let index = std::mem::take(&mut self.index);
        self.bytes -= index;
        let mut running = self.allowance.running.lock();
        running.bytes -= index;
        running.indexes -= index;
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut running = self.allowance.running.lock();
        running.bytes -= self.bytes;
        running.indexes -= self.index;
        running.builds -= 1;
        self.allowance.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::point::PointId;
    use super::super::schema::IndexKind;
    use super::*;

    fn need(bytes: u64, index: u64, forgotten: u64) -> Need {
        Need {
            bytes,
            index,
            forgotten,
        }
    }

    #[test]
    fn builds_may_take_as_much_again_but_an_index_has_to_fit() {
        let (allowance, budget) = (Allowance::default(), Budget::new(10));
        budget.take(6);
        let takes = |need| allowance.take(&budget, &need).map(|_| ());
        assert_eq!(takes(need(14, 4, 0)), Ok(()));
        assert_eq!(takes(need(15, 4, 0)), Err(TooMuch::ForAWhile));
        assert_eq!(takes(need(14, 5, 0)), Err(TooMuch::ForGood));
        assert_eq!(takes(need(14, 6, 2)), Ok(()));
        assert_eq!(budget.used(), 6, "what builds take is not in it");
    }

    #[test]
    fn what_fits_alone_waits_for_other_builds() {
        let (allowance, budget) = (Allowance::default(), Budget::new(10));
        let mut first = allowance.take(&budget, &need(12, 4, 0)).unwrap();
        first.leave_index();
        drop(allowance.take(&budget, &need(12, 4, 0)).unwrap());
        drop(first);
        for wants in [need(13, 0, 0), need(11, 8, 0)] {
            let first = allowance.take(&budget, &need(8, 4, 0)).unwrap();
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| allowance.take(&budget, &wants).map(|_| ()));
                drop(first);
                assert_eq!(waits.join().unwrap(), Ok(()));
            });
        }
        let left = allowance.running.lock();
        assert_eq!((left.builds, left.bytes, left.indexes), (0, 0, 0));
    }

    #[test]
    fn what_a_build_needs_is_rows_index_and_for_cosine_the_vectors_once_more() {
        let settings = |distance, index| Settings {
            dim: 4,
            distance,
            index,
            quantization: None,
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
            codes: None,
        };
        let copies = 10 * (16 + 112);
        let Footprint { finished, peak } = Footprint::of(10, 4, &hnsw());
        assert!(0 < finished && finished < peak);
        let of = |view: &View, distance, index| Need::of(view, &settings(distance, index));
        for (distance, index, bytes, stays) in [
            (Distance::Euclid, IndexKind::Flat, copies, 0),
            (Distance::Euclid, hnsw(), copies + peak, finished),
            (Distance::Cosine, hnsw(), copies + peak + 160, finished),
        ] {
            assert_eq!(of(&view, distance, index), need(bytes, stays, 0));
        }
        // Below the size of an index only the rows are copied.
        let mut edit = view.edit();
        edit.kill(0);
        let mut view = edit.finish();
        view.base.index_bytes = 1_000;
        let (copies, dead) = (9 * (16 + 112), 16 + 112);
        assert_eq!(
            of(&view, Distance::Cosine, hnsw()),
            need(copies, 0, 1_000 + dead)
        );
    }
}
