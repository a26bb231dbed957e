//! Tables in files: what comes back is what was saved, and what is damaged is refused.

use std::fs;
use std::path::Path;

use crate::common::{clustered, mapped, unsplit};
use chiplet_index::{FileError, FlatTable, HnswConfig, HnswTable, Metric, Pages, RowFormat};
use chiplet_table::{Query, Table};

const DIM: usize = 12;
const ROWS: usize = 600;

fn queries() -> Vec<Query> {
    clustered(ROWS + 30, DIM, 5)[ROWS * DIM..]
        .chunks_exact(DIM)
        .map(|vector| Query::new(vector).top(7).ef(24))
        .collect()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder can be made")
}

fn assert_equal(a: &dyn Table, b: &dyn Table) {
    assert_eq!(
        (a.len(), a.dim(), a.size_bytes()),
        (b.len(), b.dim(), b.size_bytes())
    );
    for query in queries() {
        assert_eq!(unsplit(a, &query), unsplit(b, &query));
    }
}

#[test]
fn graphs_come_back_as_they_were_in_every_format() {
    let rows = clustered(ROWS, DIM, 5);
    let folder = folder();
    let path = folder.path().join("graph");
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        for (format, rerank) in [
            (RowFormat::F32, None),
            (RowFormat::Bf16, Some(RowFormat::F32)),
            (RowFormat::Sq8, Some(RowFormat::F16)),
            (RowFormat::Sq4, Some(RowFormat::Sq8)),
            (RowFormat::Sq2, Some(RowFormat::F32)),
            (RowFormat::Sq1, Some(RowFormat::F16)),
        ] {
            let mut config = HnswConfig::new(metric)
                .m(6)
                .ef_construction(30)
                .rows(format);
            if let Some(format) = rerank {
                config = config.rerank(format);
            }
            let built = HnswTable::build(&rows, DIM, &config).unwrap();
            built.save(&path).unwrap();
            let loaded = HnswTable::load(&path, Pages::Small).unwrap();
            let mapped = mapped::hnsw(&path).unwrap();
            mapped.verify().unwrap();
            assert_eq!(mapped.metric(), metric);
            assert_equal(&built, &loaded);
            assert_equal(&built, &mapped);
            // A mapped table can be saved in place of its own file.
            mapped.save(&path).unwrap();
            assert_equal(&built, &mapped);
        }
    }
}

#[test]
fn rows_come_back_as_they_were() {
    let folder = folder();
    let path = folder.path().join("flat");
    let built = FlatTable::build(clustered(ROWS, DIM, 5), DIM, Metric::Cosine).unwrap();
    built.save(&path).unwrap();
    assert_equal(&built, &FlatTable::load(&path, Pages::default()).unwrap());
    assert_equal(&built, &mapped::flat(&path).unwrap());
    let empty = FlatTable::build([], DIM, Metric::L2).unwrap();
    empty.save(&path).unwrap();
    assert!(mapped::flat(&path).unwrap().is_empty());
    let empty = HnswTable::build(&[], DIM, &HnswConfig::new(Metric::L2)).unwrap();
    empty.save(&path).unwrap();
    assert!(HnswTable::load(&path, Pages::default()).unwrap().is_empty());
}

#[test]
fn a_file_of_another_kind_is_named() {
    let folder = folder();
    let path = folder.path().join("flat");
    let flat = FlatTable::build(clustered(9, DIM, 5), DIM, Metric::L2).unwrap();
    flat.save(&path).unwrap();
    let refused = mapped::hnsw(&path).err();
    assert!(
        matches!(&refused, Some(FileError::OtherKind { found, .. }) if found == "flat"),
        "{refused:?}"
    );
    fs::write(&path, "no table at all").unwrap();
    assert!(matches!(
        mapped::flat(&path).err(),
        Some(FileError::Foreign { .. })
    ));
    let missing = mapped::flat(folder.path().join("nothing")).err();
    assert!(matches!(missing, Some(FileError::Io { .. })), "{missing:?}");
}

/// Writes `bytes` to `path` as the file's new content.
fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

#[test]
fn damage_anywhere_is_refused_or_found_by_verify_and_never_harms() {
    let folder = folder();
    let path = folder.path().join("graph");
    let rows = clustered(60, DIM, 5);
    let config = HnswConfig::new(Metric::L2).m(4).ef_construction(20);
    HnswTable::build(&rows, DIM, &config)
        .unwrap()
        .save(&path)
        .unwrap();
    let whole = fs::read(&path).unwrap();
    let damaged = folder.path().join("damaged");
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        put(&damaged, &bytes);
        assert!(
            HnswTable::load(&damaged, Pages::Small).is_err(),
            "byte {at}"
        );
        if let Ok(mapped) = mapped::hnsw(&damaged) {
            assert!(mapped.verify().is_err(), "byte {at}");
            for query in queries() {
                assert!(unsplit(&mapped, &query).len() <= 7);
            }
        }
        put(&damaged, &whole[..at]);
        assert!(mapped::hnsw(&damaged).is_err(), "cut off at {at}");
    }
}

#[test]
fn a_graph_saved_with_links_of_four_bytes_answers_as_one_with_three() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/table_file");
    let load = |name| HnswTable::load(seeds.join(name), Pages::Small).unwrap();
    let (before, now) = (load("hnsw-f32-links-of-4-bytes"), load("hnsw-f32"));
    assert!(before.size_bytes() > now.size_bytes());
    for x in 0..40 {
        let vector: Vec<f32> = (0..4).map(|i| ((x + i) % 7) as f32 / 7.0).collect();
        let query = Query::new(vector).top(5).ef(8);
        assert_eq!(unsplit(&before, &query), unsplit(&now, &query));
    }
}
