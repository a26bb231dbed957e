//! HDF5 files as h5py writes them: read whole, or refused with the reason, however they are damaged.
//!
//! The files are in `data/`, written by `data/make_hdf5.py`.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use chiplet_workload::dataset::{AnnBenchmark, DatasetError, Problem, VectorSet};
use chiplet_workload::truth::{Metric, Truth};

/// Files that hold the same vectors, and the metric that each names.
const WHOLE: [(&str, Metric); 6] = [
    ("contiguous.hdf5", Metric::L2),
    ("wide.hdf5", Metric::Cosine),
    ("gzip.hdf5", Metric::L2),
    ("v114.hdf5", Metric::L2),
    ("lzf.hdf5", Metric::L2),
    ("bytes.hdf5", Metric::L2),
];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The vectors by the formula of the script.
fn train() -> VectorSet {
    let value = |at| ((5 * (at / 3) + 3 * (at % 3)) % 11) as f32;
    VectorSet::new((0..21).map(value).collect(), 3).unwrap()
}

/// What is wrong with which part of a file of these bytes.
fn refused(bytes: &[u8]) -> (String, Problem) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.hdf5");
    fs::write(&path, bytes).unwrap();
    match AnnBenchmark::read(&path) {
        Err(DatasetError::Hdf5 { part, problem, .. }) => (part, problem),
        other => panic!("expected a refused file, found {other:?}"),
    }
}

/// The bytes of `file` with the only place that holds `old` changed to `new`, which has the same length.
fn replaced(file: &str, old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = fs::read(data(file)).unwrap();
    let found: Vec<_> = (0..=bytes.len() - old.len())
        .filter(|&at| bytes[at..].starts_with(old))
        .collect();
    let &[at] = &found[..] else {
        panic!("{old:?} is at {found:?} of {file}; expected it once");
    };
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn vectors_come_out_as_they_were_written_however_hdf5_stores_them() {
    let train = train();
    let mut test = train.select(&[6, 0, 3, 5]).as_slice().to_vec();
    test.iter_mut().step_by(3).for_each(|v| *v += 0.25);
    let test = VectorSet::new(test, 3).unwrap();
    for (name, metric) in WHOLE {
        let found = AnnBenchmark::read(data(name)).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(found.train, train, "{name}");
        assert_eq!(found.test, test, "{name}");
        assert_eq!(found.metric, metric, "{name}");
        assert_eq!(VectorSet::read(data(name)).unwrap(), train, "{name}");
    }
}

#[test]
fn neighbours_are_the_true_ones_by_the_metric_of_the_file() {
    for (name, metric) in WHOLE {
        let file = AnnBenchmark::read(data(name)).unwrap();
        let truth = Truth::exact(&file.train, &file.test, 2, metric).unwrap();
        assert_eq!(
            (file.neighbors.len(), file.neighbors.width()),
            (4, 2),
            "{name}"
        );
        for (query, ids) in file.neighbors.rows().enumerate() {
            assert_eq!(
                truth.ids(query).collect::<Vec<_>>(),
                ids,
                "{name}, query {query}"
            );
        }
    }
}

#[test]
fn files_that_hold_no_vectors_are_refused_with_the_reason() {
    let message = |name| AnnBenchmark::read(data(name)).unwrap_err().to_string();
    let bits = message("bit.hdf5");
    assert!(
        bits.contains("`distance`") && bits.contains("hamming"),
        "{bits}"
    );
    let bits = VectorSet::read(data("bit.hdf5")).unwrap_err().to_string();
    assert!(
        bits.contains("`train`") && bits.contains("expected f32"),
        "{bits}"
    );
    let sparse = message("sparse.hdf5");
    assert!(
        sparse.contains("`train`") && sparse.contains("2 of 4 chunks"),
        "{sparse}"
    );
    let script = message("make_hdf5.py");
    assert!(script.contains("make_hdf5.py, the file"), "{script}");
    let missing = AnnBenchmark::read(data("none.hdf5"));
    assert!(matches!(missing, Err(DatasetError::Open { .. })));
    assert!(matches!(
        AnnBenchmark::read(data("")),
        Err(DatasetError::Open { .. })
    ));
}

#[test]
fn a_part_that_is_missing_is_named() {
    let mut bytes = fs::read(data("contiguous.hdf5")).unwrap();
    while let Some(at) = bytes.windows(9).position(|w| w == b"neighbors") {
        bytes[at..at + 9].copy_from_slice(b"neighbora");
    }
    assert_eq!(refused(&bytes).0, "dataset `neighbors`");
    let (part, problem) = refused(&replaced("contiguous.hdf5", b"distance\0", b"distancx\0"));
    assert_eq!(part, "attribute `distance`");
    assert!(problem.to_string().contains("missing"), "{problem}");
}

#[test]
fn more_than_the_file_stores_is_refused_before_anything_is_allocated() {
    // A dataspace holds the sizes as they are, then the largest that they may become.
    let shape = words(&[7, 3, 7, 3]);
    let grown = |rows, dim| words(&[rows, dim, rows, dim]);
    for (rows, dim) in [(1 << 40, 3), (7, 1 << 40), (3000, 3)] {
        let (part, problem) = refused(&replaced("contiguous.hdf5", &shape, &grown(rows, dim)));
        assert_eq!(part, "dataset `train`");
        let needed = rows * dim * 4;
        assert!(
            matches!(problem, Problem::Truncated { needed: n, left } if n == needed && left < n),
            "{rows} x {dim}: {problem}"
        );
    }
    let (_, problem) = refused(&replaced("contiguous.hdf5", &shape, &grown(1 << 62, 3)));
    assert_eq!(
        problem,
        Problem::TooLarge {
            rows: 1 << 62,
            dim: 3
        }
    );
    let (_, problem) = refused(&replaced("contiguous.hdf5", &shape, &grown(0, 3)));
    assert_eq!(problem, Problem::Empty);

    // In chunks of 3 x 2: more chunks than bytes, more chunks than are stored.
    let (_, problem) = refused(&replaced("gzip.hdf5", &shape, &grown(1 << 40, 3)));
    assert!(
        problem
            .to_string()
            .contains("chunks in a file of 19200 bytes"),
        "{problem}"
    );
    let (_, problem) = refused(&replaced("gzip.hdf5", &shape, &grown(3000, 3)));
    assert!(
        problem.to_string().contains("6 of 2000 chunks"),
        "{problem}"
    );
}

#[test]
fn values_that_cannot_be_are_refused() {
    // Row 1 of the vectors is 5, 8, 0.
    let row: Vec<u8> = [5_f32, 8.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let nan: Vec<u8> = [5_f32, f32::NAN]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let (part, problem) = refused(&replaced("contiguous.hdf5", &row, &nan));
    assert_eq!(part, "dataset `train`");
    assert!(
        matches!(
            problem,
            Problem::NotFinite {
                row: 1,
                column: 1,
                ..
            }
        ),
        "{problem}"
    );

    let near = AnnBenchmark::read(data("contiguous.hdf5"))
        .unwrap()
        .neighbors;
    let ids = |ids: [i32; 4]| ids.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let first = [near.row(0), near.row(1)].concat();
    let old = ids(std::array::from_fn(|at| first[at] as i32));
    let changed = |new| {
        let mut new_ids: [i32; 4] = std::array::from_fn(|at| first[at] as i32);
        new_ids[3] = new;
        refused(&replaced("contiguous.hdf5", &old, &ids(new_ids)))
    };
    let part = "dataset `neighbors`".to_owned();
    assert_eq!(
        changed(-5),
        (part.clone(), Problem::NegativeId { row: 1, id: -5 })
    );
    assert_eq!(changed(7), (part, Problem::IdTooLarge { id: 7, rows: 7 }));
}

#[test]
fn no_damaged_byte_and_no_cut_makes_the_reader_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.hdf5");
    let (mut read, mut refused) = (0, 0);
    let mut check = || match AnnBenchmark::read(&path) {
        Ok(found) => {
            read += 1;
            assert_eq!(found.neighbors.len(), found.test.len());
            let finite = |set: &VectorSet| set.as_slice().iter().all(|v| v.is_finite());
            assert!(finite(&found.train) && finite(&found.test));
        }
        Err(DatasetError::Hdf5 { .. }) => refused += 1,
        Err(other) => panic!("{other}"),
    };
    for (name, _) in WHOLE {
        let whole = fs::read(data(name)).unwrap();
        fs::write(&path, &whole).unwrap();
        let mut file = fs::File::options().write(true).open(&path).unwrap();
        let mut put = |at: usize, byte: u8| {
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.write_all(&[byte]).unwrap();
        };
        // Most bytes are 0 and most of those unused, so of them only some are damaged.
        for at in (0..whole.len()).filter(|at| whole[*at] != 0 || at % 5 == 0) {
            for byte in [whole[at] ^ 1 << (at % 8), 0xff] {
                put(at, byte);
                check();
            }
            put(at, whole[at]);
        }
        for length in (0..whole.len()).rev().step_by(37) {
            file.set_len(length as u64).unwrap();
            check();
        }
    }
    assert!(
        read > 1000 && refused > 1000,
        "{read} read, {refused} refused"
    );
}
