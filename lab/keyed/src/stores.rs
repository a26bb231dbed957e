//! What keyed rows are compared with, each used as its documentation advises for reading much.

use std::path::Path;

use chiplet_index::{KeyedRows, Pages};
use tempfile::TempDir;

/// Bytes of each value.
pub const VALUE: usize = 40;

pub struct Data {
    pub keys: Vec<u64>,
    pub values: Vec<[u8; VALUE]>,
}

impl Data {
    fn pairs(&self) -> impl Iterator<Item = (u64, &[u8; VALUE])> {
        self.keys.iter().copied().zip(&self.values)
    }

    /// By key, as sorted stores like to take them.
    fn sorted(&self) -> Vec<(u64, &[u8; VALUE])> {
        let mut pairs: Vec<_> = self.pairs().collect();
        pairs.sort_unstable_by_key(|(key, _)| *key);
        pairs
    }
}

pub trait Store {
    /// Copies the values of `keys` that there are, and counts them.
    fn get(&self, keys: &[u64], out: &mut [[u8; VALUE]]) -> usize;

    /// Memory, or bytes of its files; `None` if it does not say.
    fn bytes(&self) -> Option<u64>;
}

type Build = fn(&Data) -> Box<dyn Store>;

pub fn all() -> Vec<(&'static str, Build)> {
    vec![
        ("KeyedRows", |data| {
            let rows = KeyedRows::build(&data.keys, VALUE, |at| &data.values[at]);
            Box::new(rows.expect("rows of different keys"))
        }),
        // Maps have these where nobody asks the system for others.
        ("KeyedRows, small pages", |data| {
            let rows = KeyedRows::build_in(&data.keys, VALUE, |at| &data.values[at], Pages::Small);
            Box::new(rows.expect("rows of different keys"))
        }),
        ("hashbrown", |data| {
            Box::new(
                data.pairs()
                    .map(|(key, value)| (key, *value))
                    .collect::<hashbrown::HashMap<_, _>>(),
            )
        }),
        ("dashmap", |data| {
            Box::new(
                data.pairs()
                    .map(|(key, value)| (key, *value))
                    .collect::<dashmap::DashMap<_, _>>(),
            )
        }),
        ("lmdb (heed)", |data| Box::new(Lmdb::new(data))),
        ("redb", |data| Box::new(Redb::new(data))),
        #[cfg(feature = "rocksdb")]
        ("rocksdb", |data| Box::new(Rocks::new(data))),
    ]
}

impl Store for KeyedRows {
    fn get(&self, keys: &[u64], out: &mut [[u8; VALUE]]) -> usize {
        if let [key] = keys {
            return copy(KeyedRows::get(self, *key), &mut out[0]);
        }
        let mut found = [false; 100];
        self.get_many(
            keys,
            out[..keys.len()].as_flattened_mut(),
            &mut found[..keys.len()],
        )
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.size_bytes())
    }
}

impl Store for hashbrown::HashMap<u64, [u8; VALUE]> {
    fn get(&self, keys: &[u64], out: &mut [[u8; VALUE]]) -> usize {
        let found = keys
            .iter()
            .zip(out)
            .map(|(key, out)| copy(self.get(key).map(|value| &value[..]), out));
        found.sum()
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.allocation_size() as u64)
    }
}

impl Store for dashmap::DashMap<u64, [u8; VALUE]> {
    fn get(&self, keys: &[u64], out: &mut [[u8; VALUE]]) -> usize {
        let found = keys.iter().zip(out).map(|(key, out)| {
            let value = self.get(key);
            copy(value.as_ref().map(|value| &value.value()[..]), out)
        });
        found.sum()
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}

fn copy(value: Option<&[u8]>, out: &mut [u8; VALUE]) -> usize {
    match value {
        Some(value) => {
            out.copy_from_slice(value);
            1
        }
        None => 0,
    }
}

/// One snapshot serves all reads, as its documentation advises: to begin one costs as much as some reads.
struct Lmdb {
    read: heed::RoTxn<'static, heed::WithoutTls>,
    folder: TempDir,
    database: heed::Database<heed::types::U64<heed::byteorder::BE>, heed::types::Bytes>,
}

impl Lmdb {
    fn new(data: &Data) -> Self {
        let folder = folder();
        let mut options = heed::EnvOpenOptions::new().read_txn_without_tls();
        options.map_size((data.keys.len() * 200 + (64 << 20)).next_multiple_of(1 << 20));
        // SAFETY: the file is in a folder of this process alone.
        let env = unsafe { options.open(folder.path()) }.expect("a file can be made");
        let mut write = env.write_txn().expect("one writer");
        let database = env.create_database(&mut write, None).expect("a database");
        for (key, value) in data.sorted() {
            let put = database.put_with_flags(&mut write, heed::PutFlags::APPEND, &key, &value[..]);
            put.expect("room for all");
        }
        write.commit().expect("room for all");
        let read = env.static_read_txn().expect("a reader");
        Self {
            read,
            folder,
            database,
        }
    }
}

impl Store for Lmdb {
    fn get(&self, keys: &[u64], out: &mut [[u8; VALUE]]) -> usize {
        let found = keys.iter().zip(out).map(|(key, out)| {
            copy(
                self.database.get(&self.read, key).expect("a whole file"),
                out,
            )
        });
        found.sum()
    }

    fn bytes(&self) -> Option<u64> {
        Some(size(self.folder.path()))
    }
}

/// One snapshot serves all reads here, too.
struct Redb {
    table: redb::ReadOnlyTable<u64, [u8; VALUE]>,
    folder: TempDir,
    _database: redb::Database,
}

const TABLE: redb::TableDefinition<u64, [u8; VALUE]> = redb::TableDefinition::new("rows");

impl Redb {
    fn new(data: &Data) -> Self {
        let folder = folder();
        let mut builder = redb::Database::builder();
        builder.set_cache_size(data.keys.len() * 200 + (64 << 20));
        let database = builder
            .create(folder.path().join("rows"))
            .expect("a file can be made");
        let write = database.begin_write().expect("one writer");
        {
            let mut table = write.open_table(TABLE).expect("a table");
            for (key, value) in data.sorted() {
                table.insert(key, value).expect("room for all");
            }
        }
        write.commit().expect("room for all");
        let read = redb::ReadableDatabase::begin_read(&database).expect("a reader");
        let table = read.open_table(TABLE).expect("the table");
        Self {
            table,
            folder,
            _database: database,
        }
    }
}

impl Store for Redb {
    fn get(&self, keys: &[u64], out: &mut [[u8; VALUE]]) -> usize {
        let found = keys.iter().zip(out).map(|(key, out)| {
            let value = self.table.get(key).expect("a whole file");
            copy(
                value
                    .as_ref()
                    .map(|value| value.value())
                    .as_ref()
                    .map(|value| &value[..]),
                out,
            )
        });
        found.sum()
    }

    fn bytes(&self) -> Option<u64> {
        Some(size(self.folder.path()))
    }
}

#[cfg(feature = "rocksdb")]
struct Rocks {
    folder: TempDir,
    database: rocksdb::DB,
}

#[cfg(feature = "rocksdb")]
impl Rocks {
    fn new(data: &Data) -> Self {
        let folder = folder();
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        options.optimize_for_point_lookup(2_048);
        let database = rocksdb::DB::open(&options, folder.path()).expect("a file can be made");
        for pairs in data.sorted().chunks(100_000) {
            let mut batch = rocksdb::WriteBatch::default();
            pairs
                .iter()
                .for_each(|(key, value)| batch.put(key.to_be_bytes(), value));
            database.write(batch).expect("room for all");
        }
        database.compact_range(None::<&[u8]>, None::<&[u8]>);
        Self { folder, database }
    }
}

#[cfg(feature = "rocksdb")]
impl Store for Rocks {
    fn get(&self, keys: &[u64], out: &mut [[u8; VALUE]]) -> usize {
        if let [key] = keys {
            let value = self
                .database
                .get_pinned(key.to_be_bytes())
                .expect("a whole file");
            return copy(value.as_deref(), &mut out[0]);
        }
        let keys = keys.iter().map(|key| key.to_be_bytes());
        let values = self.database.multi_get(keys);
        let found = values
            .iter()
            .zip(out)
            .map(|(value, out)| copy(value.as_ref().expect("a whole file").as_deref(), out));
        found.sum()
    }

    fn bytes(&self) -> Option<u64> {
        Some(size(self.folder.path()))
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn size(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let files = std::fs::read_dir(folder).expect("the folder");
    files
        .map(|file| {
            file.and_then(|file| file.metadata())
                .map_or(0, |of| of.blocks() * 512)
        })
        .sum()
}
