//! A collection on disk: one redb file, so that damage to one leaves the others alone.
//!
//! The file's name is the collection's, escaped, so that even a file that cannot be read says whose it was. A commit
//! is on disk when [`Store::write`] returns (redb's default durability is an fsync). Records carry a checksum of their
//! own. A page that the disk has not written, or has written elsewhere, is whole by itself and so are its records; so
//! when a file is opened, each page's checksum is compared with what the page above it says.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::caches::{Cache, Caches};
use super::disk::{Disk, Flushes};
use super::point::{Payload, Point, PointId};
use super::schema::Settings;
use crate::private;

mod files;

pub(super) use files::EXTENSION;
use files::{draft_of, move_to_new, sync_folder};
pub(crate) use files::{name_of, path_of, remove, remove_drafts};

const POINTS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("points");
const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const SETTINGS: &str = "settings";
/// The layout of records; a file of a later one is refused.
const FORMAT: &str = "format";
const FORMAT_NOW: u64 = 1;

/// More than any vector has. What is accepted is far less (`limits.dimensions`), but to lower that limit damages no
/// collection that is there.
const MOST_DIMENSIONS: usize = 1 << 28;

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("{path}: {message}")]
    Open { path: String, message: String },
    #[error("{path} is damaged: {message}; restore it from a copy, or delete the collection")]
    Damaged { path: String, message: String },
    #[error("{path} was written by a later version (format {format}); start that version")]
    Later { path: String, format: u64 },
    #[error(
        "{path}: its points do not fit beside others in the memory limit; raise limits.memory_bytes and restart"
    )]
    NoMemory { path: String },
    #[error("the write to {path} failed: {message}")]
    Write { path: String, message: String },
    #[error(
        "the write to {path} failed: the disk is full; make room on it, nothing is tried before there is more"
    )]
    Full { path: String },
    #[error(
        "{path} is not the collection's file any more: data_dir was moved, removed or replaced, and what was written would be lost; put it back, or restart where it is"
    )]
    Gone { path: String },
    #[error(
        "a flush of {path} to the disk failed, and what it held may be lost: no writes are taken until a restart has read the file back"
    )]
    Unflushed { path: String },
}

/// A stored point with the number of the write that stored it.
pub(crate) struct Record {
    pub(crate) point: Point,
    pub(crate) version: u64,
}

/// One change of a collection.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put(Point),
    Delete(PointId),
    /// Declares a payload field.
    Field(String, i32),
    ForgetField(String),
    /// From which size on there is an index, and how much must be written for a new one, in bytes.
    Thresholds {
        full_scan: u64,
        rebuild: u64,
    },
}

pub(crate) struct Store {
    file: Mutex<Opened>,
    path: PathBuf,
    /// Which file it is, by whatever name.
    identity: Identity,
    flushes: Arc<Flushes>,
    cache: Cache,
    /// Of the cache, what is in use.
    cached: AtomicU64,
}

/// A file's device, and its number there.
type Identity = (u64, u64);

fn identity(file: &Metadata) -> Identity {
    (file.dev(), file.ino())
}

/// A collection's file between writes.
struct Opened {
    /// Closed after a write that failed: redb takes no further ones until it is opened anew, and then reads all of it.
    database: Option<Database>,
    /// What was free on the disk when a write found it full. To open the file anew makes sense only once there is more.
    full_at: Option<u64>,
}

impl Opened {
    fn new(database: Database) -> Mutex<Self> {
        Mutex::new(Self {
            database: Some(database),
            full_at: None,
        })
    }
}

/// Whether a write may be tried. `free` is unknown where the system does not say.
fn has_room(full_at: Option<u64>, free: Option<u64>) -> bool {
    /// What a small write needs.
    const MORE: u64 = 1 << 20;
    match (full_at, free) {
        (Some(full_at), Some(free)) => free >= full_at.saturating_add(MORE),
        _ => true,
    }
}

/// Bytes that are free on a file's disk.
fn free(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

fn is_full(error: &redb::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error, redb::Error::Io(error) if matches!(error.kind(), StorageFull | QuotaExceeded))
}

impl Store {
    /// Makes the file of a new collection. It is whole or not there: a crash on the way leaves a file that the next
    /// start removes, an error leaves nothing.
    pub(crate) fn create(
        path: &Path,
        settings: &Settings,
        caches: &Arc<Caches>,
    ) -> Result<Self, StoreError> {
        Self::create_on(Arc::default(), path, settings, caches)
    }

    fn create_on(
        flushes: Arc<Flushes>,
        path: &Path,
        settings: &Settings,
        caches: &Arc<Caches>,
    ) -> Result<Self, StoreError> {
        Self::try_create(flushes, path, settings, caches).map_err(|error| {
            // If it cannot be removed, the next start or the next creation of this name does.
            let _ = std::fs::remove_file(draft_of(path));
            let path = path.display().to_string();
            match is_full(&error) {
                true => StoreError::Full { path },
                false => StoreError::Write {
                    path,
                    message: error.to_string(),
                },
            }
        })
    }

    fn try_create(
        flushes: Arc<Flushes>,
        path: &Path,
        settings: &Settings,
        caches: &Arc<Caches>,
    ) -> Result<Self, redb::Error> {
        let draft = draft_of(path);
        match std::fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let cache = caches.part();
        let file = private::options()
            .read(true)
            .create_new(true)
            .open(&draft)?;
        let identity = identity(&file.metadata()?);
        let database = builder(&cache).create_with_backend(Disk::new(file, &flushes)?)?;
        let transaction = database.begin_write()?;
        {
            transaction.open_table(POINTS)?;
            let mut meta = transaction.open_table(META)?;
            meta.insert(FORMAT, &FORMAT_NOW.to_le_bytes()[..])?;
            meta.insert(SETTINGS, &encode_settings(settings)[..])?;
        }
        transaction.commit()?;
        move_to_new(&draft, path)?;
        sync_folder(path)?;
        Ok(Self {
            cached: cached(&database),
            file: Opened::new(database),
            path: path.to_owned(),
            identity,
            flushes,
            cache,
        })
    }

    /// Opens a collection's file and reads all of it. Each point is handed to `take` if `fits` finds memory for so many
    /// bytes.
    pub(crate) fn open(
        path: &Path,
        caches: &Arc<Caches>,
        mut fits: impl FnMut(u64) -> bool,
        mut take: impl FnMut(Record),
    ) -> Result<(Self, Settings), StoreError> {
        let shown = path.display().to_string();
        let damaged = |message: String| StoreError::Damaged {
            path: shown.clone(),
            message,
        };
        let (flushes, cache) = (Arc::default(), caches.part());
        let open = || -> Result<_, StoreError> {
            let explained = |problem| match problem {
                Problem::Damaged(message) => damaged(message),
                Problem::Unread(message) => StoreError::Open {
                    path: shown.clone(),
                    message,
                },
                Problem::Later(format) => StoreError::Later {
                    path: shown.clone(),
                    format,
                },
                Problem::NoMemory => StoreError::NoMemory {
                    path: shown.clone(),
                },
            };
            let (database, identity) =
                open_file(path, &flushes, &cache, Check::AllPages).map_err(explained)?;
            let settings = read_all(&database, &mut fits, &mut take).map_err(explained)?;
            Ok((database, identity, settings))
        };
        // A library that meets bytes it could never have written may panic; that too is damage to one file.
        let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(open))
            .unwrap_or_else(|_| Err(damaged("its structure makes no sense".into())));
        let (database, identity, settings) = opened?;
        let store = Self {
            cached: cached(&database),
            file: Opened::new(database),
            path: path.to_owned(),
            identity,
            flushes,
            cache,
        };
        Ok((store, settings))
    }

    /// Stores `changes`, all or none, and returns when they are on disk; `settings` too if there are any. After a
    /// failure it may be tried again: the file is opened anew, after a full disk only once there is more room. Not so
    /// if it was a flush that failed: nothing more is written then.
    pub(crate) fn write<'a>(
        &self,
        changes: impl Iterator<Item = (&'a Change, u64)>,
        settings: Option<&Settings>,
    ) -> Result<(), StoreError> {
        let path = || self.path.display().to_string();
        let failed = |message: String| match self.flushes.have_failed() {
            true => StoreError::Unflushed { path: path() },
            false => StoreError::Write {
                path: path(),
                message,
            },
        };
        let mut open = self.file.lock();
        if self.flushes.have_failed() {
            return Err(StoreError::Unflushed { path: path() });
        }
        if !self.is_in_place() {
            return Err(StoreError::Gone { path: path() });
        }
        let full_at = open.full_at;
        if full_at.is_some() && !has_room(full_at, free(&self.path)) {
            return Err(StoreError::Full { path: path() });
        }
        let database = match open.database.take() {
            Some(database) => database,
            None => {
                open_file(&self.path, &self.flushes, &self.cache, Check::None)
                    .map_err(|problem| failed(problem.to_string()))?
                    .0
            }
        };
        match commit(&database, changes, settings) {
            Ok(()) => {
                let cached = cached(&database).into_inner();
                self.cached.store(cached, Ordering::Relaxed);
                open.database = Some(database);
                open.full_at = None;
                Ok(())
            }
            Err(error) if is_full(&error) && !self.flushes.have_failed() => {
                // What was written of it is given back first.
                drop(database);
                open.full_at = Some(free(&self.path).unwrap_or(0));
                Err(StoreError::Full { path: path() })
            }
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Whether its file still has its name: one that was removed, or moved with its folder, would take writes that the
    /// next start does not find.
    pub(crate) fn is_in_place(&self) -> bool {
        let there = std::fs::metadata(&self.path);
        there.is_ok_and(|there| identity(&there) == self.identity)
    }

    /// Bytes in the file's cache, after the latest write that went well.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.cached.load(Ordering::Relaxed)
    }
}

fn cached(database: &Database) -> AtomicU64 {
    AtomicU64::new(database.cache_stats().used_bytes() as u64)
}

fn commit<'a>(
    database: &Database,
    changes: impl Iterator<Item = (&'a Change, u64)>,
    settings: Option<&Settings>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut points = transaction.open_table(POINTS)?;
        let mut record = Vec::new();
        for (change, version) in changes {
            match change {
                Change::Put(point) => {
                    encode(point, version, &mut record);
                    points.insert(&point.id.to_key()[..], &record[..])?;
                }
                Change::Delete(id) => {
                    points.remove(&id.to_key()[..])?;
                }
                Change::Field(..) | Change::ForgetField(_) | Change::Thresholds { .. } => {}
            }
        }
        if let Some(settings) = settings {
            let mut meta = transaction.open_table(META)?;
            meta.insert(SETTINGS, &encode_settings(settings)[..])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// What is looked at when a file is opened that was closed in order; one that was not is always looked at whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    None,
    AllPages,
}

fn open_file(
    path: &Path,
    flushes: &Arc<Flushes>,
    cache: &Cache,
    check: Check,
) -> Result<(Database, Identity), Problem> {
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(redb::Error::Io)?;
    let metadata = file.metadata().map_err(redb::Error::Io)?;
    // Of an empty file redb would make a database.
    if metadata.len() == 0 {
        return Err(Problem::Damaged("it is empty".into()));
    }
    #[cfg(test)]
    flushes
        .opened
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let disk = Disk::new(file, flushes)?;
    let mut builder = builder(cache);
    builder.set_check_integrity_on_open(check == Check::AllPages);
    let file = path.display().to_string();
    builder.set_repair_callback(move |repair| {
        // So far it has got only if the latest commit is not whole. Of a file that was closed in order that is damage.
        if (0.2..0.5).contains(&repair.progress()) {
            tracing::warn!(
                file,
                "the file was not closed in order and its latest commit is not whole: the one before it is taken. If power \
                 was cut in the middle of a commit, nobody was told that it was stored; otherwise the disk has lost a write"
            );
        }
    });
    Ok((builder.create_with_backend(disk)?, identity(&metadata)))
}

fn builder(cache: &Cache) -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(cache.size());
    builder
}

fn encode_settings(settings: &Settings) -> Vec<u8> {
    // Settings hold strings and numbers only; nothing of them cannot be written as JSON.
    serde_json::to_vec(settings).expect("settings are JSON")
}

enum Problem {
    Damaged(String),
    /// The system did not let it be read, which says nothing of what is in it.
    Unread(String),
    Later(u64),
    NoMemory,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(message) | Self::Unread(message) => f.write_str(message),
            Self::Later(format) => write!(f, "it has the later format {format}"),
            Self::NoMemory => f.write_str("its points do not fit in memory"),
        }
    }
}

impl<E: Into<redb::Error>> From<E> for Problem {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::DatabaseAlreadyOpen => {
                Self::Unread("another server has it open; give each a data_dir of its own".into())
            }
            redb::Error::Io(error) if !is_about_contents(&error) => Self::Unread(error.to_string()),
            other => Self::Damaged(other.to_string()),
        }
    }
}

/// Whether a file that was read is not what it should be; other errors, such as too many open files, say nothing of it.
fn is_about_contents(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

fn read_all(
    database: &Database,
    fits: &mut impl FnMut(u64) -> bool,
    take: &mut impl FnMut(Record),
) -> Result<Settings, Problem> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let format = meta
        .get(FORMAT)?
        .and_then(|value| Some(u64::from_le_bytes(value.value().try_into().ok()?)))
        .ok_or_else(|| Problem::Damaged("it names no format".into()))?;
    if format > FORMAT_NOW {
        return Err(Problem::Later(format));
    }
    let settings = meta
        .get(SETTINGS)?
        .ok_or_else(|| Problem::Damaged("it has no settings".into()))?;
    let settings: Settings = serde_json::from_slice(settings.value())
        .map_err(|error| Problem::Damaged(format!("its settings: {error}")))?;
    if !(1..=MOST_DIMENSIONS).contains(&settings.dim) {
        let message = format!("its vectors have {} components", settings.dim);
        return Err(Problem::Damaged(message));
    }
    for entry in transaction.open_table(POINTS)?.iter()? {
        let (key, value) = entry?;
        let bad = |what: &str| Problem::Damaged(format!("a point {what}"));
        let id = PointId::from_key(key.value()).ok_or_else(|| bad("has no valid id"))?;
        let record = decode(id, value.value(), settings.dim)
            .ok_or_else(|| bad(&format!("({id}) is not what was written")))?;
        if !fits(record.point.bytes()) {
            return Err(Problem::NoMemory);
        }
        take(record);
    }
    Ok(settings)
}

/// Checksum, version, vector, payload; little-endian. The checksum covers the id too, so that no record passes for
/// another's.
fn encode(point: &Point, version: u64, record: &mut Vec<u8>) {
    record.clear();
    record.extend_from_slice(&[0; 8]);
    record.extend_from_slice(&version.to_le_bytes());
    for x in &point.vector {
        record.extend_from_slice(&x.to_le_bytes());
    }
    record.extend_from_slice(&point.payload);
    let sum = checksum(point.id, &record[8..]);
    record[..8].copy_from_slice(&sum.to_le_bytes());
}

fn decode(id: PointId, record: &[u8], dim: usize) -> Option<Record> {
    let (sum, rest) = record.split_at_checked(8)?;
    if checksum(id, rest).to_le_bytes() != sum {
        return None;
    }
    let (version, rest) = rest.split_at_checked(8)?;
    let (vector, payload) = rest.split_at_checked(dim.checked_mul(size_of::<f32>())?)?;
    let (components, _) = vector.as_chunks();
    Some(Record {
        point: Point {
            id,
            vector: components.iter().map(|x| f32::from_le_bytes(*x)).collect(),
            payload: Payload::from(payload),
        },
        version: u64::from_le_bytes(version.try_into().ok()?),
    })
}

fn checksum(id: PointId, bytes: &[u8]) -> u64 {
    let key = id.to_key();
    xxh3_64_with_seed(bytes, xxh3_64_with_seed(&key, 0))
}

#[cfg(test)]
mod tests;
