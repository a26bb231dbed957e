//! The collections by name. Each has one file; a damaged one keeps its name taken and says why, the rest serve.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use chiplet::index::MemoryPolicy;
use parking_lot::{Mutex, RwLock};

use super::allowance::Need;
use super::builder::{self, Builder};
use super::caches::Caches;
use super::collection::{Collection, Content, Ids};
use super::rows::{Base, View};
use super::saved::{self, Saved};
use super::schema::Settings;
use super::store::{self, Store, StoreError};
use super::table::CollectionTable;
use super::writer::Unstored;
use crate::memory::{Budget, Kept};
use crate::scheduling::{Scheduler, Slot};

pub(crate) struct Catalog {
    folder: PathBuf,
    entries: RwLock<BTreeMap<Arc<str>, Entry>>,
    scheduler: Arc<Scheduler>,
    builder: Arc<Builder>,
    budget: Arc<Budget>,
    caches: Arc<Caches>,
    failed_writes: Arc<AtomicU64>,
    most: usize,
}

#[derive(Clone)]
enum Entry {
    Serving(Arc<Collection>),
    Damaged(Problem),
    /// Its file is being made, or removed.
    Changing,
    /// Its file has not been read yet.
    Loading(PathBuf),
}

/// Why a collection cannot be served.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    text: Arc<str>,
    /// It is whole, and there is too little memory for it.
    pub(crate) memory: bool,
}

impl Problem {
    fn of(error: &StoreError) -> Self {
        Self {
            text: error.to_string().into(),
            memory: matches!(error, StoreError::NoMemory { .. }),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How many collections are in trouble, by which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    /// Their files cannot be read.
    pub(crate) damaged: u64,
    /// They did not fit into memory at start.
    pub(crate) no_memory: u64,
    /// They are served, and their index could not be built.
    pub(crate) red_builds: u64,
}

/// What a collection takes that holds nothing, beside its file's cache: the open file's own lists, the table, its
/// queues. It was measured (`tests/it/counted_memory.rs`).
const OPEN_BYTES: u64 = 64 << 10;

/// Why a collection is not to be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CatalogError {
    #[error("there is no collection {0:?}")]
    Unknown(String),
    #[error("collection {0:?} exists already")]
    Exists(String),
    #[error("collection {0:?} is being created or deleted; try again")]
    Changing(String),
    #[error("collection {0:?} is being loaded; try again")]
    Loading(String),
    #[error("collection {name:?} cannot be served: {problem}")]
    Damaged { name: String, problem: Problem },
    #[error("a collection's name is {0}")]
    BadName(&'static str),
    #[error("the server has {0} collections, as many as limits.collections allows; delete one")]
    TooMany(usize),
    #[error(
        "there is no memory for another collection: points, indexes and collections take what limits.memory_bytes = {0} leaves them; delete some, or raise it"
    )]
    NoMemory(u64),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One line of a listing.
pub(crate) enum Listed {
    Serving(Arc<Collection>),
    Damaged { name: Arc<str>, problem: Arc<str> },
    Loading { name: Arc<str> },
}

impl Listed {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Serving(collection) => &collection.name,
            Self::Damaged { name, .. } | Self::Loading { name } => name,
        }
    }
}

/// Checks a name. Names become file names, labels and log fields, so what is odd in any of these is refused.
fn check_name(name: &str) -> Result<(), CatalogError> {
    let bad = if name.is_empty() {
        "empty; give it at least one character"
    } else if name.len() > 240 {
        "longer than 240 bytes"
    } else if name.chars().any(|c| c.is_control()) {
        "not to contain control characters"
    } else if name.contains(['/', '\\', '<', '>', ':', '"', '|', '?', '*']) {
        "not to contain any of / \\ < > : \" | ? *"
    } else {
        return Ok(());
    };
    Err(CatalogError::BadName(bad))
}

/// Progress of loading, for whoever waits.
#[derive(Default)]
pub(crate) struct Loading {
    pub(crate) done: AtomicUsize,
    pub(crate) total: AtomicUsize,
}

impl Catalog {
    pub(crate) fn new(
        folder: &Path,
        scheduler: Arc<Scheduler>,
        builder: Arc<Builder>,
        budget: Arc<Budget>,
        most: usize,
    ) -> Self {
        Self {
            folder: folder.to_owned(),
            entries: RwLock::default(),
            scheduler,
            builder,
            caches: Caches::new(budget.limit()),
            budget,
            failed_writes: Arc::default(),
            most,
        }
    }

    /// Finds out which collections there are. From then on their names are taken; until they are loaded, whoever asks
    /// for them is told to wait.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn scan(&self) -> std::io::Result<()> {
        store::remove_drafts(&self.folder)?;
        saved::prepare(&self.folder)?;
        let mut entries = self.entries.write();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if let Some(name) = store::name_of(&path) {
                entries.insert(name.into(), Entry::Loading(path));
            }
        }
        Ok(())
    }

    /// Reads all collections, on as many threads as there are cpus. A file that cannot be read is an entry that says
    /// so. One for which there was no memory is tried once more when the others are there, small ones first: a larger
    /// one that does not fit either may have taken what it needed.
    pub(crate) fn load(&self, loading: &Loading) {
        let entries = self.entries.read();
        let files: Vec<(Arc<str>, PathBuf)> = entries
            .iter()
            .filter_map(|(name, entry)| match entry {
                Entry::Loading(path) => Some((Arc::clone(name), path.clone())),
                _ => None,
            })
            .collect();
        drop(entries);
        loading.total.store(files.len(), Ordering::Relaxed);
        let next = AtomicUsize::new(0);
        let refused = Mutex::new(Vec::new());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(files.len()) {
                scope.spawn(|| {
                    while let Some((name, path)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.load_one(name, path) {
                            Err(StoreError::NoMemory { .. }) => refused.lock().push((name, path)),
                            loaded => self.loaded(loading, name, loaded),
                        }
                    }
                });
            }
        });
        let mut refused = refused.into_inner();
        refused.sort_by_key(|(_, path)| path.metadata().map_or(0, |file| file.len()));
        for (name, path) in refused {
            self.loaded(loading, name, self.load_one(name, path));
        }
    }

    /// One more file has been read, or cannot be.
    fn loaded(&self, loading: &Loading, name: &Arc<str>, loaded: Result<(), StoreError>) {
        if let Err(error) = loaded {
            tracing::error!(collection = &**name, %error, "not loaded");
            let damaged = Entry::Damaged(Problem::of(&error));
            self.entries.write().insert(Arc::clone(name), damaged);
        }
        loading.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads one file. Its collection is served at once: what no saved index has is scanned until one is built.
    fn load_one(&self, name: &Arc<str>, path: &Path) -> Result<(), StoreError> {
        let (store, content) = contained(path, || read(path, &self.budget, &self.caches))?;
        let points = content.view.live;
        let saved = Saved::beside(path);
        // The rows are there twice for a while, in the store's order and in the index'.
        let twice = Need::without_index(&content.view);
        // Its home first: its index is loaded near that.
        let slot = self.place(name, &content);
        let content = match (&saved, self.builder.lend(&self.budget, &twice)) {
            (Some(saved), Some(_loan)) => {
                saved.restore(content, MemoryPolicy::on(self.scheduler.nodes_of(&slot)))
            }
            _ => content,
        };
        let loaded_index = content.view.base.index.is_some();
        let collection = self.admit(name, slot, store, saved, content);
        collection.warm_fields();
        // Before anybody can see it: what waits for an index never looks as if it had one.
        collection.consider_build(&self.builder);
        tracing::info!(
            collection = &**name,
            points,
            index = loaded_index,
            builds = collection.build.is_taken(),
            "loaded"
        );
        let serving = Entry::Serving(collection);
        self.entries.write().insert(Arc::clone(name), serving);
        Ok(())
    }

    /// Gives a collection a home.
    fn place(&self, name: &Arc<str>, content: &Content) -> Slot {
        let table = CollectionTable::new(&content.settings);
        self.scheduler.add(Arc::clone(name), table)
    }

    fn admit(
        &self,
        name: &Arc<str>,
        slot: Slot,
        store: Store,
        saved: Option<Saved>,
        content: Content,
    ) -> Arc<Collection> {
        Arc::new(Collection::new(
            Arc::clone(name),
            slot,
            store,
            saved,
            content,
            Arc::clone(&self.failed_writes),
        ))
    }

    /// Creates a collection; blocks until it is on disk.
    ///
    /// # Errors
    /// It exists, its name will not do, there are too many, or the disk refuses.
    pub(crate) fn create(&self, name: &str, settings: Settings) -> Result<(), CatalogError> {
        check_name(name)?;
        let path = store::path_of(&self.folder, name)
            .ok_or(CatalogError::BadName("too long once it is a file's name"))?;
        let name: Arc<str> = name.into();
        let content = Content::empty(settings, &self.budget);
        {
            let mut entries = self.entries.write();
            match entries.get(&name) {
                Some(Entry::Changing) => return Err(CatalogError::Changing(name.to_string())),
                Some(_) => return Err(CatalogError::Exists(name.to_string())),
                None => {}
            }
            if entries.len() >= self.most {
                return Err(CatalogError::TooMany(self.most));
            }
            if !content.held.try_take(OPEN_BYTES) {
                return Err(CatalogError::NoMemory(self.budget.limit()));
            }
            entries.insert(Arc::clone(&name), Entry::Changing);
        }
        match Store::create(&path, &content.settings, &self.caches) {
            Ok(store) => {
                let slot = self.place(&name, &content);
                let collection = self.admit(&name, slot, store, Saved::beside(&path), content);
                self.entries
                    .write()
                    .insert(name, Entry::Serving(collection));
                Ok(())
            }
            Err(error) => {
                self.entries.write().remove(&name);
                Err(error.into())
            }
        }
    }

    /// Deletes a collection with its file; false if there is none. Searches under way are answered.
    ///
    /// # Errors
    /// The file cannot be removed; the collection is served no more all the same.
    pub(crate) fn delete(&self, name: &str) -> Result<bool, CatalogError> {
        check_name(name)?;
        let Some(path) = store::path_of(&self.folder, name) else {
            return Ok(false);
        };
        let previous = {
            let mut entries = self.entries.write();
            match entries.get_mut(name) {
                None => return Ok(false),
                Some(Entry::Changing) => return Err(CatalogError::Changing(name.to_owned())),
                Some(Entry::Loading(_)) => return Err(CatalogError::Loading(name.to_owned())),
                Some(entry) => std::mem::replace(entry, Entry::Changing),
            }
        };
        if let Entry::Serving(collection) = &previous {
            collection.deleted.store(true, Ordering::Relaxed);
            self.scheduler.remove(&collection.slot);
        }
        let removed = store::remove(&path);
        if let Some(saved) = Saved::beside(&path) {
            saved.remove();
        }
        if let Entry::Serving(collection) = previous {
            drop_in_background(collection);
        }
        let mut entries = self.entries.write();
        match removed {
            Ok(()) => {
                entries.remove(name);
                Ok(true)
            }
            Err(source) => {
                let problem = Problem {
                    text: format!("{} could not be removed: {source}", path.display()).into(),
                    memory: false,
                };
                entries.insert(name.into(), Entry::Damaged(problem.clone()));
                let name = name.to_owned();
                Err(CatalogError::Damaged { name, problem })
            }
        }
    }

    /// # Errors
    /// There is none, or it cannot be served.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Collection>, CatalogError> {
        check_name(name)?;
        match self.entries.read().get(name) {
            Some(Entry::Serving(collection)) => Ok(Arc::clone(collection)),
            Some(Entry::Damaged(problem)) => Err(CatalogError::Damaged {
                name: name.to_owned(),
                problem: problem.clone(),
            }),
            Some(Entry::Changing) => Err(CatalogError::Changing(name.to_owned())),
            Some(Entry::Loading(_)) => Err(CatalogError::Loading(name.to_owned())),
            None => Err(CatalogError::Unknown(name.to_owned())),
        }
    }

    /// Whether no write waits in any collection.
    pub(crate) fn is_stored(&self) -> bool {
        self.entries.read().values().all(|entry| match entry {
            Entry::Serving(collection) => collection.writes.is_idle(),
            _ => true,
        })
    }

    /// What was acknowledged and is not stored yet, of the collections where there is any.
    pub(crate) fn unstored(&self) -> Vec<(Arc<str>, Unstored)> {
        let entries = self.entries.read();
        let unstored = entries.iter().filter_map(|(name, entry)| match entry {
            Entry::Serving(collection) => Some((Arc::clone(name), collection.writes.unstored())),
            _ => None,
        });
        unstored.filter(|(_, left)| left.writes > 0).collect()
    }

    /// Collections whose files are no longer where the next start looks for them.
    pub(crate) fn out_of_place(&self) -> Vec<Arc<str>> {
        let entries = self.entries.read();
        let lost = entries.iter().filter_map(|(name, entry)| match entry {
            Entry::Serving(collection) if !collection.store.is_in_place() => Some(Arc::clone(name)),
            _ => None,
        });
        lost.collect()
    }

    /// Collections that are not as they should be.
    pub(crate) fn troubles(&self) -> Troubles {
        let mut troubles = Troubles::default();
        for entry in self.entries.read().values() {
            match entry {
                Entry::Damaged(problem) if problem.memory => troubles.no_memory += 1,
                Entry::Damaged(_) => troubles.damaged += 1,
                Entry::Serving(collection) if collection.build.problem().is_some() => {
                    troubles.red_builds += 1;
                }
                Entry::Serving(_) | Entry::Changing | Entry::Loading(_) => {}
            }
        }
        troubles
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Writes that were taken and could not be stored, of all collections there ever were.
    pub(crate) fn failed_writes(&self) -> u64 {
        self.failed_writes.load(Ordering::Relaxed)
    }

    /// All of them, by name.
    pub(crate) fn list(&self) -> Vec<Listed> {
        let entries = self.entries.read();
        let listed = entries.iter().filter_map(|(name, entry)| match entry {
            Entry::Serving(collection) => Some(Listed::Serving(Arc::clone(collection))),
            Entry::Damaged(problem) => Some(Listed::Damaged {
                name: Arc::clone(name),
                problem: Arc::clone(&problem.text),
            }),
            Entry::Loading(_) => Some(Listed::Loading {
                name: Arc::clone(name),
            }),
            Entry::Changing => None,
        });
        listed.collect()
    }
}

/// Lets go of a deleted collection on a thread of its own, once no search holds its points.
fn drop_in_background(collection: Arc<Collection>) {
    let view = collection.view();
    drop(collection);
    let thread = std::thread::Builder::new().name("drop-view".to_owned());
    // Without a thread, this one spends the time.
    if let Err(error) = thread.spawn(move || builder::drop_when_unused(view)) {
        tracing::debug!(%error, "a deleted collection is dropped at once");
    }
}

/// A panic in reading one file is damage to that one.
fn contained<T>(
    path: &Path,
    read: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(StoreError::Damaged {
            path: path.display().to_string(),
            message: "what it holds makes no sense".into(),
        })
    })
}

/// A collection's file, read whole.
fn read(
    path: &Path,
    budget: &Arc<Budget>,
    caches: &Arc<Caches>,
) -> Result<(Store, Content), StoreError> {
    let mut vectors = Vec::new();
    let (mut ids, mut payloads, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    let held = Kept::new(budget);
    if !held.try_load(OPEN_BYTES) {
        return Err(StoreError::NoMemory {
            path: path.display().to_string(),
        });
    }
    let fits = |bytes| held.try_load(bytes);
    let (store, settings) = Store::open(path, caches, fits, |record| {
        vectors.extend_from_slice(&record.point.vector);
        ids.push(record.point.id);
        payloads.push(record.point.payload);
        versions.push(record.version);
    })?;
    // It has grown by doubling, and stays.
    vectors.shrink_to_fit();
    let metric = settings.distance.metric();
    let base = Base::cut(vectors.into(), settings.dim, &ids, payloads, &versions);
    let version = versions.iter().copied().max().unwrap_or(0);
    let content = Content {
        view: View {
            live: base.rows,
            base,
            ..View::new(settings.dim, metric)
        },
        ids: ids.into_iter().zip(0..).collect::<Ids>(),
        version,
        settings,
        held,
    };
    Ok((store, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::point::{Payload, Point, PointId};
    use crate::collection::schema::{Distance, IndexKind};
    use crate::collection::store::Change;
    use crate::config::SchedulerSettings;
    use crate::scheduling::background::Background;

    /// A server is ready once it has loaded: for how long its builders then build says nothing of that.
    #[test]
    fn a_collection_is_loaded_before_its_index_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            dim: 1,
            distance: Distance::Euclid,
            index: IndexKind::Hnsw {
                m: 4,
                ef_construct: 8,
                codes: None,
            },
            quantization: None,
            full_scan_bytes: 1,
            rebuild_bytes: 1,
            metadata: BTreeMap::new(),
            fields: BTreeMap::new(),
        };
        let put = |id: u8| {
            Change::Put(Point {
                id: PointId::Number(id.into()),
                vector: vec![id.into()],
                payload: Payload::default(),
            })
        };
        let puts: Vec<Change> = (0..100).map(put).collect();
        let path = store::path_of(folder.path(), "a").unwrap();
        let file = Store::create(&path, &settings, &Caches::new(u64::MAX)).unwrap();
        file.write(puts.iter().map(|put| (put, 1)), None).unwrap();
        drop(file);

        let threads = SchedulerSettings {
            pin: "none".into(),
            ..SchedulerSettings::default()
        };
        let scheduler = Arc::new(Scheduler::start(&threads, |_| ()).unwrap());
        // Nobody builds anything.
        let builder = Builder::start(0, &Background::new(&scheduler), &scheduler).unwrap();
        let budget = Arc::new(Budget::new(1 << 30));
        let catalog = Catalog::new(folder.path(), scheduler, Arc::clone(&builder), budget, 10);
        catalog.scan().unwrap();
        catalog.load(&Loading::default());
        let collection = catalog.find("a").unwrap();
        assert_eq!(collection.view().live, 100);
        assert!(collection.view().base.index.is_none());
        assert!(collection.build.is_taken(), "it says that it is not whole");
        assert_eq!(builder.pending(), 1);
    }

    #[test]
    fn a_panic_in_reading_a_file_is_damage_to_that_file() {
        let path = Path::new("data/a.redb");
        let error = contained(path, || -> Result<(), _> { panic!("as it should") });
        let error = error.err().unwrap();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("a.redb"), "{error}");
        assert_eq!(contained(path, || Ok(7)).unwrap(), 7);
    }
}
