//! One collection: what searches see, where each id is, and what state it is in.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};

use super::builder::Builder;
use super::catch_up::CatchUp;
use super::field_index;
use super::filter::{Condition, Patience, Rows, Scope};
use super::point::{Point, PointId, stored_bytes};
use super::rows::{Base, Row, View};
use super::saved::Saved;
use super::schema::{IndexKind, Settings};
use super::store::{Change, Store};
use super::writer::Queue;
use crate::memory::{Budget, Kept};
use crate::scheduling::Slot;

/// Ordered, so that points can be read page by page.
pub(crate) type Ids = BTreeMap<PointId, Row>;

/// Dead rows that are never worth a rebuild by themselves.
pub(crate) const FEW_DEAD: usize = 1_000;

/// Of all rows one in so many may be dead.
pub(crate) const DEAD_PART: usize = 5;

/// Bytes of rows outside the index that are not worth a build: they are scanned in a few microseconds.
const FEW_LEFTOVERS: u64 = 64 << 10;

pub(crate) struct Collection {
    pub(crate) name: Arc<str>,
    /// Where the scheduler keeps it.
    pub(crate) slot: Slot,
    pub(crate) store: Store,
    /// Where its index is saved.
    pub(super) saved: Option<Saved>,
    pub(crate) writes: Queue,
    /// Set when it is deleted: writes that wait then fail, a build that runs is thrown away.
    pub(crate) deleted: AtomicBool,
    pub(crate) build: BuildState,
    settings: RwLock<Settings>,
    /// Taken to write by writers and by the builder, one after the other; whoever has it may replace the view.
    ids: RwLock<Ids>,
    view: ArcSwap<View>,
    /// The number of the last write.
    version: AtomicU64,
    /// Writes that were taken and not stored, of all collections: clients that do not wait never hear of them.
    pub(crate) failed_writes: Arc<AtomicU64>,
    /// The memory of its points and its index.
    held: Kept,
    /// The memory of its file's cache.
    pub(super) cached: Kept,
}

/// Where the building of its index stands.
#[derive(Default)]
pub(crate) struct BuildState {
    /// It waits in the builder's queue or runs.
    taken: AtomicBool,
    /// `quiet` looks at it again.
    pub(super) watched: AtomicBool,
    /// Milliseconds that the last build took.
    took: AtomicU64,
    /// Why the last build failed.
    failure: Mutex<Option<Failure>>,
}

/// A build that failed, and how many points there were, and rows that are dead.
struct Failure {
    problem: String,
    live: usize,
    dead: usize,
}

impl BuildState {
    /// Whether it waits in the builder's queue or runs. Changes under the lock of that queue.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn set_taken(&self, taken: bool) {
        self.taken.store(taken, Ordering::Relaxed);
    }

    pub(crate) fn took(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.took.store(millis, Ordering::Relaxed);
    }

    pub(crate) fn last_took(&self) -> Duration {
        Duration::from_millis(self.took.load(Ordering::Relaxed))
    }

    pub(crate) fn failed(&self, problem: String, live: usize, dead: usize) {
        *self.failure.lock() = Some(Failure {
            problem,
            live,
            dead,
        });
    }

    pub(crate) fn succeeded(&self) {
        *self.failure.lock() = None;
    }

    pub(crate) fn problem(&self) -> Option<String> {
        let failure = self.failure.lock();
        failure.as_ref().map(|failure| failure.problem.clone())
    }

    /// Whether to try again with so many points and dead rows: what failed may go well with a quarter more points, or
    /// fewer; and as many more dead rows are worth forgetting, with an index or without.
    pub(crate) fn may_try(&self, live: usize, dead: usize) -> bool {
        let failure = self.failure.lock();
        failure.as_ref().is_none_or(|failure| {
            let much = failure.live / 4;
            live.abs_diff(failure.live) > much || dead > failure.dead + much
        })
    }
}

/// What a collection starts from.
pub(crate) struct Content {
    pub(crate) settings: Settings,
    pub(crate) view: View,
    pub(crate) ids: Ids,
    pub(crate) version: u64,
    /// The memory of its points.
    pub(crate) held: Kept,
}

impl Content {
    pub(crate) fn empty(settings: Settings, budget: &Arc<Budget>) -> Self {
        Self {
            view: View::new(settings.dim, settings.distance.metric()),
            ids: Ids::default(),
            version: 0,
            settings,
            held: Kept::new(budget),
        }
    }
}

impl Collection {
    pub(crate) fn new(
        name: Arc<str>,
        slot: Slot,
        store: Store,
        saved: Option<Saved>,
        content: Content,
        failed_writes: Arc<AtomicU64>,
    ) -> Self {
        Self {
            name,
            slot,
            saved,
            writes: Queue::default(),
            deleted: AtomicBool::new(false),
            build: BuildState::default(),
            settings: RwLock::new(content.settings),
            ids: RwLock::new(content.ids),
            view: ArcSwap::from_pointee(content.view),
            version: AtomicU64::new(content.version),
            failed_writes,
            cached: {
                let cached = Kept::new(content.held.budget());
                cached.set(store.cached_bytes());
                cached
            },
            store,
            held: content.held,
        }
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.read().clone()
    }

    /// Dimension and distance never change, so that requests need no copy of the rest.
    pub(crate) fn with_settings<T>(&self, look: impl FnOnce(&Settings) -> T) -> T {
        look(&self.settings.read())
    }

    /// The view, and where each id is in it.
    pub(crate) fn with_rows<T>(&self, look: impl FnOnce(Arc<View>, &Ids) -> T) -> T {
        let ids = self.ids.read();
        look(self.view(), &ids)
    }

    /// The live rows of the view as it is now that satisfy a condition; `None` once `wanted` says no.
    pub(crate) fn filter(
        &self,
        condition: &Condition,
        wanted: &dyn Fn() -> bool,
    ) -> (Arc<View>, Option<Rows>) {
        let named = condition.looked_up();
        let (view, rows) = self.with_rows(|view, ids| {
            let rows: Vec<Option<Row>> = named.iter().map(|id| ids.get(id).copied()).collect();
            (view, rows)
        });
        let rows: HashMap<PointId, Row> = named
            .into_iter()
            .zip(rows)
            .filter_map(|(id, row)| Some((id, row?)))
            .collect();
        let declared = self.with_settings(|settings| settings.fields.clone());
        let place = Scope {
            view: &view,
            declared: &declared,
            budget: self.budget(),
        };
        let found = condition.rows(&place, &|id| rows.get(&id).copied(), &Patience::new(wanted));
        (view, found)
    }

    /// Makes the payload indexes of a field that is about to be declared; false, and none, if there is no memory, or
    /// `wanted` says no.
    pub(crate) fn index_field(&self, key: &str, kind: i32, wanted: &dyn Fn() -> bool) -> bool {
        let view = self.view();
        let patience = Patience::new(wanted);
        let whole = field_index::warm(&view, key, kind, self.budget(), &patience);
        if !whole {
            field_index::forget(&view, key);
        }
        whole
    }

    /// Makes the payload indexes of all declared fields, as far as there is memory.
    pub(crate) fn warm_fields(&self) {
        let view = self.view();
        for (key, kind) in self.settings().fields {
            field_index::warm(&view, &key, kind, self.budget(), &Patience::new(&|| true));
        }
    }

    /// The rows of `ids` that exist, in their order, with the view they are in.
    pub(crate) fn find(&self, ids: &[PointId]) -> (Arc<View>, Vec<Row>) {
        let map = self.ids.read();
        let rows = ids.iter().filter_map(|id| map.get(id).copied()).collect();
        (self.view(), rows)
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        self.held.budget()
    }

    /// The number of the last write.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    pub(crate) fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Makes stored changes visible to searches that begin from now on, all at once.
    pub(crate) fn apply(&self, changes: Vec<(Change, u64)>) {
        let mut put_bytes = 0;
        let mut ids = self.ids.write();
        let mut edit = self.view.load().edit();
        for (change, version) in changes {
            match change {
                Change::Put(point) => {
                    put_bytes += point.bytes();
                    let Point {
                        id,
                        vector,
                        payload,
                    } = point;
                    // Row numbers run out at 4 billion rows; the memory limit is met before that.
                    let row = edit
                        .push(id, &vector, payload, version)
                        .expect("memory for fewer than 2^32 rows");
                    if let Some(old) = ids.insert(id, row) {
                        edit.kill(old);
                    }
                }
                Change::Delete(id) => {
                    if let Some(old) = ids.remove(&id) {
                        edit.kill(old);
                    }
                }
                Change::Field(name, kind) => {
                    self.settings.write().fields.insert(name, kind);
                }
                Change::ForgetField(name) => {
                    self.settings.write().fields.remove(&name);
                    field_index::forget(&self.view(), &name);
                }
                Change::Thresholds { full_scan, rebuild } => {
                    let mut settings = self.settings.write();
                    (settings.full_scan_bytes, settings.rebuild_bytes) = (full_scan, rebuild);
                }
            }
        }
        self.view.store(Arc::new(edit.finish()));
        drop(ids);
        self.held.exchange(put_bytes, 0);
    }

    /// Puts a new base, built over `kept` of the rows of `from`, in the place of what it was built from. What was
    /// written since stays. Returns what was replaced, for the caller to drop at its leisure.
    pub(crate) fn rebase(&self, from: &View, kept: &[Row], base: Base, new_ids: Ids) -> Arc<View> {
        let index_bytes = base.index_bytes;
        self.budget().take(index_bytes);
        let mut catch_up = CatchUp::new(from, kept, base, new_ids);
        // Threads that answer requests wait for the lock, and this one may be of the lowest priority.
        catch_up.come_close(|| self.view());
        let mut ids = self.ids.write();
        catch_up.follow(&self.view());
        let (new, new_ids) = catch_up.finish();
        let new = Arc::new(new);
        let old_ids = std::mem::replace(&mut *ids, new_ids);
        let old = self.view.swap(Arc::clone(&new));
        drop(ids);
        drop(old_ids);
        self.held.exchange(index_bytes, forgotten_bytes(&old, &new));
        old
    }

    /// Whether enough has changed for a new index, or to forget rows that are dead.
    pub(crate) fn wants_build(&self) -> bool {
        let view = self.view();
        let many_dead = view.dead.len() > FEW_DEAD.max((view.live + view.dead.len()) / DEAD_PART);
        (many_dead || self.is_index_due(&view)) && self.build.may_try(view.live, view.dead.len())
    }

    /// Whether so much is outside the index that a new one is due.
    pub(crate) fn is_index_due(&self, view: &View) -> bool {
        let settings = self.settings.read();
        let row_bytes = (view.dim * size_of::<f32>()) as u64;
        let base_bytes = view.base.rows as u64 * row_bytes;
        match (&settings.index, &view.base.index) {
            (IndexKind::Flat, _) => false,
            // No index is wanted, or no newer one.
            _ if settings.rebuild_bytes == u64::MAX => false,
            (kind, None) => {
                view.live >= kind.fewest_points()
                    && view.live as u64 * row_bytes >= settings.full_scan_bytes
            }
            // A build costs as much as all rows before it, so each has to bring a quarter more.
            (_, Some(_)) => {
                view.delta_rows() as u64 * row_bytes >= settings.rebuild_bytes.max(base_bytes / 4)
            }
        }
    }

    /// Whether so much is outside the index that scanning it takes a good part of a search.
    pub(crate) fn has_leftovers(&self) -> bool {
        let view = self.view();
        let bytes = (view.delta_rows() * view.dim * size_of::<f32>()) as u64;
        let wanted = self.with_settings(|settings| settings.rebuild_bytes < u64::MAX);
        wanted
            && view.base.index.is_some()
            && bytes >= FEW_LEFTOVERS
            && self.build.may_try(view.live, view.dead.len())
    }

    /// Asks for a build if one is due, now or once nobody writes.
    pub(crate) fn consider_build(self: &Arc<Self>, builder: &Builder) {
        if self.wants_build() {
            builder.request(self);
        } else if self.has_leftovers() {
            builder.watch(self);
        }
    }
}

/// Memory of the rows and the index that `old` held and `new` does not.
fn forgotten_bytes(old: &View, new: &View) -> u64 {
    let all = |view: &View| -> u64 {
        (0..view.blocks())
            .flat_map(|number| &view.block(number).payloads)
            .map(|payload| stored_bytes(view.dim, payload.len()))
            .sum()
    };
    all(old).saturating_sub(all(new)) + old.base.index_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_is_tried_again_when_a_quarter_has_changed() {
        let state = BuildState::default();
        assert!(state.may_try(100, 0));
        state.failed("no luck".into(), 100, 10);
        assert_eq!(state.problem().as_deref(), Some("no luck"));
        assert!(!state.may_try(100, 10) && !state.may_try(125, 35) && !state.may_try(75, 0));
        assert!(state.may_try(126, 10) && state.may_try(74, 10) && state.may_try(100, 36));
        state.succeeded();
        assert!(state.may_try(100, 0) && state.problem().is_none());
    }
}
