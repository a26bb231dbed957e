//! IVF tables in files: as they were, mapped or read, and harmless when damaged.

use crate::common::{clustered, mapped, unsplit};
use chiplet_index::{FileError, IvfConfig, IvfTable, Metric, Pages};
use chiplet_table::{Context, Query, SearchError, Table};
use faiss::index::index_factory;
use faiss::{Idx, Index, MetricType};

const DIM: usize = 16;
const ROWS: usize = 1500;
const KINDS: [&str; 11] = [
    "IVF24,Flat",
    "IVF24,SQ8",
    "IVF24,SQfp16",
    "IVF24,SQ4",
    "PCA8,IVF24(IVF4,Flat),SQ8,RFlat",
    "IVF24,PQ8x4fs",
    "IVF24,PQ8x4fsr",
    "IVF24,PQ4np",
    "IVF24,PQ8x4fs,RFlat",
    "IVF24,PQ4np,Refine(SQ8)",
    "IVF24,SQ8,Refine(SQfp16)",
];

fn tables() -> Vec<(String, IvfTable)> {
    let rows = clustered(ROWS, DIM, 4);
    let mut tables = Vec::new();
    for factory in KINDS {
        for metric in [Metric::L2, Metric::Cosine] {
            let config = IvfConfig::new(metric).nprobe(6).grain(2);
            let table = IvfTable::build(&rows, DIM, factory, &config).unwrap();
            tables.push((format!("{factory} {metric:?}"), table));
        }
    }
    tables
}

fn queries(count: usize) -> Vec<Query> {
    let rows = clustered(ROWS + count, DIM, 4);
    let vectors = rows[ROWS * DIM..].chunks_exact(DIM);
    vectors.map(|vector| Query::new(vector).top(10)).collect()
}

#[test]
fn a_table_from_a_file_answers_as_it_did_before() {
    let folder = tempfile::tempdir().unwrap();
    for (name, table) in tables() {
        let path = folder.path().join("table");
        table.save(&path).unwrap();
        for back in [
            IvfTable::load(&path, Pages::Small).unwrap(),
            mapped::ivf(&path).unwrap(),
        ] {
            back.verify().unwrap();
            assert_eq!(back.metric(), table.metric());
            assert_eq!((back.lists(), back.len(), back.dim()), (24, ROWS, DIM));
            assert_eq!(back.as_split().unwrap().grain(), 2);
            assert_eq!(back.size_bytes(), table.size_bytes());
            for query in queries(20) {
                let (mut ours, mut theirs) = (Context::default(), Context::default());
                let expected = table.search(&query, &mut ours).unwrap();
                assert_eq!(
                    back.search(&query, &mut theirs).unwrap(),
                    expected,
                    "{name}"
                );
                assert_eq!(ours.bytes(), theirs.bytes(), "{name}");
            }
            // And once more, from what came out of a file.
            back.save(&path).unwrap();
        }
    }
}

#[test]
fn a_table_without_its_graph_looks_at_all_centroids() {
    let rows = clustered(ROWS, DIM, 4);
    let config = IvfConfig::new(Metric::L2).nprobe(24);
    let table = IvfTable::build(&rows, DIM, "IVF24_HNSW8,Flat", &config).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    table.save(&path).unwrap();
    let back = IvfTable::load(&path, Pages::Small).unwrap();
    for query in queries(20) {
        assert_eq!(unsplit(&back, &query), unsplit(&table, &query));
    }
}

#[test]
fn large_ids_and_empty_lists_come_back() {
    let rows = clustered(400, DIM, 4);
    let mut index = index_factory(DIM as u32, "IVF4,Flat", MetricType::L2).unwrap();
    index.train(&rows).unwrap();
    let ids: Vec<Idx> = (0..3).map(|row| Idx::new((row + 1) << 40)).collect();
    index.add_with_ids(&rows[..3 * DIM], &ids).unwrap();
    let table = IvfTable::new(index).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    table.save(&path).unwrap();
    let back = mapped::ivf(&path).unwrap();
    let hits = unsplit(&back, &Query::new(&rows[DIM..2 * DIM]).nprobe(4));
    assert_eq!((hits.len(), hits[0].id), (3, 2 << 40));
    assert_eq!(
        hits,
        unsplit(&table, &Query::new(&rows[DIM..2 * DIM]).nprobe(4))
    );
}

#[test]
fn a_table_that_faiss_scans_is_not_saved() {
    let rows = clustered(ROWS, DIM, 4);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let table = IvfTable::build(&rows, DIM, "IVF24,SQ6", &IvfConfig::new(Metric::L2)).unwrap();
    assert!(matches!(table.save(&path), Err(FileError::NotSaved { .. })));
    assert!(!path.exists());
}

/// Whether the table keeps the rows beside their codes.
fn is_refined(name: &str) -> bool {
    name.contains("RFlat") || name.contains("Refine(")
}

#[test]
fn the_rows_that_refine_are_in_the_same_file() {
    let rows = clustered(ROWS, DIM, 4);
    let config = IvfConfig::new(Metric::L2);
    let [plain, refined] = ["IVF24,SQ8", "IVF24,SQ8,RFlat"].map(|factory| {
        let table = IvfTable::build(&rows, DIM, factory, &config).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        table.save(file.path()).unwrap();
        (std::fs::read(file.path()).unwrap(), table.size_bytes())
    });
    // The rows, and no more than the room between sections.
    let more = refined.1 - plain.1;
    let rows = (4 * DIM * ROWS) as u64;
    assert!((rows..rows + 256).contains(&more), "{more} bytes more");
    let claims = |file: &[u8]| String::from_utf8_lossy(file).contains("\"full\"");
    assert!(claims(&refined.0) && !claims(&plain.0));
}

#[test]
fn a_damaged_file_is_refused_or_searched_without_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let (mut searched, mut refused) = (0, 0);
    for (name, table) in tables() {
        table.save(&path).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let queries = queries(3);
        // Runs of noise, ones and zeros all over the file, among them the starts of lists, ids and codes.
        let step = whole.len() / 60;
        for (number, at) in (0..whole.len()).step_by(step).enumerate() {
            let mut bytes = whole.clone();
            let end = (at + 200).min(bytes.len());
            for (place, byte) in bytes[at..end].iter_mut().enumerate() {
                *byte = [0xff, 0, (place * 37 + number) as u8][number % 3];
            }
            if bytes == whole {
                continue;
            }
            std::fs::write(&path, &bytes).unwrap();
            assert!(
                IvfTable::load(&path, Pages::Small).is_err(),
                "{name}: bytes {at}..{end}"
            );
            let Ok(table) = mapped::ivf(&path) else {
                continue;
            };
            searched += 1;
            assert!(table.verify().is_err(), "{name}: bytes {at}..{end}");
            for query in &queries {
                for nprobe in [1, 24] {
                    // Any answer will do, as long as it is one.
                    let query = query.clone().nprobe(nprobe).top(50);
                    match table.search(&query, &mut Context::default()) {
                        Ok(hits) => assert!(hits.len() <= 50),
                        // Some id is that of no row.
                        Err(error) => {
                            assert!(matches!(error, SearchError::Backend(_)), "{error:?}");
                            assert!(is_refined(&name), "{name}: {error:?}");
                            refused += 1;
                        }
                    }
                }
            }
            match table.search_many(&queries, &mut Context::default()) {
                Ok(many) => assert_eq!(many.len(), queries.len()),
                Err(error) => assert!(is_refined(&name), "{name}: {error:?}"),
            }
        }
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(matches!(
            mapped::ivf(&path),
            Err(FileError::Truncated { .. })
        ));
    }
    assert!(searched > 100, "only {searched}");
    assert!(refused > 0, "no id was damaged");
}
