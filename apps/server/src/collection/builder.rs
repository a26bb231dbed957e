//! Index builds, in the background: a few threads of the lowest priority, on cpus where they hurt least.
//!
//! A build reads one view and takes as long as it takes; writes and searches go on meanwhile. Then the new index takes
//! the place of the rows it was built over (`Collection::rebase`).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chiplet::Table;
use chiplet::index::{BuildError, HnswTable, MemoryPolicy};
use parking_lot::{Condvar, Mutex};

use super::allowance::{Allowance, Loan, Need, TooMuch};
use super::collection::{Collection, Ids};
use super::field_index;
use super::filter::Patience;
use super::footprint::{graph_config, has_index};
use super::quiet::Quiet;
use super::rows::{Base, IndexMemory, Row, View};
use super::saved::Save;
use super::schema::{IndexKind, Settings};
use crate::memory::Budget;
use crate::scheduling::Scheduler;
use crate::scheduling::background::Background;

pub(crate) struct Builder {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Collections queued or being built.
    pending: AtomicUsize,
    /// The memory of those being built.
    allowance: Allowance,
    scheduler: Arc<Scheduler>,
}

#[derive(Default)]
struct Queue {
    collections: VecDeque<Weak<Collection>>,
    quiet: Quiet,
    closed: bool,
}

impl Builder {
    /// Starts `threads` builders.
    ///
    /// # Errors
    /// The system refused a thread.
    pub(crate) fn start(
        threads: usize,
        background: &Background,
        scheduler: &Arc<Scheduler>,
    ) -> std::io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            pending: AtomicUsize::new(0),
            allowance: Allowance::default(),
            scheduler: Arc::clone(scheduler),
        });
        let threads = (0..threads)
            .map(|number| {
                let (shared, background) = (Arc::clone(&shared), background.clone());
                std::thread::Builder::new()
                    .name(format!("build-{number}"))
                    .spawn(move || {
                        while let Some((collection, why)) = shared.next() {
                            background.settle();
                            build(&collection, &shared, why);
                        }
                    })
            })
            .collect::<Result<_, _>>()?;
        Ok(Arc::new(Self {
            shared,
            threads: Mutex::new(threads),
        }))
    }

    /// Has a collection's index built, unless it waits for that already.
    pub(crate) fn request(&self, collection: &Arc<Collection>) {
        self.shared.request(collection);
    }

    /// Has points outside a collection's index indexed once nobody writes to it.
    pub(crate) fn watch(&self, collection: &Arc<Collection>) {
        self.shared.watch(collection);
    }

    /// Memory for what is done as a build is, and is none.
    pub(crate) fn lend(&self, budget: &Budget, need: &Need) -> Option<Loan<'_>> {
        self.shared.allowance.take(budget, need).ok()
    }

    /// Collections that wait for an index or are getting one.
    pub(crate) fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed)
    }

    /// Begins no further build. One that runs cannot be interrupted; its thread ends with the process.
    pub(crate) fn close(&self) {
        self.shared.queue.lock().closed = true;
        self.shared.wake.notify_all();
        for thread in self.threads.lock().drain(..) {
            if thread.is_finished() {
                // A builder contains panics; there is nothing else to be told.
                let _ = thread.join();
            }
        }
    }
}

/// Why an index is built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Enough has changed.
    Due,
    /// A little has changed, and nobody writes at present.
    Leftovers,
}

impl Shared {
    /// A build's state changes under the queue's lock: so a collection is built by one thread at a time, and a write
    /// that comes while one runs is seen either here or by that thread when it is done.
    fn request(&self, collection: &Arc<Collection>) {
        let mut queue = self.queue.lock();
        if collection.build.is_taken() {
            return;
        }
        collection.build.set_taken(true);
        self.pending.fetch_add(1, Ordering::Relaxed);
        queue.collections.push_back(Arc::downgrade(collection));
        drop(queue);
        self.wake.notify_one();
    }

    fn watch(&self, collection: &Arc<Collection>) {
        if collection.build.watched.load(Ordering::Relaxed) {
            return;
        }
        self.queue.lock().quiet.watch(collection, Instant::now());
        self.wake.notify_one();
    }

    fn next(&self) -> Option<(Arc<Collection>, Why)> {
        let mut queue = self.queue.lock();
        loop {
            if queue.closed {
                return None;
            }
            match queue.collections.pop_front() {
                Some(collection) => match collection.upgrade() {
                    Some(collection) => return Some((collection, Why::Due)),
                    None => {
                        self.pending.fetch_sub(1, Ordering::Relaxed);
                    }
                },
                None => {
                    if let Some(collection) = queue.quiet.due(Instant::now()) {
                        collection.build.set_taken(true);
                        self.pending.fetch_add(1, Ordering::Relaxed);
                        return Some((collection, Why::Leftovers));
                    }
                    match queue.quiet.next_look() {
                        Some(at) => {
                            self.wake.wait_until(&mut queue, at);
                        }
                        None => self.wake.wait(&mut queue),
                    }
                }
            }
        }
    }
}

fn build(collection: &Arc<Collection>, shared: &Shared, why: Why) {
    let state = &collection.build;
    let began = Instant::now();
    // What it is tried with: rows that come or die meanwhile are a later build's.
    let view = collection.view();
    let (live, mut dead) = (view.live, view.dead.len());
    drop(view);
    match build_within(collection, shared, why, &mut dead) {
        Ok(()) => state.succeeded(),
        Err(problem) => {
            tracing::error!(
                collection = &*collection.name,
                problem,
                "no index could be built; searches are exact"
            );
            state.failed(problem, live, dead);
        }
    }
    state.took(began.elapsed());
    let again = {
        let mut queue = shared.queue.lock();
        let again = collection.wants_build();
        match again {
            // It stays taken: who waits until it is built does not find it free between two builds.
            true => queue.collections.push_back(Arc::downgrade(collection)),
            false => state.set_taken(false),
        }
        again
    };
    if again {
        shared.wake.notify_one();
        return;
    }
    if collection.has_leftovers() {
        shared.watch(collection);
    }
    shared.pending.fetch_sub(1, Ordering::Relaxed);
}

/// Builds an index over what there is, if there is memory for it. If not, the `dead` rows are forgotten all the same,
/// and none is left of them. Writes may fill the memory with others that die meanwhile, and then only a later build
/// makes room.
fn build_within(
    collection: &Collection,
    shared: &Shared,
    why: Why,
    dead: &mut usize,
) -> Result<(), String> {
    let settings = collection.settings();
    let allowance = &shared.allowance;
    let replace = |settings: &Settings, indexed: bool, loan| {
        // The index is searched near its collection's home, as that is now: it may have waited long for its memory.
        let policy = indexed.then(|| MemoryPolicy::on(shared.scheduler.nodes_of(&collection.slot)));
        replace(collection, settings, policy, loan)
    };
    let need = || Need::of(&collection.view(), &settings);
    let first = need();
    let refused = match allowance.take(collection.budget(), &first) {
        Ok(loan) => return replace(&settings, true, loan),
        // The index that there is is worth more than what it lacks.
        Err(_) if why == Why::Leftovers => return Ok(()),
        Err(refused) => refused,
    };
    let problem = |need: Need| Err(need.refusal(collection.budget().limit()));
    let view = collection.view();
    let indexed = view.base.index.is_some();
    let forgets = match refused {
        // An index that fits, but not while the old one is there too: searches are exact meanwhile.
        TooMuch::ForAWhile => indexed || view.dead.len() > 0,
        // What there is of an index is better than none.
        TooMuch::ForGood => !indexed && view.dead.len() > 0,
    };
    let rows_alone = Need::without_index(&view);
    drop(view);
    if !forgets {
        return problem(first);
    }
    match allowance.take(collection.budget(), &rows_alone) {
        Ok(loan) => replace(&settings, false, loan)?,
        Err(_) => return problem(first),
    }
    *dead = 0;
    let second = need();
    match allowance.take(collection.budget(), &second) {
        Ok(loan) => replace(&settings, true, loan),
        Err(_) => problem(second),
    }
}

/// Puts the live rows in the place of all, with an index over them in this memory or without.
fn replace(
    collection: &Collection,
    settings: &Settings,
    policy: Option<MemoryPolicy>,
    mut loan: Loan<'_>,
) -> Result<(), String> {
    // Looked at only now: it may have waited long for its memory.
    if collection.deleted.load(Ordering::Relaxed) {
        return Ok(());
    }
    let view = collection.view();
    let (began, indexed) = (Instant::now(), policy.is_some());
    let (kept, base, ids, save) =
        catch_unwind(AssertUnwindSafe(|| rebuild(&view, settings, policy)))
            .unwrap_or_else(|_| Err("the index library panicked".to_owned()))?;
    if collection.deleted.load(Ordering::Relaxed) {
        return Ok(());
    }
    let rows = base.rows;
    let fresh = View {
        base: base.clone(),
        ..View::new(view.dim, view.metric)
    };
    // From the settings as they are now: what is declared from here on is seen by the first filter.
    for (key, kind) in collection.settings().fields {
        // Without memory for it, filters look into payloads.
        field_index::warm(
            &fresh,
            &key,
            kind,
            collection.budget(),
            &Patience::new(&|| true),
        );
    }
    loan.leave_index();
    let old = collection.rebase(&view, &kept, base, ids);
    tracing::info!(
        collection = &*collection.name,
        rows,
        indexed,
        seconds = began.elapsed().as_secs_f64(),
        "built anew"
    );
    drop(view);
    drop_when_unused(old);
    if let (Some(save), Some(saved)) = (save, &collection.saved)
        && !collection.deleted.load(Ordering::Relaxed)
        && let Err(error) = saved.save(settings, &fresh.base, &save)
    {
        tracing::warn!(
            collection = &*collection.name,
            error,
            "the index was not saved; the next start builds it anew"
        );
    }
    Ok(())
}

/// The live rows of `view` without gaps, and an index over them if they are to have one, in this memory.
fn rebuild(
    view: &View,
    settings: &Settings,
    policy: Option<MemoryPolicy>,
) -> Result<(Vec<Row>, Base, Ids, Option<Save>), String> {
    let kept: Vec<Row> = view.live_rows().collect();
    let mut vectors = Vec::with_capacity(kept.len() * view.dim);
    let (mut ids, mut payloads, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    for &row in &kept {
        let stored = view.stored(row);
        vectors.extend_from_slice(stored.vector);
        ids.push(stored.id);
        payloads.push(Arc::clone(stored.payload));
        versions.push(stored.version);
    }
    let vectors = Arc::new(vectors);
    let mut base = Base::cut(Arc::clone(&vectors), view.dim, &ids, payloads, &versions);
    let mut save = None;
    if let Some(policy) = policy.filter(|_| has_index(kept.len(), settings)) {
        let built = index(&vectors, view, settings, policy).map_err(|error| explained(&error))?;
        if let Some((table, memory, how)) = built {
            base.set_index(table, settings.index.is_coded(), view.metric);
            base.index_memory = memory;
            save = Some(how);
        }
    }
    let new_ids = ids.into_iter().zip(0..).collect();
    Ok((kept, base, new_ids, save))
}

/// An error without the place in Faiss' sources that it names, which means nothing to a client.
fn explained(error: &BuildError) -> String {
    match error {
        BuildError::Faiss(text) => {
            let (_, reason) = text.rsplit_once("failed: ").unwrap_or(("", text));
            format!("Faiss: {reason}")
        }
        other => other.to_string(),
    }
}

/// An index, its memory, and how it is saved.
type Built = (Arc<dyn Table>, IndexMemory, Save);

fn index(
    vectors: &[f32],
    view: &View,
    settings: &Settings,
    policy: MemoryPolicy,
) -> Result<Option<Built>, BuildError> {
    Ok(match &settings.index {
        IndexKind::Flat => None,
        IndexKind::Hnsw {
            m,
            ef_construct,
            codes,
        } => {
            // On this thread alone: its priority and its cpus are those that builds may have. And the same points in
            // the same order give the same graph.
            let config = graph_config(view.metric, *m, *codes)
                .ef_construction(*ef_construct)
                .memory(policy)
                .threads(1);
            let table = Arc::new(HnswTable::build(vectors, view.dim, &config)?);
            let memory = IndexMemory::of(&*table, Some(table.granted()));
            let save = Arc::clone(&table);
            Some((table, memory, Box::new(move |path| save.save(path))))
        }
        #[cfg(feature = "ivf")]
        IndexKind::Ivf {
            nlist,
            code,
            nprobe,
        } => {
            use chiplet::index::{IvfConfig, IvfTable};
            let lists = super::footprint::lists(*nlist, vectors.len() / view.dim);
            let config = IvfConfig::new(view.metric).nprobe(*nprobe).memory(policy);
            let factory = format!("IVF{lists},{code}");
            let table = Arc::new(IvfTable::build(vectors, view.dim, &factory, &config)?);
            let memory = IndexMemory::of(&*table, table.granted());
            let save = Arc::clone(&table);
            Some((table, memory, Box::new(move |path| save.save(path))))
        }
        #[cfg(not(feature = "ivf"))]
        IndexKind::Ivf { .. } => {
            return Err(BuildError::Faiss(
                "this server was built without the feature `ivf`".into(),
            ));
        }
    })
}

/// Drops a view when no search holds it any more, so that it is this thread that spends the time: giving the memory of
/// a large index and its rows back to the system takes as long as many searches.
pub(crate) fn drop_when_unused(view: Arc<View>) {
    // Searches end within their deadlines. If one does not, it will drop the view itself.
    for _ in 0..1_000 {
        if Arc::strong_count(&view) == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
