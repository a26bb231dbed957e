//! One input for each reader of outside data: bytes become a file, and what is read of it is checked.
//! Run by the fuzz targets in `fuzz/` and, over the committed seeds, by `seeds.rs`.

use chiplet_workload::dataset::{DatasetError, GloveSample, IdRows, VectorSet};
use chiplet_workload::truth::{Metric, Truth, TruthCache};
use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

thread_local! {
    static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder can be made");
}

/// A file of these bytes, kept until the next of that name.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = FOLDER.with(|folder| folder.path().join(name));
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("folders can be made");
    fs::write(&path, bytes).expect("files can be written");
    path
}

/// A refusal says why, without quoting much more than the file.
fn told(error: &DatasetError, data: &[u8]) {
    let length = error.to_string().len();
    // A line that is quoted has its characters escaped, with up to ten bytes each.
    assert!(length > 0 && length < 1024 + 10 * data.len());
}

/// The first byte chooses the format, the others are the file.
pub fn vectors(data: &[u8]) {
    let Some((format, bytes)) = data.split_first() else {
        return;
    };
    match format % 8 {
        0 => set("fvecs", bytes),
        1 => set("bvecs", bytes),
        2 => set("fbin", bytes),
        3 => set("u8bin", bytes),
        4 => set("npy", bytes),
        5 => ids("ivecs", bytes),
        6 => ids("ibin", bytes),
        _ => words(bytes),
    }
}

/// Whether these are exactly the bytes of a file of `rows` rows of `dim` values each.
fn is_file_of(extension: &str, bytes: &[u8], rows: usize, dim: usize, values: Vec<u8>) -> bool {
    let dim_bytes = (dim as u32).to_le_bytes();
    if extension.ends_with("bin") {
        return bytes == [&(rows as u32).to_le_bytes()[..], &dim_bytes, &values].concat();
    }
    let row_bytes = values.len() / rows;
    let written = values.chunks(row_bytes);
    bytes
        == written
            .flat_map(|row| [&dim_bytes[..], row].concat())
            .collect::<Vec<_>>()
}

fn set(extension: &str, bytes: &[u8]) {
    let found = match VectorSet::read(file(&format!("file.{extension}"), bytes)) {
        Ok(found) => found,
        Err(error) => return told(&error, bytes),
    };
    sound(&found);
    let values = found.as_slice();
    let as_bytes = || values.iter().map(|&v| v as u8).collect();
    let as_floats = || values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let (rows, dim) = (found.len(), found.dim());
    match extension {
        "bvecs" | "u8bin" => {
            assert!(is_file_of(extension, bytes, rows, dim, as_bytes()));
        }
        "fvecs" | "fbin" => {
            assert!(is_file_of(extension, bytes, rows, dim, as_floats()));
        }
        _ => {
            let mut written: Vec<u8> = as_floats();
            if !bytes.ends_with(&written) {
                // In Fortran's order: column after column.
                let column = |c| values.iter().skip(c).step_by(dim);
                let all = (0..dim).flat_map(column);
                written = all.flat_map(|v| v.to_le_bytes()).collect();
            }
            assert!(bytes.ends_with(&written) && bytes.starts_with(b"\x93NUMPY"));
        }
    }
}

fn ids(extension: &str, bytes: &[u8]) {
    match IdRows::read(file(&format!("file.{extension}"), bytes)) {
        Ok(found) => {
            let values = found.rows().flatten().flat_map(|v| v.to_le_bytes());
            let (rows, width) = (found.len(), found.width());
            assert!(is_file_of(extension, bytes, rows, width, values.collect()));
        }
        Err(error) => told(&error, bytes),
    }
}

/// The first byte chooses which file of a folder of words the others replace.
fn words(data: &[u8]) {
    let floats: Vec<u8> = [[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]]
        .iter()
        .flat_map(|row| {
            [
                2_u32.to_le_bytes(),
                row[0].to_le_bytes(),
                row[1].to_le_bytes(),
            ]
            .concat()
        })
        .collect();
    let near: Vec<u8> = [2_u32, 2, 1, 2, 0, 1]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let files: [(&str, &[u8]); 5] = [
        ("vectors.fvecs", &floats),
        ("words.txt", b"the\nof\nand\n"),
        ("queries.txt", b"2\n0\n"),
        ("neighbors-cosine.ivecs", &near),
        ("neighbors-l2.ivecs", &near),
    ];
    let (which, bytes) = data.split_first().unwrap_or((&5, &[]));
    let mut folder = PathBuf::new();
    for (at, (name, content)) in files.iter().enumerate() {
        let content = if at == usize::from(*which) {
            bytes
        } else {
            content
        };
        let path = file(&format!("words/{name}"), content);
        folder = path.parent().expect("it is in a folder").to_owned();
    }
    match GloveSample::read(folder) {
        Ok(sample) => {
            sound(&sample.vectors);
            let rows = sample.vectors.len();
            assert_eq!(sample.vectors.labels().map(<[_]>::len), Some(rows));
            assert!(sample.queries.iter().all(|&row| row < rows));
            for near in [&sample.cosine, &sample.l2] {
                assert_eq!(near.len(), sample.queries.len());
                assert!(near.rows().flatten().all(|&id| (id as usize) < rows));
            }
        }
        Err(error) => told(&error, data),
    }
}

fn sound(set: &VectorSet) {
    assert!(!set.is_empty() && set.dim() > 0);
    assert_eq!(set.as_slice().len(), set.len() * set.dim());
    assert!(set.as_slice().iter().all(|v| v.is_finite()));
}

/// The bytes are an HDF5 file.
#[cfg(feature = "hdf5")]
pub fn hdf5(data: &[u8]) {
    let path = file("file.hdf5", data);
    match VectorSet::read(&path) {
        Ok(found) => sound(&found),
        Err(error) => told(&error, data),
    }
    match chiplet_workload::dataset::AnnBenchmark::read(&path) {
        Ok(found) => {
            sound(&found.train);
            sound(&found.test);
            assert_eq!(found.train.dim(), found.test.dim());
            assert_eq!(found.neighbors.len(), found.test.len());
            let mut ids = found.neighbors.rows().flatten();
            assert!(ids.all(|&id| (id as usize) < found.train.len()));
        }
        Err(error) => told(&error, data),
    }
}

/// Bytes of a cache's file before the first query: magic, key, `k`, number of queries.
const HEADER: usize = 48;

/// The first byte chooses how the others damage the file of a small search, and whether its checksum is
/// put right again.
pub fn truth_cache(data: &[u8]) {
    let line = |values: &[f32]| VectorSet::new(values.to_vec(), 1).expect("all are finite");
    let (vectors, queries) = (line(&[0.0, 1.0, 5.0, 3.0, 9.0]), line(&[1.0, 4.0]));
    let cache = TruthCache::new(FOLDER.with(|folder| folder.path().join("truth")));
    let _ = fs::remove_dir_all(cache.folder());
    let exact = Truth::exact(&vectors, &queries, 3, Metric::L2).expect("there is a truth");
    let cached = || {
        let read = Truth::exact_cached(&vectors, &queries, 3, Metric::L2, &cache, |_, _| ());
        read.expect("there is a truth, whatever the cache holds")
    };
    assert!(!cached().found);
    let path = only_file(cache.folder());
    let whole = fs::read(&path).expect("the file can be read");

    let (how, bytes) = data.split_first().unwrap_or((&0, &[]));
    let mut damaged = match how / 2 % 3 {
        0 => bytes.to_vec(),
        1 => [&whole[..HEADER], bytes].concat(),
        _ => {
            let mut changed = whole[..whole.len() - 16].to_vec();
            for change in bytes.chunks_exact(2) {
                let at = usize::from(change[0]) % changed.len();
                changed[at] = change[1];
            }
            changed
        }
    };
    if how % 2 == 1 {
        damaged.extend(xxh3_128(&damaged).to_le_bytes());
    }
    fs::write(&path, &damaged).expect("files can be written");
    let again = cached();
    assert_eq!((again.truth.len(), again.truth.k()), (2, 3));
    for query in 0..2 {
        let near = again.truth.neighbors(query);
        let nearer = |a: f64, b: f64| a.total_cmp(&b).is_le();
        assert!(near.is_sorted_by(|a, b| nearer(a.distance, b.distance)));
        assert!(near.iter().all(|n| (n.id as usize) < vectors.len()));
        assert!((0.0..=1.0).contains(&again.truth.recall(query, [0, 1, 2, u32::MAX])));
    }
    if !again.found {
        assert_eq!(again.truth, exact);
        assert_eq!(fs::read(&path).expect("it was written again"), whole);
        assert!(!again.warnings.is_empty() && !again.warnings[0].to_string().is_empty());
    } else if damaged != whole {
        // Only whoever puts the checksum right can make the cache lie.
        assert!(how % 2 == 1);
    }
}

fn only_file(folder: &Path) -> PathBuf {
    let mut files = fs::read_dir(folder).expect("the folder can be read");
    let file = files.next().expect("there is a file");
    file.expect("the folder can be read").path()
}
