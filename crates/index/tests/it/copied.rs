//! A copy of a table in other memory answers as the table does.

use chiplet_index::{
    FlatConfig, FlatTable, HnswConfig, HnswTable, MemoryPolicy, Metric, Pages, Refined, RowFormat,
};
use chiplet_table::{Context, Query, Table};

const DIM: usize = 24;

fn rows(count: usize) -> Vec<f32> {
    let value = |at: usize| ((at * 7_919 + at / DIM * 104_729) % 2_003) as f32 / 100.0;
    (0..count * DIM).map(value).collect()
}

fn queries() -> Vec<Query> {
    let vector = |n: usize| -> Vec<f32> { rows(40 + n).split_off((39 + n) * DIM) };
    (0..20).map(|n| Query::new(vector(n)).top(7)).collect()
}

fn copy(table: &dyn Table) -> Box<dyn Table> {
    let mut asked = 0;
    let mut pace = |bytes| {
        asked += bytes;
        true
    };
    let copy = table.copy_to(&[0], &mut pace);
    let copy = copy.unwrap().expect("it can be copied");
    assert!(asked > 0 && asked <= table.size_bytes());
    copy
}

/// The copy's copy is no worse either, and outlives what it was made of.
fn answers_alike(table: impl Table) {
    let copied = copy(&copy(&table));
    assert_eq!((copied.dim(), copied.len()), (table.dim(), table.len()));
    assert_eq!(copied.size_bytes(), table.size_bytes());
    assert_eq!(copied.batch_size(), table.batch_size());
    assert!(table.copy_to(&[0], &mut |_| false).unwrap().is_none());
    let (mut one, mut other) = (Context::default(), Context::default());
    let queries = queries();
    let expected: Vec<_> = queries
        .iter()
        .map(|query| table.search(query, &mut one).unwrap())
        .collect();
    let missing = table.copy_to(&[1_000], &mut |_| true).map(|_| ());
    assert!(
        missing.unwrap_err().to_string().contains("1000"),
        "a node that there is not is named"
    );
    drop(table);
    for (query, expected) in queries.iter().zip(expected) {
        assert_eq!(copied.search(query, &mut other).unwrap(), expected);
    }
    assert_eq!(one.bytes(), other.bytes());
}

#[test]
fn tables_of_all_kinds_are_copied() {
    let (flat, rows) = (
        FlatTable::build(rows(3_000), DIM, Metric::L2).unwrap(),
        rows(3_000),
    );
    answers_alike(flat);
    for format in [RowFormat::F32, RowFormat::Sq8, RowFormat::Sq4] {
        let config = HnswConfig::new(Metric::Cosine).rows(format);
        let config = match format {
            RowFormat::Sq4 => config.rerank(RowFormat::F16),
            _ => config,
        };
        let graph = HnswTable::build(&rows, DIM, &config).unwrap();
        answers_alike(graph.with_ef(33).unwrap());
    }
    let coarse = HnswConfig::new(Metric::L2).rows(RowFormat::Sq8);
    let coarse = HnswTable::build(&rows, DIM, &coarse).unwrap();
    let exact = FlatTable::build(&rows, DIM, Metric::L2).unwrap();
    answers_alike(Refined::new(coarse, exact).unwrap());
}

#[cfg(feature = "faiss")]
#[test]
fn lists_are_copied_unless_faiss_scans_them() {
    use chiplet_index::{IvfConfig, IvfTable};

    let rows = rows(3_000);
    let config = IvfConfig::new(Metric::L2).nprobe(4);
    for factory in ["IVF16,Flat", "IVF16,PQ6x4fs,RFlat", "IVF16_HNSW8,SQ8"] {
        answers_alike(IvfTable::build(&rows, DIM, factory, &config).unwrap());
    }
    let theirs = IvfConfig::new(Metric::L2).faiss_scans(true);
    let theirs = IvfTable::build(&rows, DIM, "IVF16,Flat", &theirs).unwrap();
    assert!(theirs.copy_to(&[0], &mut |_| true).unwrap().is_none());
}

#[test]
fn what_was_mapped_to_stay_out_of_memory_is_not_copied_and_copies_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let small = FlatConfig::new(Metric::L2).memory(Pages::Small);
    let table = FlatTable::build(rows(3_000), DIM, small).unwrap();
    table.save(&path).unwrap();
    // SAFETY: nobody writes to it.
    #[allow(unsafe_code, reason = "the file is this test's")]
    let mapped = unsafe { FlatTable::map(&path) }.unwrap();
    assert!(mapped.copy_to(&[0], &mut |_| true).unwrap().is_none());
    let loaded = FlatTable::load(&path, MemoryPolicy::on([0])).unwrap();
    answers_alike(loaded);
}
