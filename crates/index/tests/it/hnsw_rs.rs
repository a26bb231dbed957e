//! Graphs of hnsw_rs as tables, from memory and from dumps: they answer as hnsw_rs called directly.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use crate::common::inputs::refused_or_sound;
use crate::common::{clustered, duplicated, unsplit};
use chiplet_index::hnsw::{Cosine, GraphDistance, InnerProduct, SquaredL2};
use chiplet_index::{BuildError, FlatTable, HnswConfig, HnswTable, Metric, RowFormat, normalized};
use chiplet_table::{Context, Query, Table};
use hnsw_rs::prelude::{AnnT, DistCosine, DistDot, DistL2, Distance, Hnsw};
use proptest::prelude::*;

fn config(metric: Metric) -> HnswConfig {
    HnswConfig::new(metric)
}

const DIM: usize = 16;
const ROWS: usize = 2000;

/// A graph made as a user of hnsw_rs makes one; ids are odd.
fn graph<D: Distance<f32> + Send + Sync>(
    rows: &[f32],
    m: usize,
    distance: D,
) -> Hnsw<'static, f32, D> {
    let graph = Hnsw::new(m, rows.len() / DIM, 16, 40, distance);
    for (number, row) in rows.chunks_exact(DIM).enumerate() {
        graph.insert((row, 2 * number + 1));
    }
    graph
}

fn rows(metric: Metric) -> Vec<f32> {
    let rows = clustered(ROWS, DIM, 3);
    match metric {
        Metric::Cosine => rows.chunks_exact(DIM).flat_map(normalized).collect(),
        _ => rows,
    }
}

/// From the same clusters as the rows, but none of the rows.
fn queries(count: usize) -> Vec<Query> {
    clustered(ROWS + count, DIM, 3)[ROWS * DIM..]
        .chunks_exact(DIM)
        .map(|vector| Query::new(vector).top(10))
        .collect()
}

fn direct<D: Distance<f32> + Send + Sync>(
    graph: &Hnsw<'static, f32, D>,
    query: &[f32],
    ef: usize,
) -> Vec<u64> {
    let found = graph.search(query, 10, ef);
    found.iter().map(|hit| hit.d_id as u64).collect()
}

fn assert_answers_as_its_graph<D: GraphDistance + Copy>(distance: D) {
    let rows = rows(D::METRIC);
    // Few links and candidates, so that a walk that began elsewhere would end elsewhere.
    for m in [3, 12] {
        let graph = graph(&rows, m, distance);
        let mut expected = Vec::new();
        for query in queries(200) {
            for ef in [10, 16, 40] {
                let vector = match D::METRIC {
                    Metric::Cosine => normalized(query.vector()),
                    _ => query.vector().to_vec(),
                };
                expected.push((query.clone().ef(ef), direct(&graph, &vector, ef)));
            }
        }
        let name = format!("{:?}-{m}", D::METRIC);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let name = graph.file_dump(folder, &name).unwrap();
        let dumped = HnswTable::from_hnsw_rs_dump(folder, &name, &config(D::METRIC)).unwrap();
        for kind in ["graph", "data"] {
            fs::remove_file(folder.join(format!("{name}.hnsw.{kind}"))).unwrap();
        }
        let adopted = HnswTable::new(graph).unwrap();
        assert_eq!(adopted.metric(), D::METRIC);
        for (query, direct) in expected {
            let hits = unsplit(&adopted, &query);
            let ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
            assert_eq!(ids, direct, "{:?}, M {m}", D::METRIC);
            assert_eq!(unsplit(&dumped, &query), hits);
        }
    }
}

#[test]
fn adopted_and_dumped_graphs_answer_as_hnsw_rs_called_directly() {
    assert_answers_as_its_graph(SquaredL2);
    assert_answers_as_its_graph(Cosine);
    assert_answers_as_its_graph(InnerProduct);
}

#[test]
fn a_graph_of_any_number_of_rows_answers_as_hnsw_rs() {
    // With few rows the layers are as uneven as they get: none on the ground alone, the entry alone on many.
    let rows = rows(Metric::L2);
    for n in 1..80 {
        let graph = graph(&rows[..n * DIM], 2, SquaredL2);
        let query = &rows[n * DIM..][..DIM];
        let found = graph.search(query, 5, 5);
        let table = HnswTable::new(graph).unwrap();
        let hits = unsplit(&table, &Query::new(query).top(5).ef(5));
        assert_eq!(hits.len(), n.min(5), "{n} rows");
        // Our walks begin at row 0, too, so they may find what its own do not.
        for (hit, its) in hits.iter().zip(&found) {
            assert!(
                hit.distance <= its.distance + 1e-5,
                "{n} rows: {hits:?} {found:?}"
            );
        }
    }
}

#[test]
fn distances_of_hnsw_rs_itself_report_in_our_metrics() {
    fn dumped<D: Distance<f32> + Send + Sync>(
        rows: &[f32],
        distance: D,
        name: &str,
        metric: Metric,
    ) -> HnswTable {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let name = graph(rows, 12, distance).file_dump(folder, name).unwrap();
        let table = HnswTable::from_hnsw_rs_dump(folder, &name, &config(metric)).unwrap();
        let other = HnswTable::from_hnsw_rs_dump(folder, &name, &other(metric)).err();
        assert!(
            matches!(&other, Some(BuildError::Graph { reason }) if reason.contains("was asked for")),
            "{other:?}"
        );
        for kind in ["graph", "data"] {
            fs::remove_file(folder.join(format!("{name}.hnsw.{kind}"))).unwrap();
        }
        table
    }
    fn other(metric: Metric) -> HnswConfig {
        config(if metric == Metric::L2 {
            Metric::Cosine
        } else {
            Metric::L2
        })
    }
    let plain = rows(Metric::L2);
    let short: Vec<f32> = rows(Metric::Cosine).iter().map(|x| 0.9 * x).collect();
    for (rows, metric, table) in [
        (
            &plain,
            Metric::L2,
            HnswTable::new(graph(&plain, 12, DistL2)).unwrap(),
        ),
        (&plain, Metric::L2, dumped(&plain, DistL2, "l2", Metric::L2)),
        (
            &plain,
            Metric::Cosine,
            dumped(&plain, DistCosine, "cosine", Metric::Cosine),
        ),
        (
            &short,
            Metric::InnerProduct,
            dumped(&short, DistDot, "dot", Metric::InnerProduct),
        ),
    ] {
        let exact = FlatTable::build(rows.clone(), DIM, metric).unwrap();
        let mut same = 0;
        for query in queries(50) {
            let truth = unsplit(&exact, &query);
            let hits = unsplit(&table, &query.ef(400));
            same += usize::from(hits[0].distance == truth[0].distance);
        }
        assert!(same >= 49, "{metric:?}: {same} of 50");
    }
}

#[test]
fn finds_k_rows_even_where_links_do_not_lead() {
    // Among identical rows the graph keeps few links, and a search of it finds fewer rows than there are.
    let rows = duplicated(500, DIM, 3, 9);
    let exact = FlatTable::build(rows.clone(), DIM, Metric::L2).unwrap();
    let graph = graph(&rows, 12, SquaredL2);
    let query = Query::new(&rows[..DIM]).top(400).ef(500);
    let reached = graph.search(query.vector(), 400, 500).len();
    assert!(
        reached < 400,
        "hnsw_rs alone reaches {reached}: this test needs other data"
    );
    let table = HnswTable::new(graph).unwrap();
    let mut context = Context::default();
    let hits = table.search(&query, &mut context).unwrap();
    let truth = unsplit(&exact, &query);
    for (hit, truth) in hits.iter().zip(&truth) {
        assert_eq!((hit.id, hit.distance), (2 * truth.id + 1, truth.distance));
    }
    assert_eq!(hits.len(), truth.len());
    assert!(
        context.bytes() >= 500 * DIM as u64 * 4,
        "the scan is counted"
    );
}

#[test]
fn a_graph_can_be_stored_in_fewer_bytes() {
    let rows = rows(Metric::L2);
    let whole = HnswTable::new(graph(&rows, 12, SquaredL2)).unwrap();
    let config = config(Metric::L2).rows(RowFormat::Sq8).ef(33);
    let small = HnswTable::new_with(graph(&rows, 12, SquaredL2), &config).unwrap();
    assert!(small.size_bytes() + 31 * ROWS as u64 <= whole.size_bytes());
    let exact = FlatTable::build(rows, DIM, Metric::L2).unwrap();
    let mut same = 0;
    for query in queries(50) {
        let hits = unsplit(&small, &query);
        same += usize::from(hits[0].id == 2 * unsplit(&exact, &query)[0].id + 1);
    }
    assert!(same >= 40, "{same} of 50");
    let refused = HnswTable::new_with(graph(&[0.5; DIM], 12, Cosine), &config).err();
    let refused = refused.unwrap().to_string();
    assert!(
        refused.contains("built for Cosine and L2 was asked for"),
        "{refused}"
    );
}

#[test]
fn refuses_graphs_that_hold_what_no_table_can() {
    let adopt = |rows: &[&[f32]]| {
        let graph = Hnsw::new(8, rows.len(), 16, 20, SquaredL2);
        for (id, row) in rows.iter().enumerate() {
            graph.insert((row, id));
        }
        HnswTable::new(graph).err()
    };
    assert!(matches!(adopt(&[]), Some(BuildError::Graph { .. })));
    assert_eq!(
        adopt(&[&[1e19, 0.0]]),
        Some(BuildError::RowTooLong {
            row: 0,
            norm: f64::from(1e19f32),
            limit: chiplet_index::MAX_NORM
        })
    );
    assert!(matches!(
        adopt(&[&[f32::INFINITY, 0.0]]),
        Some(BuildError::NotFinite {
            row: 0,
            component: 0,
            ..
        })
    ));
    let graph = Hnsw::new(8, 1, 16, 20, Cosine);
    graph.insert((&[3.0, 4.0], 7));
    assert_eq!(
        HnswTable::new(graph).err(),
        Some(BuildError::NotNormalized { row: 7, norm: 5.0 })
    );
}

/// A dump of 40 rows of 16, its two files.
static DUMP: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let rows = clustered(40, DIM, 3);
    let name = graph(&rows, 2, SquaredL2)
        .file_dump(folder, "damage")
        .unwrap();
    ["graph", "data"].map(|kind| {
        let path = folder.join(format!("{name}.hnsw.{kind}"));
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(path).unwrap();
        bytes
    })
});

fn opened_dump(name: &str, [graph, data]: [&[u8]; 2]) -> Result<HnswTable, BuildError> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::write(folder.join(format!("{name}.hnsw.graph")), graph).unwrap();
    fs::write(folder.join(format!("{name}.hnsw.data")), data).unwrap();
    HnswTable::from_hnsw_rs_dump(folder, name, &config(Metric::L2))
}

#[test]
fn a_dump_cut_or_prolonged_anywhere_is_refused() {
    let [graph, data] = &*DUMP;
    fn open(files: [&[u8]; 2]) -> Result<HnswTable, BuildError> {
        opened_dump("cut", files)
    }
    for length in (0..graph.len()).step_by(13).chain([graph.len() - 1]) {
        assert!(open([&graph[..length], data]).is_err(), "{length}");
    }
    for length in (0..data.len()).step_by(13).chain([data.len() - 1]) {
        assert!(open([graph, &data[..length]]).is_err(), "{length}");
    }
    let longer = |bytes: &[u8]| [bytes, &[0]].concat();
    assert!(open([graph, &longer(data)]).is_err());
    assert!(open([&longer(graph), data]).is_err());
    assert!(open([graph, data]).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_damaged_dump_is_refused_or_can_be_searched(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
            let [mut graph, mut data] = DUMP.clone();
        for (place, value) in damage {
            let place = place.index(graph.len() + data.len());
            match place.checked_sub(graph.len()) {
                None => graph[place] = value,
                Some(place) => data[place] = value,
            }
        }
        refused_or_sound(opened_dump("damaged", [&graph, &data]));
    }
}
