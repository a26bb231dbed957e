//! Indexes on disk, so that a restart loads them instead of building them.
//!
//! Beside an index stands a list of its rows: for each the point's id and a checksum of its vector. At start a row is
//! taken for a point's if both agree, whatever happened to the files meanwhile; any other row is dead, and a point
//! without a row is searched exactly. The list is written when the index is on disk, and removed before another takes
//! its place. The files are in a folder of their own, in which nothing is kept that belongs to no collection.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chiplet::Table;
use chiplet::index::{self, FileError, MemoryPolicy};
use xxhash_rust::xxh3::xxh3_64;

use super::collection::{Content, Ids};
use super::point::{Payload, PointId, stored_bytes};
use super::rows::{Base, IndexMemory, Row, View};
use super::schema::{IndexKind, Settings};
use super::store;
use crate::private;

const FOLDER: &str = "chiplet-indexes";
const TABLE: &str = "table";
const LIST: &str = "rows";
const MAGIC: [u8; 8] = *b"chiprow1";
/// An id and a checksum.
const RECORD: usize = 17 + 8;

/// Writes an index to a file.
pub(super) type Save = Box<dyn Fn(&Path) -> Result<(), FileError>>;

/// Where a collection's index is saved.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    table: PathBuf,
    list: PathBuf,
}

/// Makes the folder of the indexes, and removes from it what belongs to no collection.
pub(crate) fn prepare(data: &Path) -> io::Result<()> {
    let folder = data.join(FOLDER);
    private::folder(&folder)?;
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        let kind = path.extension().and_then(|extension| extension.to_str());
        let of = path.file_stem().map(|stem| data.join(stem));
        let collection = of.map(|file| file.with_added_extension(store::EXTENSION));
        let belongs = matches!(kind, Some(TABLE | LIST))
            && collection.is_some_and(|file| store::name_of(&file).is_some() && file.exists());
        if !belongs && let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "what belongs to no collection stays");
        }
    }
    Ok(())
}

impl Saved {
    /// Of the collection whose file is `store`.
    pub(crate) fn beside(store: &Path) -> Option<Self> {
        let folder = store.parent()?.join(FOLDER);
        let name = Path::new(store.file_stem()?);
        Some(Self {
            table: folder.join(name.with_added_extension(TABLE)),
            list: folder.join(name.with_added_extension(LIST)),
        })
    }

    /// Removes both files. What cannot be removed is not believed either, if it is another collection's.
    pub(crate) fn remove(&self) {
        for path in [&self.list, &self.table] {
            if let Err(error) = std::fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "a saved index was not removed");
            }
        }
    }

    /// Saves an index over the rows of `base`.
    pub(super) fn save(&self, settings: &Settings, base: &Base, save: &Save) -> Result<(), String> {
        let explained = |error: io::Error| format!("{}: {error}", self.list.display());
        match std::fs::remove_file(&self.list) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(explained(error)),
            _ => {}
        }
        self.sync_folder().map_err(explained)?;
        save(&self.table).map_err(|error| error.to_string())?;
        let mut list = Vec::with_capacity(32 + base.rows * RECORD);
        list.extend_from_slice(&MAGIC);
        list.extend_from_slice(&fingerprint(settings).to_le_bytes());
        for block in base.blocks.iter() {
            let vectors = block.vectors(settings.dim).chunks_exact(settings.dim);
            for (id, vector) in block.ids.iter().zip(vectors) {
                list.extend_from_slice(&id.to_key());
                list.extend_from_slice(&checksum(vector).to_le_bytes());
            }
        }
        let sum = xxh3_64(&list);
        list.extend_from_slice(&sum.to_le_bytes());
        let draft = self.list.with_extension("draft");
        let write = || -> io::Result<()> {
            let mut file = private::options()
                .create(true)
                .truncate(true)
                .open(&draft)?;
            file.write_all(&list)?;
            file.sync_all()?;
            std::fs::rename(&draft, &self.list)?;
            self.sync_folder()
        };
        write().map_err(explained)
    }

    fn sync_folder(&self) -> io::Result<()> {
        match self.list.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    /// The rows of the saved index, if it is one of these settings.
    fn rows(&self, settings: &Settings) -> Option<Vec<(PointId, u64)>> {
        let bytes = std::fs::read(&self.list).ok()?;
        let (list, sum) = bytes.split_last_chunk::<8>()?;
        if xxh3_64(list) != u64::from_le_bytes(*sum) {
            return None;
        }
        let (magic, list) = list.split_first_chunk::<8>()?;
        let (settled, list) = list.split_first_chunk::<8>()?;
        if *magic != MAGIC || u64::from_le_bytes(*settled) != fingerprint(settings) {
            return None;
        }
        let (records, rest) = list.as_chunks::<RECORD>();
        let record = |record: &[u8; RECORD]| {
            let (key, sum) = record.split_last_chunk::<8>()?;
            Some((PointId::from_key(key)?, u64::from_le_bytes(*sum)))
        };
        match rest.is_empty() {
            true => records.iter().map(record).collect(),
            false => None,
        }
    }

    fn table(
        &self,
        settings: &Settings,
        policy: MemoryPolicy,
    ) -> Option<(Arc<dyn Table>, IndexMemory)> {
        if matches!(settings.index, IndexKind::Flat) {
            return None;
        }
        match index::open(&self.table, policy) {
            Ok(table) => {
                let memory = IndexMemory::of(&table, table.granted());
                let table: Arc<dyn Table> = Arc::new(table);
                Some((table, memory))
            }
            Err(error) => {
                tracing::warn!(%error, "a saved index cannot be used and is built anew");
                None
            }
        }
    }

    /// Puts the saved index in its place, if there is one that fits, and memory for it, which is to lie as `policy`
    /// says.
    pub(crate) fn restore(&self, mut content: Content, policy: MemoryPolicy) -> Content {
        let settings = &content.settings;
        let Some(rows) = self.rows(settings) else {
            return content;
        };
        let found: Vec<Option<Row>> = rows
            .iter()
            .map(|(id, sum)| {
                let row = content.ids.get(id).copied()?;
                (checksum(content.view.stored(row).vector) == *sum).then_some(row)
            })
            .collect();
        let dead = found.iter().filter(|row| row.is_none()).count();
        // What is mostly dead is not worth its memory.
        if rows.is_empty() || dead > rows.len() / 2 {
            return content;
        }
        let Some((table, memory)) = self.table(settings, policy) else {
            return content;
        };
        let bytes = table.size_bytes() + dead as u64 * stored_bytes(settings.dim, 0);
        let fits = table.len() == rows.len() && table.dim() == settings.dim;
        if !fits || !content.held.try_load(bytes) {
            return content;
        }
        let ids: Vec<PointId> = rows.into_iter().map(|(id, _)| id).collect();
        (content.view, content.ids) = arranged(
            &content.view,
            &ids,
            &found,
            table,
            settings.index.is_coded(),
        );
        content.view.base.index_memory = memory;
        content
    }
}

/// The points of `view` with those that the index has in its order, and the rest behind them.
fn arranged(
    view: &View,
    ids: &[PointId],
    found: &[Option<Row>],
    table: Arc<dyn Table>,
    coded: bool,
) -> (View, Ids) {
    let mut vectors = Vec::with_capacity(ids.len() * view.dim);
    let (mut payloads, mut versions) = (Vec::new(), Vec::new());
    let mut rest: Ids = view
        .live_rows()
        .map(|row| (view.stored(row).id, row))
        .collect();
    let mut all = Ids::new();
    for ((row, id), place) in found.iter().zip(ids).zip(0..) {
        match row {
            Some(row) => {
                let stored = view.stored(*row);
                vectors.extend_from_slice(stored.vector);
                payloads.push(Payload::clone(stored.payload));
                versions.push(stored.version);
                rest.remove(id);
                all.insert(*id, place);
            }
            None => {
                vectors.resize(vectors.len() + view.dim, 0.0);
                payloads.push(Payload::default());
                versions.push(0);
            }
        }
    }
    let mut base = Base::cut(Arc::new(vectors), view.dim, ids, payloads, &versions);
    base.set_index(table, coded, view.metric);
    let whole = View {
        live: base.rows,
        base,
        ..View::new(view.dim, view.metric)
    };
    let mut edit = whole.edit();
    for (row, place) in found.iter().zip(0..) {
        if row.is_none() {
            edit.kill(place);
        }
    }
    for (id, row) in rest {
        let stored = view.stored(row);
        let payload = Payload::clone(stored.payload);
        let row = edit
            .push(id, stored.vector, payload, stored.version)
            .expect("no more rows than before");
        all.insert(id, row);
    }
    (edit.finish(), all)
}

/// What an index depends on besides points.
fn fingerprint(settings: &Settings) -> u64 {
    let Settings {
        dim,
        distance,
        index,
        ..
    } = settings;
    // All of it is numbers and texts.
    xxh3_64(&serde_json::to_vec(&(dim, distance, index)).expect("settings are JSON"))
}

fn checksum(vector: &[f32]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
    vector.iter().for_each(|x| hasher.update(&x.to_le_bytes()));
    hasher.digest()
}
