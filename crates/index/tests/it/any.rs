//! Files whose kind of table is found out when they are opened.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{clustered, mapped, split, unsplit};
use chiplet_index::{
    AnyTable, FileError, FlatTable, HnswConfig, HnswTable, KeyedRows, Metric, Pages,
};
use chiplet_table::{Query, Table};

const DIM: usize = 8;
const ROWS: usize = 400;

fn tables() -> Vec<AnyTable> {
    let rows = clustered(ROWS, DIM, 5);
    let flat = FlatTable::build(&rows, DIM, Metric::Cosine).unwrap();
    let graph = HnswTable::build(&rows, DIM, &HnswConfig::new(Metric::InnerProduct)).unwrap();
    #[cfg_attr(
        not(feature = "faiss"),
        expect(unused_mut, reason = "lists are added below")
    )]
    let mut tables = vec![AnyTable::from(flat), graph.into()];
    #[cfg(feature = "faiss")]
    {
        use chiplet_index::{IvfConfig, IvfTable};
        let config = IvfConfig::new(Metric::L2).nprobe(3);
        let lists = IvfTable::build(&rows, DIM, "IVF8,SQ8,RFlat", &config).unwrap();
        tables.push(lists.into());
    }
    tables
}

fn queries() -> Vec<Query> {
    let vectors = clustered(10, DIM, 6);
    let queries = vectors.chunks(DIM).map(|vector| Query::new(vector).top(7));
    queries.collect()
}

/// Seeds of fuzz targets are files that were written long ago.
fn old(name: &str) -> PathBuf {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/table_file");
    seeds.join(name)
}

#[test]
fn a_table_of_each_kind_comes_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    for table in tables() {
        table.save(&path).unwrap();
        for back in [
            chiplet_index::open(&path, Pages::Small).unwrap(),
            mapped::any(&path).unwrap(),
        ] {
            assert_eq!(format!("{back:?}"), format!("{table:?}"));
            assert_eq!((back.dim(), back.len()), (DIM, ROWS));
            assert_eq!(back.metric(), table.metric());
            assert_eq!(back.size_bytes(), table.size_bytes());
            assert_eq!(back.batch_size(), table.batch_size());
            assert!(back.granted().is_some());
            back.verify().unwrap();
            let together = back.search_batch(&queries(), &mut Default::default());
            for (query, together) in queries().iter().zip(together) {
                let expected = unsplit(&table, query);
                assert_eq!(unsplit(&back, query), expected);
                assert_eq!(together.unwrap(), expected);
                if table.as_split().is_some() {
                    assert_eq!(split(&back, query, 2), expected);
                }
            }
            assert_eq!(back.as_split().is_some(), table.as_split().is_some());
        }
    }
}

#[test]
fn files_of_before_are_opened() {
    for (name, is) in [
        ("flat", "flat"),
        ("hnsw-f32-links-of-4-bytes", "hnsw"),
        ("hnsw-sq8-f16", "hnsw"),
        ("ivf-flat", "ivf"),
        ("ivf-pq2x4fs-refine-sq8-", "ivf"),
    ] {
        let table = chiplet_index::open(old(name), Pages::Small).unwrap();
        let kind = match &table {
            AnyTable::Flat(_) => "flat",
            AnyTable::Hnsw(_) => "hnsw",
            AnyTable::Ivf(_) => "ivf",
            _ => "another",
        };
        assert_eq!(kind, is, "{name}");
        let hits = unsplit(&table, &Query::new([0.1, 0.2, 0.3, 0.4]).top(3));
        assert_eq!(hits.len(), 3, "{name}");
        assert!(hits.iter().all(|hit| hit.id < table.len() as u64), "{name}");
    }
}

#[test]
fn what_is_no_table_to_search_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let both = |path: &Path| {
        let opened = chiplet_index::open(path, Pages::Small).err().unwrap();
        let mapped = mapped::any(path).err().unwrap();
        assert_eq!(opened.to_string(), mapped.to_string());
        opened
    };
    let keyed = KeyedRows::build(&[1, 2], 1, |_| &[7]).unwrap();
    keyed.save(&path).unwrap();
    let refused = both(&path);
    assert!(
        matches!(&refused, FileError::OtherKind { found, .. } if found == "keyed"),
        "{refused}"
    );
    assert!(refused.to_string().contains("flat, hnsw or ivf"));

    fs::write(&path, "no table at all").unwrap();
    assert!(matches!(both(&path), FileError::Foreign { .. }));
    assert!(matches!(
        both(&folder.path().join("nothing")),
        FileError::Io { .. }
    ));

    for table in tables() {
        table.save(&path).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        fs::write(&path, &bytes[..last]).unwrap();
        assert!(matches!(both(&path), FileError::Truncated { .. }));
        bytes[last - 200] ^= 0x20;
        fs::write(&path, &bytes).unwrap();
        let refused = chiplet_index::open(&path, Pages::Small).err().unwrap();
        assert!(matches!(refused, FileError::Damaged { .. }), "{refused}");
        let damaged = mapped::any(&path).unwrap();
        assert!(matches!(damaged.verify(), Err(FileError::Damaged { .. })));
    }
}
