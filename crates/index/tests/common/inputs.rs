//! One input for each reader of outside data: bytes become a file, and what is made of it is checked. Run by the fuzz
//! targets in `fuzz/` and, over the committed seeds, by `seeds.rs`.

use std::fs;
use std::path::Path;

use chiplet_executor::{Context, Query, Table};
use chiplet_index::{
    BuildError, FileError, FlatTable, HnswConfig, HnswTable, IvfTable, Metric, Pages,
};
use xxhash_rust::xxh3::Xxh3;

thread_local! {
    static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder can be made");
}

/// Calls `open` with a folder that has files of these names and bytes, kept until the next of the name.
fn with_files<T>(files: &[(&str, &[u8])], open: impl FnOnce(&Path) -> T) -> T {
    FOLDER.with(|folder| {
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).expect("files can be written");
        }
        open(folder.path())
    })
}

/// Asserts that bytes from outside were refused, with a reason, or became a table that answers.
pub fn refused_or_sound(opened: Result<HnswTable, BuildError>) {
    match opened {
        Ok(table) => {
            for ef in [1, 8, table.len()] {
                let query = Query::new(vec![0.5; table.dim()]).top(5).ef(ef);
                let hits = table.search(&query, &mut Context::default());
                let hits = hits.expect("a query that fits is answered");
                assert_eq!(hits.len(), table.len().min(5));
                assert!(hits.is_sorted());
            }
        }
        Err(error) => {
            let told = error.to_string();
            assert!(!told.is_empty() && told.len() < 4000, "{told}");
        }
    }
}

/// A file of hnswlib.
pub fn hnswlib(data: &[u8]) {
    with_files(&[("file", data)], |folder| {
        for metric in [Metric::L2, Metric::Cosine] {
            let config = HnswConfig::new(metric);
            refused_or_sound(HnswTable::from_hnswlib(folder.join("file"), 4, &config));
        }
    });
}

/// The first two bytes are the length of the graph's file, the others that file and the rows'.
pub fn hnsw_rs_dump(data: &[u8]) {
    let Some((length, files)) = data.split_first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_le_bytes(*length)).min(files.len());
    let (graph, rows) = files.split_at(length);
    let files = [("dump.hnsw.graph", graph), ("dump.hnsw.data", rows)];
    with_files(&files, |folder| {
        for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
            let config = HnswConfig::new(metric);
            refused_or_sound(HnswTable::from_hnsw_rs_dump(folder, "dump", &config));
        }
    });
}

/// Bytes before the header of a table's file: magic, version, the header's length, the checksum of these and the header.
const PREFIX: usize = 24;

/// A table's file, whose header's checksum is put right, as damage that the checksum shows is refused at once. Loaded, it is
/// refused or sound; mapped, its rows and links may be anything, and every search must still end well.
pub fn table_file(data: &[u8]) {
    let mut file = data.to_vec();
    if let Some(length) = file.get(12..16) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        if let Some(header) = file.get(PREFIX..PREFIX.saturating_add(length)) {
            let mut sum = Xxh3::new();
            sum.update(&file[..16]);
            sum.update(header);
            let sum = sum.digest().to_le_bytes();
            file[16..PREFIX].copy_from_slice(&sum);
        }
    }
    with_files(&[("file", &file)], |folder| {
        let path = folder.join("file");
        ends_well(HnswTable::map(&path));
        ends_well(HnswTable::load(&path, Pages::Small));
        ends_well(IvfTable::map(&path));
        ends_well(IvfTable::load(&path, Pages::Small));
        ends_well(FlatTable::map(&path));
        ends_well(FlatTable::load(&path, Pages::Small));
    });
}

/// Asserts that a search of what was opened ends, with at most so many rows as were asked for.
fn ends_well(opened: Result<impl Table, FileError>) {
    let Ok(table) = opened else { return };
    for top in [1, 5] {
        let query = Query::new(vec![0.5; table.dim()]).top(top).ef(8);
        // Distances of damaged rows may be NaN, and an error is as good.
        if let Ok(hits) = table.search(&query, &mut Context::default()) {
            assert!(hits.len() <= top);
        }
    }
}
