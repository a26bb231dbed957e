//! What was written while an index was built, brought to the new base.
//!
//! Views are never changed, so all but the last of it is copied from one view after the other while writes go on; only
//! the last round needs the collection's lock.

use std::sync::Arc;

use super::collection::Ids;
use super::rows::{Base, Dead, Row, View};

/// Rows to copy or to mark that are few enough to be done under the lock: well below a millisecond.
const FEW: usize = 1_000;

/// Rounds without the lock. Each is shorter than the one before, unless writes come faster than they can be copied.
const ROUNDS: usize = 8;

/// A new view in the making.
pub(crate) struct CatchUp<'a> {
    /// What the base was built from, and which of its rows.
    from: &'a View,
    kept: &'a [Row],
    view: View,
    ids: Ids,
    /// Rows written since and their copies, ascending.
    copies: Vec<(Row, Row)>,
    /// Rows before this one have been looked at.
    done: Row,
    /// Deaths that have been looked at.
    dead: Arc<Dead>,
}

impl<'a> CatchUp<'a> {
    /// Begins with `base`, built over the rows `kept` of `from`, which `ids` names.
    pub(crate) fn new(from: &'a View, kept: &'a [Row], base: Base, ids: Ids) -> Self {
        Self {
            from,
            kept,
            view: View {
                live: base.rows,
                base,
                ..View::new(from.dim, from.metric)
            },
            ids,
            copies: Vec::new(),
            done: from.end(),
            dead: Arc::clone(&from.dead),
        }
    }

    /// Follows the views that `now` returns until little is left to do.
    pub(crate) fn come_close(&mut self, now: impl Fn() -> Arc<View>) {
        for _ in 0..ROUNDS {
            let now = now();
            if self.behind(&now) <= FEW {
                break;
            }
            self.follow(&now);
        }
    }

    /// Rows of `now` to copy or to mark.
    fn behind(&self, now: &View) -> usize {
        (now.end() - self.done) as usize + (now.dead.len() - self.dead.len())
    }

    /// Catches up with `now`, a later view than the last one.
    pub(crate) fn follow(&mut self, now: &View) {
        let mut edit = self.view.edit();
        // First what died: a point that was overwritten has its id from its new row then.
        for old in now.dead.since(&self.dead) {
            if let Some(row) = self.copy_of(old) {
                edit.kill(row);
                self.ids.remove(&now.stored(old).id);
            }
        }
        for old in (self.done..now.end()).filter(|&row| !now.dead.contains(row)) {
            let stored = now.stored(old);
            let payload = Arc::clone(stored.payload);
            let row = edit
                .push(stored.id, stored.vector, payload, stored.version)
                .expect("no more rows than before");
            self.ids.insert(stored.id, row);
            self.copies.push((old, row));
        }
        self.view = edit.finish();
        self.done = now.end();
        self.dead = Arc::clone(&now.dead);
    }

    /// Where a row's copy is, if it has one.
    fn copy_of(&self, old: Row) -> Option<Row> {
        if old < self.from.end() {
            // The base's rows are the kept ones, without gaps.
            return self.kept.binary_search(&old).ok().map(|row| row as Row);
        }
        let place = self.copies.binary_search_by_key(&old, |&(old, _)| old);
        place.ok().map(|place| self.copies[place].1)
    }

    pub(crate) fn finish(self) -> (View, Ids) {
        (self.view, self.ids)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use chiplet::index::Metric;

    use super::super::point::PointId;
    use super::super::rows::block_rows;
    use super::*;

    /// A few rows make a block.
    const DIM: usize = 8_192;

    /// A collection as its writers see it, and what it should hold: each id's last write.
    struct Written {
        view: View,
        ids: Ids,
        model: BTreeMap<PointId, u64>,
        writes: u64,
        seed: u64,
    }

    impl Written {
        fn random(&mut self, below: u64) -> u64 {
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.seed >> 33) % below
        }

        /// Puts, overwrites and deletes a few of 60 points.
        fn write(&mut self) {
            let mut edit = self.view.edit();
            for _ in 0..self.random(30) {
                let id = PointId::Number(self.random(60));
                let old = if self.random(3) > 0 {
                    self.writes += 1;
                    let payload = self.writes.to_le_bytes().as_slice().into();
                    let vector = [self.writes as f32; DIM];
                    let row = edit.push(id, &vector, payload, self.writes).unwrap();
                    self.model.insert(id, self.writes);
                    self.ids.insert(id, row)
                } else {
                    self.model.remove(&id);
                    self.ids.remove(&id)
                };
                if let Some(old) = old {
                    edit.kill(old);
                }
            }
            self.view = edit.finish();
        }

        /// The base of a build, as `builder::rebuild` makes it.
        fn base(&self) -> (Vec<Row>, Base, Ids) {
            let kept: Vec<Row> = self.view.live_rows().collect();
            let stored = || kept.iter().map(|&row| self.view.stored(row));
            let vectors = stored().flat_map(|stored| stored.vector.to_vec()).collect();
            let ids: Vec<PointId> = stored().map(|stored| stored.id).collect();
            let payloads = stored().map(|stored| Arc::clone(stored.payload)).collect();
            let versions: Vec<u64> = stored().map(|stored| stored.version).collect();
            let base = Base::cut(Arc::new(vectors), DIM, &ids, payloads, &versions);
            (kept, base, ids.into_iter().zip(0..).collect())
        }

        fn check(&self) {
            let (view, dead) = (&self.view, &self.view.dead);
            let named: BTreeMap<PointId, u64> = self
                .ids
                .iter()
                .map(|(&id, &row)| {
                    let stored = view.stored(row);
                    assert_eq!(stored.id, id);
                    assert_eq!(stored.vector, [stored.version as f32; DIM]);
                    assert_eq!(**stored.payload, stored.version.to_le_bytes());
                    assert!(!dead.contains(row));
                    (id, stored.version)
                })
                .collect();
            assert_eq!(named, self.model);
            assert_eq!(view.live, self.model.len());
            assert_eq!(view.live_rows().count(), self.model.len());
            assert_eq!(
                view.base.rows + view.delta_rows(),
                view.live + dead.len(),
                "every row lives or is dead"
            );
            let base_end = (view.base.blocks.len() * block_rows(DIM)) as Row;
            let in_base = (0..base_end).filter(|&row| dead.contains(row)).count();
            assert_eq!(view.dead_in_base, in_base);
        }
    }

    #[test]
    fn writes_between_rounds_are_neither_lost_nor_revived() {
        for seed in 0..40 {
            let mut now = Written {
                view: View::new(DIM, Metric::L2),
                ids: Ids::default(),
                model: BTreeMap::new(),
                writes: 0,
                seed,
            };
            for _build in 0..3 {
                now.write();
                now.write();
                let from = now.view.clone();
                let (kept, base, ids) = now.base();
                let mut catch_up = CatchUp::new(&from, &kept, base, ids);
                for _round in 0..now.random(5) {
                    now.write();
                    catch_up.follow(&now.view);
                    assert_eq!(catch_up.behind(&now.view), 0);
                }
                now.write();
                catch_up.follow(&now.view);
                (now.view, now.ids) = catch_up.finish();
                now.check();
            }
        }
    }

    /// Writers that go on during the copying leave only the latest of their rows for the lock.
    #[test]
    fn most_is_copied_before_the_lock_is_taken() {
        let grown = |view: &View, rows: usize| {
            let mut edit = view.edit();
            for _ in 0..rows {
                let id = PointId::Number(0);
                edit.push(id, &[0.0], Arc::default(), 0).unwrap();
            }
            Arc::new(edit.finish())
        };
        let from = View::new(1, Metric::L2);
        let mut catch_up = CatchUp::new(&from, &[], Base::empty(), Ids::default());
        // Each look finds fewer new rows, as each round is shorter.
        let looks = std::cell::Cell::new(0);
        let views: Vec<Arc<View>> = [64 * FEW, 4 * FEW, FEW / 2]
            .iter()
            .scan(from.clone(), |view, &rows| {
                let next = grown(view, rows);
                *view = View::clone(&next);
                Some(next)
            })
            .collect();
        catch_up.come_close(|| {
            looks.set(looks.get() + 1);
            Arc::clone(&views[looks.get() - 1])
        });
        assert_eq!(catch_up.copies.len(), 68 * FEW);
        assert_eq!(catch_up.behind(&views[2]), FEW / 2);
        // One that never comes close ends all the same.
        let last = std::cell::RefCell::new(Arc::clone(&views[2]));
        catch_up.come_close(|| {
            let next = grown(&last.borrow(), 2 * FEW);
            last.replace(Arc::clone(&next));
            next
        });
        assert_eq!(catch_up.behind(&last.borrow()), 0);
    }
}
