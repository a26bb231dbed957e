//! The seeds of the fuzz targets, among them every input that ever went wrong, through the same checks.

#[path = "../../../../fuzz/run_seeds.rs"]
mod run_seeds;

use std::path::{Path, PathBuf};

use crate::common::inputs;
use chiplet_index::{BuildOptions, FlatTable, HnswConfig, HnswTable, KeyedRows, Metric, RowFormat};
use run_seeds::run;

#[test]
fn hnswlib() {
    run("hnswlib", inputs::hnswlib);
}

#[test]
fn hnsw_rs_dump() {
    run("hnsw_rs_dump", inputs::hnsw_rs_dump);
}

#[test]
fn faiss_file() {
    run("faiss_file", inputs::faiss_file);
}

#[test]
fn table_file() {
    run("table_file", inputs::table_file);
}

const DIM: usize = 4;

/// Components of 8-bit rows that need no constant.
const WHOLE_LINE: usize = 64;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/table_file")
}

fn rows(n: usize, dim: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7919) % 97) as f32 / 97.0;
    (0..n * dim).map(value).collect()
}

/// Ids that take eight bytes, in no order.
fn ids(n: u64) -> Vec<u64> {
    (0..n).map(|row| (row * 7919 % n) << 33 | row).collect()
}

/// Writes graphs and rows to the seeds of `table_file`: to be run by hand when the format of files changes.
#[test]
#[ignore = "writes to fuzz/seeds"]
fn write_graphs() {
    let hnsw = HnswConfig::new(Metric::L2).m(3);
    for (name, n, config) in [
        ("hnsw-empty", 0, hnsw.clone()),
        ("hnsw-f32", 40, hnsw.clone()),
        (
            "hnsw-sq8-f16",
            40,
            hnsw.clone().rows(RowFormat::Sq8).rerank(RowFormat::F16),
        ),
        (
            "hnsw-sq4-sq8",
            40,
            hnsw.clone().rows(RowFormat::Sq4).rerank(RowFormat::Sq8),
        ),
        (
            "hnsw-sq2-f16",
            40,
            hnsw.clone().rows(RowFormat::Sq2).rerank(RowFormat::F16),
        ),
    ] {
        let table = HnswTable::build(&rows(n, DIM), DIM, &config).unwrap();
        table.save(folder().join(name)).unwrap();
    }
    let whole = rows(20, WHOLE_LINE);
    let table = HnswTable::build(&whole, WHOLE_LINE, &hnsw.clone().rows(RowFormat::Sq8)).unwrap();
    table.save(folder().join("hnsw-sq8-whole-line")).unwrap();
    FlatTable::build(rows(40, DIM), DIM, Metric::L2)
        .unwrap()
        .save(folder().join("flat"))
        .unwrap();
    let ids = ids(40);
    let options = || BuildOptions::new().ids(&ids);
    FlatTable::build_with(rows(40, DIM), DIM, Metric::L2, options())
        .unwrap()
        .save(folder().join("flat-ids"))
        .unwrap();
    HnswTable::build_with(&rows(40, DIM), DIM, &hnsw, options())
        .unwrap()
        .save(folder().join("hnsw-ids"))
        .unwrap();
    for (name, keys) in [("keyed-empty", 0), ("keyed", 300_u64)] {
        let keys: Vec<u64> = (0..keys).map(|key| key * 7919).collect();
        let values: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        let rows = KeyedRows::build(&keys, 8, |at| &values[at]).unwrap();
        rows.save(folder().join(name)).unwrap();
    }
}

/// The same for inverted lists.
#[cfg(feature = "faiss")]
#[test]
#[ignore = "writes to fuzz/seeds"]
fn write_lists() {
    use chiplet_index::{IvfConfig, IvfTable};

    for (description, metric) in [
        ("IVF4,Flat", Metric::L2),
        ("IVF4,SQ8", Metric::L2),
        ("IVF4,SQfp16", Metric::InnerProduct),
        ("IVF4,PQ2x4fs", Metric::L2),
        ("IVF4,PQ2x4fsr", Metric::Cosine),
        ("IVF4,PQ2x4", Metric::L2),
        ("IVF4,PQ2x4fs,Refine(SQ8)", Metric::L2),
        ("PCA3,IVF6(IVF2,Flat),SQ4,RFlat", Metric::L2),
    ] {
        let config = IvfConfig::new(metric).nprobe(2);
        let table = IvfTable::build(&rows(200, DIM), DIM, description, &config).unwrap();
        let code = description.strip_prefix("IVF4,").unwrap_or(description);
        let name = format!("ivf-{}", code.to_lowercase().replace([',', '(', ')'], "-"));
        table.save(folder().join(name)).unwrap();
    }
    let (ids, config) = (ids(200), IvfConfig::new(Metric::L2).nprobe(2));
    let options = BuildOptions::new().ids(&ids);
    IvfTable::build_with(&rows(200, DIM), DIM, "IVF4,SQ8,RFlat", &config, options)
        .unwrap()
        .save(folder().join("ivf-sq8-rflat-ids"))
        .unwrap();
}
