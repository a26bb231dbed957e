//! Larger indexes that Faiss writes here and now, read without it and compared with Faiss in memory.

use std::path::{Path, PathBuf};

use crate::common::{WORD_DIM, recall, split, unsplit, words};
use chiplet_index::faiss_file::{self, Options};
use chiplet_index::{AnyTable, IvfTable, Metric};
use chiplet_table::{Neighbor, Query, Table};
use faiss::index::autotune::ParameterSpace;
use faiss::index::io::write_index;
use faiss::index::{IndexImpl, index_factory};
use faiss::{Index, MetricType};

const QUERIES: usize = 50;

fn rows() -> Vec<f32> {
    words(0, 10)
}

fn queries() -> Vec<Vec<f32>> {
    let queries = words(1, 10);
    let some = queries.chunks_exact(WORD_DIM).take(QUERIES);
    some.map(<[f32]>::to_vec).collect()
}

fn faiss_of(metric: Metric) -> MetricType {
    match metric {
        Metric::L2 => MetricType::L2,
        Metric::Cosine | Metric::InnerProduct => MetricType::InnerProduct,
    }
}

fn built(description: &str, metric: Metric) -> IndexImpl {
    let mut index = index_factory(WORD_DIM as u32, description, faiss_of(metric)).unwrap();
    let rows = rows();
    index.train(&rows).unwrap();
    index.add(&rows).unwrap();
    index
}

fn file(description: &str, metric: Metric) -> PathBuf {
    let name = format!("{description}-{metric:?}.faiss").replace(',', "-");
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Writes `index` and reads it without Faiss.
fn read_back(index: &IndexImpl, description: &str, metric: Metric) -> AnyTable {
    let path = file(description, metric);
    write_index(index, path.to_str().unwrap()).unwrap();
    faiss_file::read(&path, &Options::default()).unwrap()
}

/// What Faiss finds.
fn faiss_finds(index: &mut IndexImpl, query: &[f32], k: usize, metric: Metric) -> Vec<Neighbor> {
    let found = index.search(query, k).unwrap();
    let found = found.labels.iter().zip(&found.distances);
    let hit = |(label, &distance): (&faiss::Idx, &f32)| Neighbor {
        id: label.get().unwrap(),
        distance: match metric {
            Metric::L2 => distance,
            Metric::Cosine | Metric::InnerProduct => -distance,
        },
    };
    found.map(hit).collect()
}

/// Asserts that both are equal but for ties and rounding, by a `share` of a distance.
fn assert_near(ours: &[Neighbor], faiss: &[Neighbor], share: f32, what: &str) {
    assert_eq!(ours.len(), faiss.len(), "{what}");
    for (ours, faiss) in ours.iter().zip(faiss) {
        let apart = (ours.distance - faiss.distance).abs();
        assert!(
            apart <= share * faiss.distance.abs().max(1.0),
            "{what}: {ours:?} {faiss:?}"
        );
    }
}

#[test]
fn lists_read_from_a_file_answer_as_faiss_does_and_as_those_taken_from_memory() {
    for metric in [Metric::L2, Metric::InnerProduct] {
        for (code, share) in [
            ("Flat", 1e-5),
            ("SQ8", 1e-5),
            ("SQ4", 1e-4),
            ("SQfp16", 1e-5),
            ("SQbf16", 1e-5),
            ("PQ10x4np", 1e-4),
            // Faiss adds up entries of eight bits.
            ("PQ25x4fs", 0.05),
            ("PQ25x4fs_64", 0.05),
            ("PQ10x4fsr", 0.05),
        ] {
            let description = format!("IVF16,{code}");
            let what = format!("{description} {metric:?}");
            let mut index = built(&description, metric);
            let set = ParameterSpace::new().unwrap();
            set.set_index_parameter(&index, "nprobe", 4.0).unwrap();
            let ours = read_back(&index, &description, metric);
            assert!(matches!(ours, AnyTable::Ivf(_)), "{what}");
            let answers: Vec<_> = queries()
                .into_iter()
                .map(|vector| {
                    let faiss = faiss_finds(&mut index, &vector, 10, metric);
                    // As many lists as the index was set to.
                    let query = Query::new(vector).top(10);
                    let hits = unsplit(&ours, &query);
                    assert_near(&hits, &faiss, share, &what);
                    (query.nprobe(4), hits)
                })
                .collect();
            let adopted = IvfTable::new(index).unwrap();
            assert_eq!(ours.size_bytes(), adopted.size_bytes(), "{what}");
            for (query, hits) in answers {
                assert_eq!(unsplit(&adopted, &query), hits, "{what}");
                assert_eq!(split(&ours, &query, 0b1_0110), hits, "{what}");
            }
        }
    }
}

#[test]
fn maps_and_exact_rows_are_read() {
    for metric in [Metric::L2, Metric::InnerProduct] {
        let exact = read_back(&built("Flat", metric), "Flat", metric);
        assert!(matches!(exact, AnyTable::Flat(_)));
        let queries: Vec<Query> = queries()
            .into_iter()
            .map(|v| Query::new(v).top(10).nprobe(16))
            .collect();
        // To learn a rotation takes long, and it is the same in each metric.
        let rotated = (metric == Metric::L2).then_some("OPQ10_40,IVF16,SQ8");
        let described = ["PCA40,IVF16,PQ20x4fs,RFlat", "IVF16,PQ25x4fs,RFlat"];
        for description in described.into_iter().chain(rotated) {
            let index = built(description, metric);
            let table = read_back(&index, description, metric);
            let found = recall(&exact, &table, &queries);
            assert!(found >= 0.8, "{description} {metric:?}: {found}");
            if !description.ends_with("RFlat") {
                continue;
            }
            for query in &queries {
                let all = unsplit(&exact, &query.clone().top(exact.len()));
                for hit in unsplit(&table, query) {
                    let same = all.iter().find(|row| row.id == hit.id);
                    assert_near(&[hit], &[*same.unwrap()], 1e-6, description);
                }
            }
        }
    }
}

#[test]
fn graphs_are_walked_as_faiss_walks_them() {
    for metric in [Metric::L2, Metric::InnerProduct] {
        let mut index = built("HNSW16,Flat", metric);
        let table = read_back(&index, "HNSW16,Flat", metric);
        let AnyTable::Hnsw(_) = table else {
            panic!("an IndexHNSWFlat is a graph");
        };
        let set = ParameterSpace::new().unwrap();
        for ef in [10, 40, 160] {
            set.set_index_parameter(&index, "efSearch", f64::from(ef))
                .unwrap();
            let mut same = 0;
            for vector in queries() {
                let faiss = faiss_finds(&mut index, &vector, 10, metric);
                let hits = unsplit(&table, &Query::new(vector).top(10).ef(ef as usize));
                let ids = |hits: &[Neighbor]| hits.iter().map(|hit| hit.id).collect::<Vec<_>>();
                same += usize::from(ids(&hits) == ids(&faiss));
            }
            // Where two distances differ by rounding alone, a walk may take another turn.
            assert!(
                same >= QUERIES - 1,
                "{metric:?}, ef {ef}: {same} of {QUERIES} answers are Faiss'"
            );
        }
    }
}
