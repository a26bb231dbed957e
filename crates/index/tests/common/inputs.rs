//! One input for each reader of outside data: bytes become a file, and what is made of it is checked. Run by the fuzz
//! targets in `fuzz/` and, over the committed seeds, by `seeds.rs`.

use std::fs;
use std::path::Path;

use chiplet_executor::{Query, Table, Work};
use chiplet_index::{BuildError, HnswConfig, HnswTable, Metric};

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
                let hits = table.search(&query, &mut Work::default());
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
