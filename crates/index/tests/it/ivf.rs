//! The IVF table against Faiss called directly, and split searches against unsplit ones, by kind of index.

use std::sync::LazyLock;

use crate::common::{
    assert_concurrent_equals_sequential, assert_well_formed, clustered, duplicated,
    on_eight_threads, recall, split, unsplit,
};
use chiplet_index::{BuildError, FlatTable, IvfConfig, IvfTable, Metric, normalized};
use chiplet_table::{Context, Filter, Neighbor, Query, SearchError, SplitTable, Table};
use faiss::index::autotune::ParameterSpace;
use faiss::index::{IndexImpl, index_factory};
use faiss::{Idx, Index, MetricType};
use proptest::prelude::*;

pub(crate) const DIM: usize = 16;
pub(crate) const ROWS: usize = 2000;
const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

/// One description of every kind of index that is supported, with the metrics it is tested in: all of them
/// for the common kinds.
const KINDS: [(&str, &[Metric]); 14] = [
    ("IVF24,Flat", &METRICS),
    ("IVF24,SQ8", &METRICS),
    ("IVF24,PQ8x4np", &METRICS),
    ("IVF24,PQ8x4fs", &METRICS),
    ("IVF24,PQ8x4fsr", &METRICS),
    ("IVF24_HNSW8,Flat", &METRICS),
    ("IVF24,FlatDedup", &[Metric::L2]),
    ("IVF24,SQfp16", &METRICS),
    ("IVF24,SQbf16", &[Metric::L2]),
    ("IVF24,SQ4", &METRICS),
    ("IVF24,SQ6", &[Metric::L2]),
    ("IVF24,PQ4np", &METRICS),
    ("IVF24,RQ3x4", &[Metric::L2]),
    ("IVF24,RaBitQ", &[Metric::L2]),
];

/// How far our distance of a row may be from Faiss', as a share of it (of 1 at least): the arithmetic is the same, in
/// another order. Faiss' fast-scan adds up entries of eight bits, ours are exact.
fn tolerance(factory: &str) -> f32 {
    if factory.contains("x4fs") {
        0.05
    } else if factory.contains("RQ") || factory.contains("RaBitQ") || factory.contains("Dedup") {
        0.0
    } else {
        1e-5
    }
}

/// Rows of which each has about thirty twins.
static DUPLICATED: LazyLock<Vec<f32>> = LazyLock::new(|| duplicated(ROWS, DIM, 60, 4));

/// Every kind in every metric, over rows that all differ and over rows of which most have twins.
static TABLES: LazyLock<Vec<(String, IvfTable)>> = LazyLock::new(|| {
    let mut tables = Vec::new();
    for (kind, rows) in [
        ("distinct", clustered(ROWS, DIM, 4)),
        ("duplicated", DUPLICATED.clone()),
    ] {
        for (factory, metrics) in KINDS {
            for &metric in metrics {
                let config = IvfConfig::new(metric).nprobe(6);
                let table = IvfTable::build(&rows, DIM, factory, &config).unwrap();
                tables.push((format!("{factory} {metric:?} {kind}"), table));
            }
        }
        for factory in ["IVF24,Flat", "IVF24,SQ8", "IVF24,PQ8x4fs", "IVF24,PQ8x4fsr"] {
            let config = IvfConfig::new(Metric::L2).nprobe(6).faiss_scans(true);
            let table = IvfTable::build(&rows, DIM, factory, &config).unwrap();
            tables.push((format!("{factory} by Faiss {kind}"), table));
        }
    }
    tables
});

pub(crate) fn queries(count: usize) -> Vec<Query> {
    clustered(ROWS + count, DIM, 4)[ROWS * DIM..]
        .chunks_exact(DIM)
        .map(|vector| Query::new(vector).top(10))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn split_answers_equal_unsplit_ones(
        which: prop::sample::Index,
        vector in prop::collection::vec(-1.5f32..1.5, DIM),
        k in prop_oneof![1usize..40, 40usize..600],
        nprobe in 1usize..30,
        cuts: u64,
    ) {
        let (name, table) = which.get(&TABLES);
        let query = Query::new(vector).top(k).nprobe(nprobe);
        let whole = unsplit(table, &query);
        assert_well_formed(&whole, k);
        prop_assert_eq!(split(table, &query, cuts), whole, "{}", name);
    }

    #[test]
    fn a_query_equal_to_many_rows_splits_as_any_other(
        which: prop::sample::Index,
        row in 0usize..60,
        k in 1usize..200,
        cuts: u64,
    ) {
        let (name, table) = which.get(&TABLES);
        let query = Query::new(&DUPLICATED[row * DIM..][..DIM]).top(k);
        prop_assert_eq!(split(table, &query, cuts), unsplit(table, &query), "{}", name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_filter_and_a_radius_leave_the_nearest_of_the_rows_they_allow(
        which: prop::sample::Index,
        vector in prop::collection::vec(-1.5f32..1.5, DIM),
        k in prop_oneof![1usize..40, 40usize..600],
        nprobe in 1usize..30,
        every in prop_oneof![Just(1u64), 2u64..5, 50u64..60],
        radius_of in prop::option::of(any::<prop::sample::Index>()),
        predicate: bool,
        cuts: u64,
    ) {
        let (name, table) = which.get(&TABLES);
        let all = unsplit(table, &Query::new(vector.clone()).top(ROWS).nprobe(nprobe));
        let radius = radius_of.map(|at| at.get(&all).distance);
        let mut query = Query::new(vector).top(k).nprobe(nprobe).filter(match predicate {
            true => Filter::matching(move |id| id.is_multiple_of(every)),
            false => Filter::ids((0..ROWS as u64).step_by(every as usize)),
        });
        if let Some(radius) = radius {
            query = query.radius(radius);
        }
        let mut expected = all;
        expected.retain(|hit| hit.id.is_multiple_of(every));
        // These lists hold too few rows that are allowed, or may be expected to, or do not tell all of them (of equal
        // rows Faiss tells one): more of them are visited.
        let more = expected.len() < k
            || 24 <= 2 * nprobe * every as usize
            || name.contains("Dedup");
        expected.retain(|hit| radius.is_none_or(|radius| hit.distance <= radius));
        expected.truncate(k);
        let found = unsplit(table, &query);
        prop_assert_eq!(split(table, &query, cuts), &found[..], "{}", name);
        if more {
            // Faiss' fast scan rounds a distance to what the lists that it visits need, and here it visits others: what is
            // as near the radius as that may be beyond it.
            let slack = if name.contains("by Faiss") { tolerance(name) } else { 0.0 };
            let within = |hit: &&Neighbor| {
                radius.is_none_or(|radius| hit.distance <= radius - slack * radius.abs().max(1.0))
            };
            prop_assert!(found.len() >= expected.iter().filter(within).count(), "{}", name);
            prop_assert!(found.iter().all(|hit| hit.id.is_multiple_of(every)), "{}", name);
        } else {
            prop_assert_eq!(found, expected, "{}", name);
        }
    }
}

#[test]
fn queries_answered_together_are_answered_as_alone() {
    for (name, table) in TABLES.iter() {
        let queries: Vec<Query> = queries(70)
            .into_iter()
            .enumerate()
            .map(|(number, query)| match number % 4 {
                0 => query,
                1 => query.nprobe(1 + number % 24).top(1 + number),
                2 => query.filter(Filter::matching(|id| id % 3 == 0)),
                _ => query.radius(2.0),
            })
            .collect();
        let mut together = Context::default();
        let answers = table.search_many(&queries, &mut together).unwrap();
        let mut alone = Context::default();
        for (query, answer) in queries.iter().zip(&answers) {
            assert_eq!(answer, &table.search(query, &mut alone).unwrap(), "{name}");
        }
        assert_eq!(answers.len(), queries.len());
        assert_eq!(together.bytes(), alone.bytes(), "{name}");
        let bad = [queries[0].clone(), Query::new([0.0; 3])];
        let refused = table.search_many(&bad, &mut Context::default());
        assert!(matches!(refused, Err(SearchError::WrongDimension { .. })));
        let each = table.search_batch(&bad, &mut Context::default());
        assert_eq!(each[0].as_ref(), Ok(&answers[0]), "{name}");
        assert_eq!(each[1].as_ref().unwrap_err(), &refused.unwrap_err());
        assert_eq!(
            table.search_many(&[], &mut Context::default()),
            Ok(Vec::new())
        );
    }
}

#[test]
fn a_filter_may_search_the_table_itself() {
    let (_, table) = &TABLES[0];
    let near = unsplit(table, &Query::new([0.5; DIM]))[0].id;
    let filter = Filter::matching(move |id| {
        let (_, table) = &TABLES[0];
        unsplit(table, &Query::new([0.5; DIM]))[0].id == near && id % 2 == 0
    });
    let query = Query::new([0.1; DIM]).nprobe(24);
    let mut expected = unsplit(table, &query.clone().top(ROWS));
    expected.retain(|hit| hit.id % 2 == 0);
    expected.truncate(5);
    assert_eq!(unsplit(table, &query.top(5).filter(filter)), expected);
}

#[test]
fn thousands_of_equally_distant_rows_split_as_any_others() {
    // Every row is at distance 1 from the origin, along one axis or against it: more ties than are put in
    // order, spread over lists of which some hold more of them than that by themselves, others far fewer.
    let rows: Vec<f32> = (0..6000usize)
        .flat_map(|row| {
            let direction = if row % 5 < 4 {
                row % 4
            } else {
                row / 5 % (2 * DIM)
            };
            let mut vector = [0.0f32; DIM];
            vector[direction % DIM] = if direction < DIM { 1.0 } else { -1.0 };
            vector
        })
        .collect();
    for grain in [1, 3] {
        let config = IvfConfig::new(Metric::L2).grain(grain).nprobe(24);
        let table = IvfTable::build(&rows, DIM, "IVF24,Flat", &config).unwrap();
        for k in [1, 10, 100, 2000, 6000] {
            let query = Query::new([0.0; DIM]).top(k);
            let whole = unsplit(&table, &query);
            assert_eq!(whole.len(), k);
            assert_well_formed(&whole, k);
            for cuts in [u64::MAX, 0b1010_0101_1100, 0b1000, 1] {
                assert_eq!(split(&table, &query, cuts), whole, "k = {k}, grain {grain}");
            }
        }
    }
}

/// An index made as a user of Faiss makes one, visiting `nprobe` lists.
fn direct_index(factory: &str, metric: Metric, rows: &[f32], nprobe: usize) -> IndexImpl {
    let faiss_metric = match metric {
        Metric::L2 => MetricType::L2,
        Metric::Cosine | Metric::InnerProduct => MetricType::InnerProduct,
    };
    let rows: Vec<f32> = match metric {
        Metric::Cosine => rows.chunks_exact(DIM).flat_map(normalized).collect(),
        Metric::L2 | Metric::InnerProduct => rows.to_vec(),
    };
    let mut index = index_factory(DIM as u32, factory, faiss_metric).unwrap();
    index.train(&rows).unwrap();
    index.add(&rows).unwrap();
    let parameters = ParameterSpace::new().unwrap();
    parameters
        .set_index_parameter(&index, "nprobe", nprobe as f64)
        .unwrap();
    index
}

/// What Faiss' own search finds, in the convention of `metric`.
fn direct_search(index: &mut IndexImpl, metric: Metric, query: &Query) -> Vec<Neighbor> {
    let vector = match metric {
        Metric::Cosine => normalized(query.vector()),
        Metric::L2 | Metric::InnerProduct => query.vector().to_vec(),
    };
    let found = index.search(&vector, query.k()).unwrap();
    let hits = found.labels.iter().zip(&found.distances);
    hits.filter_map(|(label, &distance)| {
        Some(Neighbor {
            id: label.get()?,
            distance: match metric {
                Metric::L2 => distance,
                Metric::Cosine => (1.0 - distance).max(0.0),
                Metric::InnerProduct => 0.0 - distance,
            },
        })
    })
    .collect()
}

#[test]
fn answers_equal_those_of_faiss_called_directly() {
    const NPROBE: usize = 7;
    let rows = clustered(ROWS, DIM, 4);
    for (factory, metrics) in KINDS {
        for &metric in metrics {
            let name = format!("{factory} {metric:?}");
            let mut index = direct_index(factory, metric, &rows, NPROBE);
            let queries = queries(30);
            let direct: Vec<_> = queries
                .iter()
                .map(|query| direct_search(&mut index, metric, query))
                .collect();
            let config = IvfConfig::new(metric).nprobe(NPROBE);
            let table = IvfTable::with_config(index, &config).unwrap();
            for (query, direct) in queries.iter().zip(direct) {
                let hits = unsplit(&table, query);
                let distances = |hits: &[Neighbor]| -> Vec<f32> {
                    hits.iter().map(|hit| hit.distance).collect()
                };
                let (ours, theirs) = (distances(&hits), distances(&direct));
                assert_eq!(ours.len(), theirs.len(), "{name}");
                let share = tolerance(factory);
                let near = |a: f32, b: f32| (a - b).abs() <= share * b.abs().max(1.0);
                for (&ours, &theirs) in ours.iter().zip(&theirs) {
                    assert!(near(ours, theirs), "{name}: {ours} {theirs}");
                }
                if factory.contains("x4fs") {
                    // Faiss' rounding decides which rows it finds.
                    continue;
                }
                // Rows as far as the last one may have been chosen differently among their equals.
                let last = ours[ours.len() - 1];
                let ids = |hits: &[Neighbor]| {
                    let mut ids: Vec<u64> = hits
                        .iter()
                        .filter(|hit| hit.distance < last && !near(hit.distance, last))
                        .map(|hit| hit.id)
                        .collect();
                    ids.sort_unstable();
                    ids
                };
                assert_eq!(ids(&hits), ids(&direct), "{name}");
            }
        }
    }
}

#[test]
fn visiting_every_list_of_a_flat_index_is_exact_search() {
    let rows = clustered(ROWS, DIM, 4);
    for metric in METRICS {
        let exact = FlatTable::build(rows.clone(), DIM, metric).unwrap();
        let config = IvfConfig::new(metric).nprobe(24);
        let table = IvfTable::build(&rows, DIM, "IVF24,Flat", &config).unwrap();
        let recall = recall(&exact, &table, &queries(50));
        assert_eq!(recall, 1.0, "{metric:?}");
    }
}

#[test]
fn recall_at_10_is_at_least_095_at_a_third_of_the_lists() {
    let rows = clustered(ROWS, DIM, 4);
    let exact = FlatTable::build(rows.clone(), DIM, Metric::L2).unwrap();
    for factory in ["IVF24,Flat", "IVF24,SQ8", "IVF24_HNSW8,Flat"] {
        let config = IvfConfig::new(Metric::L2).nprobe(8);
        let table = IvfTable::build(&rows, DIM, factory, &config).unwrap();
        let recall = recall(&exact, &table, &queries(100));
        assert!(recall >= 0.95, "{factory}: {recall}");
    }
}

#[test]
fn concurrent_searches_answer_as_sequential_ones() {
    for (name, table) in TABLES
        .iter()
        .filter(|(name, _)| name.ends_with("L2 distinct"))
    {
        let queries = queries(20);
        assert_concurrent_equals_sequential(table, &queries);
        let splits = on_eight_threads(queries.len(), |number| {
            split(table, &queries[number], 0b1011)
        });
        for (query, answer) in queries.iter().zip(&splits) {
            assert_eq!(answer, &unsplit(table, query), "{name}");
        }
    }
}

#[test]
fn probes_come_nearest_first_and_cost_what_their_lists_hold() {
    for (name, table) in TABLES.iter() {
        let query = &queries(1)[0].clone().nprobe(24);
        let mut coarse_context = Context::default();
        let probes = table.coarse(query, &mut coarse_context).unwrap();
        assert!(
            probes.is_sorted_by(|a, b| a.distance <= b.distance),
            "{name}"
        );
        let listed: u64 = probes.iter().map(|probe| probe.cost_bytes).sum();
        if name.starts_with("IVF24,Flat L2 distinct") {
            assert_eq!(listed, (ROWS * DIM * 4) as u64);
            assert_eq!(coarse_context.bytes(), 24 * DIM as u64 * 4);
            let mut context = Context::default();
            table.search(query, &mut context).unwrap();
            assert_eq!(context.bytes(), coarse_context.bytes() + listed);
        }
        if name.starts_with("IVF24,PQ8x4fs L2 distinct") {
            assert_eq!(listed, (ROWS * 4) as u64, "eight codes of four bits");
        }
    }
}

#[test]
fn ids_are_those_the_rows_were_added_under() {
    let rows = clustered(400, DIM, 4);
    let mut index = index_factory(DIM as u32, "IVF4,Flat", MetricType::L2).unwrap();
    index.train(&rows).unwrap();
    let ids: Vec<Idx> = (0..400)
        .map(|row| Idx::new(1_000_000_007 * (row + 1)))
        .collect();
    index.add_with_ids(&rows, &ids).unwrap();
    let table = IvfTable::new(index).unwrap();
    let hits = unsplit(
        &table,
        &Query::new(&rows[5 * DIM..6 * DIM]).top(1).nprobe(4),
    );
    assert_eq!((hits[0].id, hits[0].distance), (6_000_000_042, 0.0));
}

#[test]
fn an_untrained_index_is_refused_and_an_empty_one_finds_nothing() {
    let untrained = index_factory(DIM as u32, "IVF4,Flat", MetricType::L2).unwrap();
    assert_eq!(IvfTable::new(untrained).err(), Some(BuildError::Untrained));
    for factory in ["IVF4,Flat", "IVF4,SQ8", "IVF4,PQ8x4fs"] {
        let mut empty = index_factory(DIM as u32, factory, MetricType::L2).unwrap();
        empty.train(&clustered(400, DIM, 4)).unwrap();
        let table = IvfTable::new(empty).unwrap();
        assert!(table.is_empty());
        let query = Query::new([0.5; DIM]).top(7).nprobe(99);
        assert_eq!(unsplit(&table, &query), []);
        assert_eq!(split(&table, &query, 0b11), []);
    }
}

#[test]
fn units_and_probes_that_make_no_sense_are_refused() {
    let (_, table) = TABLES
        .iter()
        .find(|(name, _)| name.contains("4fs by Faiss"))
        .unwrap();
    let query = Query::new([0.5; DIM]).nprobe(20);
    let mut probes = table.coarse(&query, &mut Context::default()).unwrap();
    assert_eq!((table.grain(), probes.len()), (8, 20));
    let scan = |probes: &[_], unit| table.scan(&query, probes, unit, &mut Context::default());
    for unit in [0..3, 4..8, 8..21, 16..18] {
        let refused = scan(&probes, unit.clone());
        assert!(matches!(refused, Err(SearchError::Backend(_))), "{unit:?}");
    }
    for unit in [0..8, 8..16, 16..20, 0..20, 8..8] {
        assert!(scan(&probes, unit.clone()).is_ok(), "{unit:?}");
    }
    probes[2].list = 24;
    let refused = scan(&probes, 0..8).unwrap_err();
    assert_eq!(
        refused,
        SearchError::Backend("there is no list 24, only 24".to_owned())
    );
}

#[test]
fn a_batch_of_faiss_finds_the_distances_that_single_searches_find() {
    let rows = clustered(ROWS, DIM, 4);
    for factory in ["IVF24,Flat", "IVF24,SQ8"] {
        for metric in METRICS {
            let config = IvfConfig::new(metric).nprobe(6).faiss_scans(true);
            let table = IvfTable::build(&rows, DIM, factory, &config).unwrap();
            let queries = queries(70);
            let batch = table.search_by_faiss(&queries).unwrap();
            assert_eq!(batch.len(), queries.len());
            for (query, together) in queries.iter().zip(batch) {
                let alone = unsplit(&table, query);
                let distances = |hits: &[Neighbor]| -> Vec<f32> {
                    hits.iter().map(|hit| hit.distance).collect()
                };
                for (a, b) in distances(&alone).into_iter().zip(distances(&together)) {
                    // The batch's arithmetic differs in the last bits.
                    assert!(
                        (a - b).abs() <= 1e-4 * a.abs().max(1.0),
                        "{factory} {metric:?}: {a} {b}"
                    );
                }
                assert_eq!(alone.len(), together.len());
            }
        }
    }
}

#[test]
fn a_batch_with_a_bad_query_is_refused_and_an_empty_one_is_empty() {
    let table = IvfTable::build(
        &clustered(ROWS, DIM, 4),
        DIM,
        "IVF24,Flat",
        &IvfConfig::new(Metric::L2).faiss_scans(true),
    )
    .unwrap();
    assert!(table.search_by_faiss(&[]).unwrap().is_empty());
    let bad = [Query::new([0.0; DIM]), Query::new([0.0; 3])];
    assert!(matches!(
        table.search_by_faiss(&bad),
        Err(SearchError::WrongDimension { .. })
    ));
}

#[test]
fn cosines_of_codes_are_at_most_2_from_the_query() {
    let config = IvfConfig::new(Metric::Cosine);
    let rows = clustered(ROWS, DIM, 4);
    let refined = IvfTable::build(&rows, DIM, "IVF24,PQ8x4fs,Refine(SQ8)", &config).unwrap();
    let refined = ("refined".to_owned(), refined);
    let by_faiss = config.faiss_scans(true);
    let by_faiss = IvfTable::build(&rows, DIM, "IVF24,SQ4", &by_faiss).unwrap();
    let more = [refined, ("by Faiss".to_owned(), by_faiss)];
    for (name, table) in TABLES.iter().chain(&more) {
        if table.metric() != Metric::Cosine {
            continue;
        }
        for row in rows.chunks_exact(DIM).step_by(97) {
            for sign in [1.0, -1.0] {
                let query = Query::new(row.iter().map(|x| sign * x).collect::<Vec<_>>());
                let query = query.nprobe(24);
                for query in [
                    query.clone().top(ROWS),
                    query.clone().top(30),
                    query.radius(2.0),
                ] {
                    let hits = unsplit(table, &query);
                    let outside = hits.iter().find(|hit| !(0.0..=2.0).contains(&hit.distance));
                    assert_eq!(outside, None, "{name}");
                    assert_eq!(split(table, &query, u64::MAX), hits, "{name}");
                }
            }
        }
    }
}

/// What `table` answers to `query`, which is the same whether it is cut, or one of a batch.
fn each_way(name: &str, table: &IvfTable, query: &Query) -> Vec<Neighbor> {
    let whole = unsplit(table, query);
    assert_eq!(split(table, query, u64::MAX), whole, "{name}");
    let batch = [Query::new(vec![0.5; DIM]), query.clone()];
    let answers = table.search_batch(&batch, &mut Context::default());
    assert_eq!(answers[1].as_ref(), Ok(&whole), "{name}");
    whole
}

#[test]
fn a_filter_finds_as_many_as_it_allows_up_to_k() {
    let few: Vec<u64> = vec![3, 400, 1100, 1101, 1999];
    let (wanted, tenth) = (few.clone(), Filter::matching(|id| id % 10 == 7));
    let few = [
        Filter::ids(few),
        Filter::matching(move |id| wanted.contains(&id)),
    ];
    for (name, table) in &*TABLES {
        for query in queries(6) {
            for filter in &few {
                let query = query.clone().nprobe(1).filter(filter.clone());
                let hits = each_way(name, table, &query);
                assert_eq!(hits.len(), 5, "{name}, {filter:?}");
                let hits = each_way(name, table, &query.radius(f32::MAX).top(3));
                assert_eq!(hits.len(), 3, "{name}");
            }
            for k in [10, 190, 500] {
                let query = query.clone().nprobe(1).top(k).filter(tenth.clone());
                assert_eq!(each_way(name, table, &query).len(), k.min(200), "{name}");
            }
        }
    }
}

#[test]
fn a_filter_of_no_more_rows_than_the_lists_of_a_query_hold_is_answered_exactly() {
    let rows = clustered(ROWS, DIM, 4);
    for metric in METRICS {
        let exact = FlatTable::build(rows.clone(), DIM, metric).unwrap();
        for factory in ["IVF24,Flat", "IVF24_HNSW8,Flat", "IVF24(IVF4,Flat),Flat"] {
            let table = IvfTable::build(&rows, DIM, factory, &IvfConfig::new(metric)).unwrap();
            for query in queries(50) {
                // Two lists hold some 166 rows.
                let query = query
                    .nprobe(2)
                    .filter(Filter::ids((0..150).map(|id| id * 13)));
                let ids = |hits: Vec<Neighbor>| hits.iter().map(|hit| hit.id).collect::<Vec<_>>();
                assert_eq!(ids(unsplit(&table, &query)), ids(unsplit(&exact, &query)));
            }
        }
    }
}

#[test]
fn lists_without_rows_do_not_count_as_visited() {
    let distinct = clustered(3, DIM, 4);
    let rows: Vec<f32> = distinct
        .iter()
        .copied()
        .cycle()
        .take(4000 * 3 * DIM)
        .collect();
    for metric in METRICS {
        for faiss_scans in [false, true] {
            let config = IvfConfig::new(metric).nprobe(1).faiss_scans(faiss_scans);
            let table = IvfTable::build(&rows, DIM, "IVF100,Flat", &config).unwrap();
            for query in queries(20) {
                let hits = each_way("few values", &table, &query);
                assert_eq!(hits.len(), 10, "{metric:?}");
            }
        }
    }
}
