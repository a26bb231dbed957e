//! Indexes that Faiss serialised as tables: they answer as Faiss does, and damaged ones are refused.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::inputs;
use crate::common::{assert_well_formed, split, unsplit};
use chiplet_index::faiss_file::{self, Options};
use chiplet_index::{AnyTable, BuildError, ExactRows, Metric};
use chiplet_table::{Context, Neighbor, Query, Table};
use proptest::prelude::*;
use serde_json::Value;

const K: usize = 3;
const DIM: usize = 6;

/// The version that wrote all of the files, the newest.
const NEWEST: &str = "1.15.1";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/faiss")
}

fn path(name: &str) -> PathBuf {
    folder().join(NEWEST).join(format!("{name}.index"))
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap()
}

fn open(bytes: &[u8]) -> Result<AnyTable, BuildError> {
    faiss_file::read_bytes(bytes, &Options::default())
}

/// What is wrong with bytes that are damaged.
#[track_caller]
fn damage(bytes: &[u8]) -> String {
    match open(bytes).err() {
        Some(BuildError::File { path, reason }) => {
            assert_eq!(path, Path::new("<bytes>"));
            reason
        }
        other => panic!("{other:?}"),
    }
}

/// The class that is refused, and why.
#[track_caller]
fn unsupported(bytes: &[u8]) -> (String, &'static str) {
    match open(bytes).err() {
        Some(BuildError::UnsupportedIndex { kind, reason }) => (kind, reason),
        other => panic!("{other:?}"),
    }
}

fn json(version: &Path) -> Value {
    let text = fs::read_to_string(version.join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn vectors(value: &Value) -> Vec<Vec<f32>> {
    let vectors = value.as_array().unwrap().iter();
    let components = |vector: &Value| vector.as_array().unwrap().clone();
    let vectors = vectors.map(|vector| {
        let components = components(vector).into_iter();
        components.map(|x| x.as_f64().unwrap() as f32).collect()
    });
    vectors.collect()
}

/// Whether `table` is of `kind` and `metric`.
fn is(table: &AnyTable, kind: &str, metric: Metric) -> bool {
    match (table, kind) {
        (AnyTable::Flat(table), "flat") => table.metric() == metric,
        (AnyTable::Hnsw(table), "hnsw") => table.metric() == metric,
        (AnyTable::Ivf(table), "ivf") => table.metric() == metric,
        _ => false,
    }
}

fn query(vector: &[f32], kind: &str, at: &Value) -> Query {
    let query = Query::new(vector.to_vec()).top(K);
    match (kind, at.as_u64()) {
        ("hnsw", Some(ef)) => query.ef(ef as usize),
        ("ivf", Some(nprobe)) => query.nprobe(nprobe as usize),
        _ => query,
    }
}

/// Asserts that `table` answers `query` with `found`, ids and Faiss' distances.
fn assert_answers(table: &AnyTable, query: &Query, found: &Value, metric: Metric, what: &str) {
    let hits = unsplit(table, query);
    assert_well_formed(&hits, K);
    if table.as_split().is_some() {
        assert_eq!(split(table, query, 0b1010_1101), hits, "{what}");
    }
    let found = found.as_array().unwrap();
    let ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
    let expected: Vec<u64> = found.iter().map(|hit| hit[0].as_u64().unwrap()).collect();
    let apart = |hit: &Neighbor, found: &Value| {
        let faiss = found[1].as_f64().unwrap();
        let distance = match metric {
            Metric::L2 => faiss,
            Metric::InnerProduct => -faiss,
            Metric::Cosine => 1.0 - faiss,
        };
        (f64::from(hit.distance) - distance) / (1.0 + distance.abs())
    };
    if what.contains("ivf-sparse") {
        // Faiss counts lists without rows as visited, so we look at more: what it finds is found, or crowded out.
        for (id, found) in expected.iter().zip(found) {
            let hit = hits.iter().find(|hit| hit.id == *id);
            let nearest = hit
                .or(hits.get(K - 1))
                .expect("neither found nor crowded out");
            let apart = apart(nearest, found);
            assert!(
                apart < 1e-5 && (hit.is_none() || apart > -1e-5),
                "{what}: {hits:?} {found}"
            );
        }
        return;
    }
    assert_eq!(ids, expected, "{what}: {hits:?} {found:?}");
    for (hit, found) in hits.iter().zip(found) {
        assert!(apart(hit, found).abs() < 1e-5, "{what}: {hit:?} {found}");
    }
}

#[test]
fn indexes_that_faiss_wrote_answer_as_faiss_does() {
    let versions = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let versions: Vec<PathBuf> = versions.filter(|path| path.is_dir()).collect();
    assert_eq!(versions.len(), 3);
    for version in versions {
        let expected = json(&version);
        let queries = vectors(&expected["queries"]);
        let files = expected["files"].as_object().unwrap();
        assert!(files.len() >= 11);
        for (name, file) in files {
            let path = version.join(format!("{name}.index"));
            let what = path.display().to_string();
            let table = faiss_file::read(&path, &Options::default());
            let table = table.unwrap_or_else(|error| panic!("{what}: {error}"));
            let kind = file["kind"].as_str().unwrap();
            let metric = match file["metric"].as_str().unwrap() {
                "l2" => Metric::L2,
                _ if name.starts_with("l2norm") => Metric::Cosine,
                _ => Metric::InnerProduct,
            };
            assert!(is(&table, kind, metric), "{what}");
            let len = file["len"].as_u64().unwrap() as usize;
            assert_eq!((table.len(), table.dim()), (len, DIM), "{what}");
            let in_memory = open(&fs::read(&path).unwrap()).unwrap();
            let answers = file["answers"].as_array().unwrap();
            for answer in answers {
                for (vector, found) in queries.iter().zip(answer["found"].as_array().unwrap()) {
                    let query = query(vector, kind, &answer["at"]);
                    assert_answers(&table, &query, found, metric, &what);
                    assert_eq!(unsplit(&in_memory, &query), unsplit(&table, &query));
                }
            }
            // What the index was set to last is what a query that does not say gets.
            let last = answers.last().unwrap();
            for (vector, found) in queries.iter().zip(last["found"].as_array().unwrap()) {
                let query = query(vector, kind, &Value::Null);
                assert_answers(&table, &query, found, metric, &what);
            }
        }
    }
}

#[test]
fn rows_of_length_1_may_be_compared_by_their_angle() {
    let cosine = Options::default().cosine(true);
    let expected = json(&folder().join(NEWEST));
    let queries = vectors(&expected["queries"]);
    let table = faiss_file::read(path("flat-unit"), &cosine).unwrap();
    assert!(is(&table, "flat", Metric::Cosine));
    let found = &expected["files"]["flat-unit"]["answers"][0]["found"];
    for (vector, found) in queries.iter().zip(found.as_array().unwrap()) {
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        let hits = unsplit(&table, &Query::new(vector.clone()).top(K));
        for (hit, found) in hits.iter().zip(found.as_array().unwrap()) {
            assert_eq!(Some(hit.id), found[0].as_u64());
            let product = found[1].as_f64().unwrap() as f32;
            assert!((hit.distance - (1.0 - product / norm)).abs() < 1e-5);
        }
    }
    for name in ["flat-ip", "hnsw-ip", "ivf-flat-ip"] {
        let refused = faiss_file::read(path(name), &cosine).err();
        assert!(
            matches!(refused, Some(BuildError::NotNormalized { .. })),
            "{name}: {refused:?}"
        );
    }
    let refused = faiss_file::read(path("flat-l2"), &cosine).err();
    assert!(matches!(
        refused,
        Some(BuildError::Setting {
            setting: "cosine",
            ..
        })
    ));
}

#[test]
fn exact_rows_are_found_by_the_ids_of_the_index() {
    let AnyTable::Flat(table) = open(&bytes("idmap-flat")).unwrap() else {
        panic!("an IndexFlat is a flat table");
    };
    let query = vec![0.25; DIM];
    let hits = unsplit(&table, &Query::new(query.clone()).top(60));
    assert_eq!(hits.len(), 60);
    let ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
    assert!(ids.contains(&(1 << 40)) && ids.contains(&1000));
    let mut distances = vec![0.0; ids.len()];
    let mut context = Context::default();
    ExactRows::distances(&table, &query, &ids, &mut distances, &mut context).unwrap();
    let expected: Vec<f32> = hits.iter().map(|hit| hit.distance).collect();
    assert_eq!(distances, expected);
    let unknown = ExactRows::distances(&table, &query, &[3], &mut distances[..1], &mut context);
    assert!(unknown.unwrap_err().to_string().contains("candidate 3"));
    // And so they are in the table's own file.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("with-ids.table");
    table.save(&path).unwrap();
    let loaded = chiplet_index::FlatTable::load(&path, chiplet_index::Pages::Small).unwrap();
    assert_eq!(unsplit(&loaded, &Query::new(query).top(60)), hits);
    assert_eq!(Table::size_bytes(&loaded), Table::size_bytes(&table));
}

/// `bytes` with `to` in the place of the first `from`.
fn with(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes
        .windows(from.len())
        .position(|part| part == from)
        .unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

#[test]
fn what_is_not_read_is_refused_by_the_name_of_its_class() {
    for (letters, class, advice) in [
        (b"IwQR", "IndexIVFPQR", "IVF<n>"),
        (b"IxHe", "IndexLSH", "HNSW<m>"),
        (b"IBxF", "IndexBinaryFlat", "bits"),
        (b"IvPQ", "IndexIVFPQ", "2018"),
        (b"IHNs", "IndexHNSWSQ", "HNSW<m>"),
        (b"null", "null", "whole"),
    ] {
        let (kind, reason) = unsupported(&with(bytes("flat-l2"), b"IxF2", letters));
        assert_eq!(kind, class);
        assert!(reason.contains(advice), "{reason}");
    }
    // The storage of a graph, and the quantizer of lists.
    let (kind, _) = unsupported(&with(bytes("hnsw-l2"), b"IxF2", b"IxSQ"));
    assert_eq!(kind, "IndexScalarQuantizer");
    let (kind, _) = unsupported(&with(bytes("ivf-flat-l2"), b"IxF2", b"Imiq"));
    assert_eq!(kind, "MultiIndexQuantizer");
    let (kind, reason) = unsupported(&with(bytes("ivf-flat-l2"), b"ilar", b"ilod"));
    assert_eq!(kind, "OnDiskInvertedLists");
    assert!(reason.contains("ArrayInvertedLists"));
    let (kind, _) = unsupported(&with(bytes("ivf-flat-l2"), b"ilar", b"il00"));
    assert_eq!(kind, "IndexIVF without its lists");
    let (kind, _) = unsupported(&with(bytes("opq-ivf-sq8"), b"LTra", b"Viqt"));
    assert_eq!(kind, "IndexPreTransform with ITQTransform");
    // The metric is behind the class, the dimension, three numbers of 8 bytes and a flag.
    let mut metric = bytes("flat-l2");
    metric[33] = 4;
    let (kind, reason) = unsupported(&metric);
    assert_eq!(kind, "IndexFlatL2");
    assert!(reason.contains("METRIC_L2"));
    metric[32] = 0;
    metric[33] = 1;
    assert_eq!(open(&metric).err(), Some(BuildError::Untrained));
    // What a newer Faiss may have.
    let reason = damage(&with(bytes("flat-l2"), b"IxF2", b"IxXX"));
    assert!(reason.contains("\"IxXX\""), "{reason}");
    assert!(damage(b"# no index").contains("\"# no\""));
}

#[test]
fn scalar_quantizers_that_are_not_read_are_refused_by_name() {
    // Behind the centroids and an empty direct map: the kind, the range's and its argument, dimension and bytes.
    let file = bytes("ivf-fp16");
    let quantizer = [
        &[4, 0, 0, 0, 0, 0, 0, 0][..],
        &[0; 4],
        &[6, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let mut six_bits = quantizer.clone();
    six_bits[0] = 6;
    let (kind, reason) = unsupported(&with(file, &quantizer, &six_bits));
    assert_eq!(kind, "IndexIVFScalarQuantizer of codes QT_6bit");
    assert!(reason.contains("SQ8"));
}

#[test]
fn ids_links_and_numbers_that_no_table_has_are_refused() {
    let minus = (-1_i64).to_le_bytes();
    let reason = damage(&with(bytes("idmap-flat"), &1000_i64.to_le_bytes(), &minus));
    assert!(
        reason.contains("row 0") && reason.contains("-1"),
        "{reason}"
    );
    let reason = damage(&with(
        bytes("ivf-flat-l2"),
        &(1_i64 << 40).to_le_bytes(),
        &minus,
    ));
    assert!(reason.contains("id -1"), "{reason}");
    // The first component of the first row, behind the header and the number of components.
    let mut nan = bytes("flat-l2");
    nan[45..49].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(matches!(
        open(&nan).err(),
        Some(BuildError::NotFinite {
            row: 0,
            component: 0,
            ..
        })
    ));
    // Both are 60 in the header of the graph.
    let mut more = bytes("hnsw-l2");
    more[8] = 61;
    assert!(damage(&more).contains("for 61 rows"));
}

#[test]
fn a_link_beyond_the_rows_is_refused() {
    let file = bytes("hnsw-l2");
    // In front of the end of five numbers, which is in front of the storage, is room for links of the last row.
    let storage = file.windows(4).position(|part| part == b"IxF2").unwrap();
    let last = storage - 20 - 8 * 4;
    let link = i32::from_le_bytes(*file[last..].first_chunk().unwrap());
    assert!((0..60).contains(&link));
    let mut beyond = file.clone();
    beyond[last..last + 4].copy_from_slice(&60_i32.to_le_bytes());
    let refused = open(&beyond).err();
    assert!(
        matches!(&refused, Some(BuildError::Graph { reason }) if reason.contains("row 60")),
        "{refused:?}"
    );
    for entry in [-1_i32, 60] {
        let mut entered = file.clone();
        entered[storage - 20..storage - 16].copy_from_slice(&entry.to_le_bytes());
        assert!(damage(&entered).contains("entry"));
    }
}

#[test]
fn an_index_cut_or_prolonged_anywhere_is_refused() {
    for entry in fs::read_dir(folder().join(NEWEST)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "index") {
            let whole = fs::read(&path).unwrap();
            for length in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
                assert!(
                    open(&whole[..length]).is_err(),
                    "{} {length}",
                    path.display()
                );
            }
            let reason = damage(&[&whole[..], &[0]].concat());
            assert!(reason.contains("1 bytes are left"), "{reason}");
        }
    }
    let missing = faiss_file::read(folder().join("none"), &Options::default());
    assert!(matches!(missing.err(), Some(BuildError::File { path, .. }) if path.ends_with("none")));
}

/// Names of all files of the newest version.
fn names() -> Vec<String> {
    let files = json(&folder().join(NEWEST))["files"]
        .as_object()
        .unwrap()
        .clone();
    files.keys().cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_damaged_index_is_refused_or_answers(
        name in prop::sample::select(names()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = bytes(&name);
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        inputs::faiss_file(&bytes);
    }

    #[test]
    fn a_damaged_beginning_of_an_index_is_refused_or_answers(
        name in prop::sample::select(names()),
        place in 0usize..200,
        value: u8,
    ) {
        let mut bytes = bytes(&name);
        let place = place % bytes.len();
        bytes[place] = value;
        inputs::faiss_file(&bytes);
    }
}
