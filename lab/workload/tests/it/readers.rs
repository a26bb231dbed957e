//! Files of vectors: what was written is read back, and no damage makes a reader panic, over-allocate or
//! return something else in silence.

use std::fs;
use std::path::PathBuf;

use chiplet_workload::dataset::{DatasetError, GloveSample, IdRows, Problem, VectorSet};
use proptest::prelude::*;
use tempfile::TempDir;

/// A matrix whose values every format holds exactly: whole numbers of a byte.
#[derive(Clone, Debug)]
struct Matrix {
    values: Vec<u8>,
    dim: usize,
}

impl Matrix {
    fn rows(&self) -> usize {
        self.values.len() / self.dim
    }

    fn floats(&self) -> Vec<f32> {
        self.values.iter().copied().map(f32::from).collect()
    }

    /// The file's bytes in the format that `extension` names.
    fn encode(&self, extension: &str) -> Vec<u8> {
        let value: fn(u8) -> Vec<u8> = match extension {
            "fvecs" | "fbin" => |v| f32::from(v).to_le_bytes().to_vec(),
            "ivecs" | "ibin" => |v| i32::from(v).to_le_bytes().to_vec(),
            "bvecs" | "u8bin" => |v| vec![v],
            _ => unreachable!("{extension}"),
        };
        let dim = (self.dim as u32).to_le_bytes();
        let mut bytes = Vec::new();
        if extension.ends_with("bin") {
            bytes.extend((self.rows() as u32).to_le_bytes());
            bytes.extend(dim);
        }
        for row in self.values.chunks(self.dim) {
            if extension.ends_with("vecs") {
                bytes.extend(dim);
            }
            bytes.extend(row.iter().flat_map(|&v| value(v)));
        }
        bytes
    }

    fn encode_npy(&self, fortran: bool) -> Vec<u8> {
        let values = self.floats();
        let mut data = Vec::new();
        if fortran {
            for column in 0..self.dim {
                data.extend(
                    values
                        .iter()
                        .skip(column)
                        .step_by(self.dim)
                        .flat_map(|v| v.to_le_bytes()),
                );
            }
        } else {
            data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        }
        let order = if fortran { "True" } else { "False" };
        npy(
            &format!(
                "'<f4', 'fortran_order': {order}, 'shape': ({}, {}), ",
                self.rows(),
                self.dim
            ),
            &data,
        )
    }
}

/// A `.npy` file; `facts` is its header's dict after `'descr': `.
fn npy(facts: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {facts}}}   \n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn matrix() -> impl Strategy<Value = Matrix> {
    (1_usize..9, 1_usize..9).prop_flat_map(|(rows, dim)| {
        prop::collection::vec(any::<u8>(), rows * dim)
            .prop_map(move |values| Matrix { values, dim })
    })
}

/// A file of its own for every call, gone with the value.
struct File {
    path: PathBuf,
    _folder: TempDir,
}

fn file(extension: &str, bytes: &[u8]) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("file.{extension}"));
    fs::write(&path, bytes).unwrap();
    File {
        path,
        _folder: folder,
    }
}

fn vectors(extension: &str, bytes: &[u8]) -> Result<VectorSet, DatasetError> {
    VectorSet::read(&file(extension, bytes).path)
}

fn ids(extension: &str, bytes: &[u8]) -> Result<IdRows, DatasetError> {
    IdRows::read(&file(extension, bytes).path)
}

/// What is wrong with a file, and where.
fn problem<T: std::fmt::Debug>(read: Result<T, DatasetError>) -> (u64, Problem) {
    match read {
        Err(DatasetError::Malformed {
            offset, problem, ..
        }) => (offset, problem),
        other => panic!("expected a malformed file, found {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn vectors_are_read_back_as_written(matrix in matrix()) {
        let expected = VectorSet::new(matrix.floats(), matrix.dim).unwrap();
        for extension in ["fvecs", "bvecs", "fbin", "u8bin"] {
            prop_assert_eq!(&vectors(extension, &matrix.encode(extension)).unwrap(), &expected);
        }
        for fortran in [false, true] {
            prop_assert_eq!(&vectors("npy", &matrix.encode_npy(fortran)).unwrap(), &expected);
        }
    }

    #[test]
    fn ids_are_read_back_as_written(matrix in matrix()) {
        for extension in ["ivecs", "ibin"] {
            let found = ids(extension, &matrix.encode(extension)).unwrap();
            prop_assert_eq!((found.len(), found.width()), (matrix.rows(), matrix.dim));
            let flat: Vec<u32> = found.rows().flatten().copied().collect();
            prop_assert_eq!(flat, matrix.values.iter().copied().map(u32::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn random_bytes_are_an_error_or_finite_vectors(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for extension in ["fvecs", "bvecs", "fbin", "u8bin", "npy"] {
            if let Ok(set) = vectors(extension, &bytes) {
                prop_assert!(set.as_slice().iter().all(|v| v.is_finite()));
                prop_assert!(!set.is_empty());
            }
        }
        for extension in ["ivecs", "ibin"] {
            let _ = ids(extension, &bytes);
        }
    }

    #[test]
    fn one_damaged_byte_is_an_error_or_finite_vectors(
        matrix in matrix(), at: prop::sample::Index, byte: u8,
    ) {
        let mut files: Vec<_> =
            ["fvecs", "bvecs", "fbin", "u8bin"].map(|e| (e, matrix.encode(e))).into();
        files.push(("npy", matrix.encode_npy(true)));
        for (extension, mut bytes) in files {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(set) = vectors(extension, &bytes) {
                prop_assert!(set.as_slice().iter().all(|v| v.is_finite()));
            }
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let matrix = Matrix {
        values: (1..=12).collect(),
        dim: 4,
    };
    let mut files: Vec<_> = ["fbin", "u8bin", "ibin", "fvecs", "bvecs", "ivecs"]
        .map(|extension| (extension, matrix.encode(extension)))
        .into();
    files.push(("npy", matrix.encode_npy(false)));
    files.push(("npy", matrix.encode_npy(true)));
    for (extension, bytes) in files {
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            let rows = if extension.starts_with('i') {
                ids(extension, cut).map(|ids| ids.len())
            } else {
                vectors(extension, cut).map(|set| set.len())
            };
            // A .?vecs file has no row count, so a cut between rows leaves a shorter file that is whole.
            let row_bytes = bytes.len() / matrix.rows();
            let whole = extension.ends_with("vecs") && length > 0 && length % row_bytes == 0;
            match rows {
                Ok(rows) => assert!(
                    whole && rows == length / row_bytes,
                    "{extension}, {length} bytes"
                ),
                Err(error) => {
                    assert!(!whole, "{extension}, {length} bytes: {error}");
                    let (offset, _) = problem::<()>(Err(error));
                    assert!(offset <= length as u64, "{extension}, {length} bytes");
                }
            }
        }
    }
}

#[test]
fn a_huge_announcement_is_refused_before_anything_is_allocated() {
    let most = u32::MAX.to_le_bytes();
    let header = [most, most].concat();
    for extension in ["fbin", "u8bin"] {
        let (offset, found) = problem(vectors(extension, &header));
        assert_eq!(offset, 8);
        assert!(matches!(
            found,
            Problem::Truncated { left: 0, .. } | Problem::TooLarge { .. }
        ));
    }
    let facts =
        "'<f4', 'fortran_order': False, 'shape': (18446744073709551615, 4611686018427387905), ";
    assert!(matches!(
        problem(vectors("npy", &npy(facts, &[]))).1,
        Problem::TooLarge { .. }
    ));
    let row = i32::MAX.to_le_bytes();
    assert!(matches!(
        problem(vectors("fvecs", &row)).1,
        Problem::Truncated { .. }
    ));
}

#[test]
fn errors_say_where_and_what() {
    let matrix = Matrix {
        values: (1..=6).collect(),
        dim: 2,
    };
    let nan = f32::NAN.to_le_bytes();

    // Row 1, column 1 in each layout.
    let mut fvecs = matrix.encode("fvecs");
    fvecs[20..24].copy_from_slice(&nan);
    let mut fbin = matrix.encode("fbin");
    fbin[20..24].copy_from_slice(&nan);
    let mut npy_file = matrix.encode_npy(true);
    let npy_at = npy_file.len() - 8;
    npy_file[npy_at..npy_at + 4].copy_from_slice(&nan);
    for (extension, bytes, at) in [
        ("fvecs", fvecs, 20),
        ("fbin", fbin, 20),
        ("npy", npy_file, npy_at),
    ] {
        let (offset, found) = problem(vectors(extension, &bytes));
        assert_eq!(offset, at as u64, "{extension}");
        assert!(
            matches!(
                found,
                Problem::NotFinite {
                    row: 1,
                    column: 1,
                    ..
                }
            ),
            "{extension}: {found}"
        );
    }

    let mut changed = matrix.encode("bvecs");
    changed[6] = 3;
    assert_eq!(
        problem(vectors("bvecs", &changed)),
        (
            6,
            Problem::DimChanged {
                row: 1,
                dim: 3,
                expected: 2
            }
        )
    );

    let mut appended = matrix.encode("fbin");
    appended.push(0);
    assert_eq!(
        problem(vectors("fbin", &appended)),
        (8, Problem::Trailing { extra: 1 })
    );

    for (extension, at) in [("ivecs", 20), ("ibin", 20)] {
        let mut negative = matrix.encode(extension);
        negative[at..at + 4].copy_from_slice(&(-1_i32).to_le_bytes());
        let expected = (at as u64, Problem::NegativeId { row: 1, id: -1 });
        assert_eq!(problem(ids(extension, &negative)), expected, "{extension}");
    }

    assert_eq!(
        problem(vectors("fvecs", &[0; 8])),
        (0, Problem::BadDim { dim: 0 })
    );
    let found = file("fvecs", &[]);
    let message = VectorSet::read(&found.path).unwrap_err().to_string();
    assert!(
        message.contains("file.fvecs") && message.contains("no rows"),
        "{message}"
    );
}

#[test]
fn files_that_cannot_hold_vectors_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = VectorSet::read(folder.path().join("none.fvecs"));
    assert!(matches!(missing, Err(DatasetError::Open { .. })));
    fs::create_dir(folder.path().join("folder.fvecs")).unwrap();
    let folder_itself = VectorSet::read(folder.path().join("folder.fvecs"));
    assert!(matches!(folder_itself, Err(DatasetError::Open { .. })));
    for name in ["vectors.csv", "ids.ivecs", "none"] {
        let unknown = VectorSet::read(folder.path().join(name));
        assert!(
            matches!(unknown, Err(DatasetError::UnknownFormat { .. })),
            "{name}"
        );
    }
    assert!(matches!(
        IdRows::read("v.fvecs"),
        Err(DatasetError::UnknownFormat { .. })
    ));
}

#[cfg(target_os = "linux")]
#[test]
fn a_named_pipe_is_refused_instead_of_waited_for() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let folder = tempfile::tempdir().unwrap();
    for extension in ["fvecs", "npy", "hdf5", "ivecs"] {
        let path = folder.path().join(format!("pipe.{extension}"));
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let refused = match extension {
            "ivecs" => IdRows::read(&path).unwrap_err(),
            "hdf5" if !cfg!(feature = "hdf5") => continue,
            _ => VectorSet::read(&path).unwrap_err(),
        };
        assert!(matches!(refused, DatasetError::Open { .. }), "{refused}");
    }
}

/// Three words in a folder of the sample's layout, in which one file may be replaced.
fn word_folder(replaced: &str, content: &[u8]) -> Result<GloveSample, DatasetError> {
    let folder = tempfile::tempdir().unwrap();
    let vectors = Matrix {
        values: (1..=6).collect(),
        dim: 2,
    };
    let near = Matrix {
        values: vec![2, 1, 0, 1],
        dim: 2,
    };
    let files: [(&str, Vec<u8>); 5] = [
        ("vectors.fvecs", vectors.encode("fvecs")),
        ("words.txt", "the\nof\u{85}\nand\n".into()),
        ("queries.txt", "2\n0\n".into()),
        ("neighbors-cosine.ivecs", near.encode("ivecs")),
        ("neighbors-l2.ivecs", near.encode("ivecs")),
    ];
    for (name, bytes) in &files {
        let bytes = if *name == replaced { content } else { bytes };
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    GloveSample::read(folder.path())
}

#[test]
fn a_folder_of_words_is_read_whole() {
    let sample = word_folder("", &[]).unwrap();
    assert_eq!(sample.vectors.labels().unwrap(), ["the", "of\u{85}", "and"]);
    assert_eq!(sample.queries, [2, 0]);
    assert_eq!(sample.cosine.row(0), [2, 1]);
    assert_eq!(sample.l2.row(1), [0, 1]);
}

#[test]
fn files_of_a_folder_that_do_not_match_are_refused() {
    let near = |values: &[u8], dim| {
        Matrix {
            values: values.into(),
            dim,
        }
        .encode("ivecs")
    };
    let count = |found, expected, each| Problem::CountMismatch {
        found,
        expected,
        each,
    };
    let cases: [(&str, Vec<u8>, u64, Problem); 7] = [
        (
            "words.txt",
            "the\nof\n".into(),
            7,
            count(2, 3, "the vectors"),
        ),
        ("words.txt", b"the\n\xff\nand\n".into(), 4, Problem::NotUtf8),
        (
            "queries.txt",
            "2\nx\n".into(),
            2,
            Problem::NotARowNumber {
                line: 2,
                text: "x".into(),
            },
        ),
        (
            "queries.txt",
            "2\n3\n".into(),
            2,
            Problem::IdTooLarge { id: 3, rows: 3 },
        ),
        ("queries.txt", Vec::new(), 0, Problem::Empty),
        (
            "neighbors-l2.ivecs",
            near(&[0, 1], 2),
            0,
            count(1, 2, "the queries"),
        ),
        (
            "neighbors-cosine.ivecs",
            near(&[0, 1, 0, 9], 2),
            20,
            Problem::IdTooLarge { id: 9, rows: 3 },
        ),
    ];
    for (name, content, offset, expected) in cases {
        assert_eq!(
            problem(word_folder(name, &content)),
            (offset, expected),
            "{name}"
        );
    }
}

#[cfg(not(feature = "hdf5"))]
#[test]
fn without_the_feature_hdf5_files_are_refused_by_its_name() {
    use chiplet_workload::dataset::AnnBenchmark;
    for extension in ["hdf5", "h5"] {
        let found = file(extension, b"\x89HDF\r\n\x1a\n");
        let message = VectorSet::read(&found.path).unwrap_err().to_string();
        assert!(message.contains("feature `hdf5`"), "{message}");
        let error = AnnBenchmark::read(&found.path).unwrap_err();
        assert!(matches!(
            error,
            DatasetError::WithoutFeature {
                feature: "hdf5",
                ..
            }
        ));
    }
}
