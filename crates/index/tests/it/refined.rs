//! Tables that answer with exact distances, over tables of coarser rows.

use std::collections::HashMap;

use crate::common::{
    WORD_DIM, assert_concurrent_equals_sequential, assert_stops_wherever_it_asks,
    assert_well_formed, duplicated, recall, split, unsplit, words,
};
use chiplet_index::{
    BuildError, ExactRows, FlatTable, HnswConfig, HnswTable, Metric, Pages, Refined, RowFormat,
};
use chiplet_table::{Context, Filter, Neighbor, Query, SearchError, SplitTable, Table};
use proptest::prelude::*;

const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

/// 6,000 words, and 100 others to look for.
fn rows() -> Vec<f32> {
    words(0, 5)
}

fn queries() -> Vec<Query> {
    let words = words(7, 300);
    words.chunks_exact(WORD_DIM).map(Query::new).collect()
}

fn flat(rows: &[f32], metric: Metric) -> FlatTable {
    FlatTable::build(rows, WORD_DIM, metric).unwrap()
}

/// Rows that have lost most of what they had: only multiples of 0.6 are left. Cut to blocks, as any flat table's.
fn rounded(rows: &[f32], metric: Metric) -> FlatTable {
    let rows: Vec<f32> = rows.iter().map(|x| (x / 0.6).round() * 0.6).collect();
    flat(&rows, metric)
}

fn graph(rows: &[f32], metric: Metric) -> HnswTable {
    let config = HnswConfig::new(metric).rows(RowFormat::Sq8);
    HnswTable::build(rows, WORD_DIM, &config).unwrap()
}

/// The distance that exact search reports of row `id`.
fn distance(exact: &FlatTable, query: &Query, id: u64) -> f32 {
    let only = Query::new(query.vector()).filter(Filter::ids([id]));
    unsplit(exact, &only)[0].distance
}

#[test]
fn distances_are_exact_and_no_fewer_rows_are_found() {
    let rows = rows();
    for metric in METRICS {
        let exact = flat(&rows, metric);
        let coarse = recall(&exact, &rounded(&rows, metric), &queries());
        assert!(coarse < 0.9, "{metric:?}: {coarse} leaves little to refine");
        let refined = Refined::new(rounded(&rows, metric), flat(&rows, metric)).unwrap();
        let found = recall(&exact, &refined, &queries());
        assert!(found >= 0.97, "{metric:?}: {found}, {coarse} without");

        let coarse = recall(&exact, &graph(&rows, metric), &queries());
        let walked = Refined::new(graph(&rows, metric), flat(&rows, metric)).unwrap();
        let found = recall(&exact, &walked, &queries());
        assert!(found >= coarse, "{metric:?}: {found}, {coarse} without");

        for query in queries() {
            for table in [&refined as &dyn Table, &walked] {
                let hits = unsplit(table, &query);
                assert_well_formed(&hits, 10);
                assert_eq!(hits.len(), 10);
                for hit in hits {
                    let exactly = distance(&exact, &query, hit.id);
                    assert_eq!(hit.distance.to_bits(), exactly.to_bits(), "{metric:?}");
                }
            }
        }
    }
}

/// Rows of 4 bits without a second copy find what they find beside one, also when they come from a file.
#[test]
fn a_graph_of_4_bits_needs_no_rows_of_its_own_in_here() {
    let rows = rows();
    let folder = tempfile::tempdir().unwrap();
    for metric in METRICS {
        let exact = flat(&rows, metric);
        let config = HnswConfig::new(metric).rows(RowFormat::Sq4);
        let both = config.clone().rerank(RowFormat::F32);
        let both = HnswTable::build(&rows, WORD_DIM, &both).unwrap();
        let alone = config.inside_refined();
        let alone = HnswTable::build(&rows, WORD_DIM, &alone).unwrap();
        assert_eq!(alone.rerank_format(), None);
        let saved = Table::size_bytes(&both) - Table::size_bytes(&alone);
        assert_eq!(saved, 200 * 6_000);
        let path = folder.path().join("graph");
        alone.save(&path).unwrap();
        let loaded = HnswTable::load(&path, Pages::default()).unwrap();
        let by_codes = recall(&exact, &loaded, &queries());
        let [alone, loaded] =
            [alone, loaded].map(|inner| Refined::new(inner, flat(&rows, metric)).unwrap());
        let found = recall(&exact, &alone, &queries());
        let beside = recall(&exact, &both, &queries());
        assert!(found > by_codes && found >= beside - 0.005);
        for query in queries() {
            let hits = unsplit(&alone, &query);
            assert_eq!(unsplit(&loaded, &query), hits);
            for hit in hits {
                let exactly = distance(&exact, &query, hit.id);
                assert_eq!(hit.distance.to_bits(), exactly.to_bits());
            }
            // So many that all rows are compared.
            let all = query.top(5_000);
            assert_eq!(unsplit(&alone, &all), unsplit(&exact, &all));
        }
    }
}

#[test]
fn rows_of_fewer_bits_need_a_second_copy_all_the_same() {
    for rows in [RowFormat::Sq2, RowFormat::Sq1] {
        let config = HnswConfig::new(Metric::L2).rows(rows).inside_refined();
        let refused = HnswTable::build(&words(0, 50), WORD_DIM, &config).err();
        let rerank = matches!(
            refused,
            Some(BuildError::Setting {
                setting: "rerank",
                ..
            })
        );
        assert!(rerank, "{refused:?}");
    }
}

#[test]
fn all_rows_are_as_exact_search_has_them() {
    let rows = words(0, 50);
    for metric in METRICS {
        let exact = flat(&rows, metric);
        let refined = Refined::new(rounded(&rows, metric), flat(&rows, metric)).unwrap();
        for k in [exact.len(), exact.len() + 1, usize::MAX] {
            for query in queries().into_iter().take(5) {
                let query = query.top(k);
                assert_eq!(unsplit(&refined, &query), unsplit(&exact, &query));
            }
        }
    }
}

#[test]
fn zeros_have_the_distances_that_they_have_elsewhere() {
    let mut rows = words(0, 300);
    rows[..WORD_DIM].fill(0.0);
    rows[WORD_DIM..2 * WORD_DIM].fill(-0.0);
    for metric in METRICS {
        let exact = flat(&rows, metric);
        let refined = Refined::new(rounded(&rows, metric), flat(&rows, metric)).unwrap();
        let zeros = Query::new([0.0; WORD_DIM]);
        for query in queries().into_iter().take(5).chain([zeros]) {
            let query = query.top(exact.len());
            assert_eq!(unsplit(&refined, &query), unsplit(&exact, &query));
        }
    }
}

#[test]
fn copies_come_in_the_order_of_their_ids() {
    let rows = duplicated(2000, WORD_DIM, 60, 4);
    for metric in METRICS {
        let exact = flat(&rows, metric);
        let refined = Refined::new(graph(&rows, metric), flat(&rows, metric)).unwrap();
        for row in rows.chunks_exact(WORD_DIM).take(50) {
            let query = Query::new(row).top(25);
            assert_eq!(unsplit(&refined, &query), unsplit(&exact, &query));
        }
    }
}

#[test]
fn a_filter_is_the_inner_tables_and_a_radius_is_exact() {
    let rows = rows();
    for metric in METRICS {
        let exact = flat(&rows, metric);
        let coarse = rounded(&rows, metric);
        let refined = Refined::new(rounded(&rows, metric), flat(&rows, metric)).unwrap();
        // Rows that the radius lets through, but not by their coarse distances.
        let mut saved = 0;
        for query in queries() {
            // No more than are compared.
            let few = query.clone().filter(Filter::ids((0..31).map(|n| 3 * n)));
            assert_eq!(unsplit(&refined, &few), unsplit(&exact, &few));

            let even = query.clone().filter(Filter::matching(|id| id % 2 == 0));
            let hits = unsplit(&refined, &even);
            assert_eq!(hits.len(), 10);
            assert!(hits.iter().all(|hit| hit.id % 2 == 0));

            let hits = unsplit(&refined, &query);
            let near = query.clone().radius(hits[4].distance);
            assert_eq!(unsplit(&refined, &near), hits[..5]);
            saved += 5 - unsplit(&coarse, &near).len().min(5);
            let nothing = query.clone().radius(f32::NEG_INFINITY);
            assert_eq!(unsplit(&refined, &nothing), []);
        }
        assert!(saved > 0, "{metric:?}");
    }
}

#[test]
fn what_a_query_says_of_its_search_goes_with_it() {
    let rows = rows();
    let exact = flat(&rows, Metric::L2);
    let refined = Refined::new(graph(&rows, Metric::L2), flat(&rows, Metric::L2)).unwrap();
    let with = |ef| queries().into_iter().map(|query| query.ef(ef)).collect();
    let (few, many): (Vec<Query>, Vec<Query>) = (with(1), with(400));
    let bytes = |query: &Query| {
        let mut context = Context::default();
        refined.search(query, &mut context).unwrap();
        context.bytes()
    };
    assert!(bytes(&few[0]) < bytes(&many[0]));
    assert!(recall(&exact, &refined, &few) < recall(&exact, &refined, &many));
}

#[test]
fn what_is_compared_is_counted() {
    let rows = rows();
    let coarse = graph(&rows, Metric::Cosine);
    let refined = Refined::new(graph(&rows, Metric::Cosine), flat(&rows, Metric::Cosine)).unwrap();
    for query in queries() {
        let (mut inner, mut all) = (Context::default(), Context::default());
        let wide = query.clone().top(RowFormat::Sq4.reranked(10));
        let candidates = coarse.search(&wide, &mut inner).unwrap();
        assert_eq!(candidates.len(), 31);
        refined.search(&query, &mut all).unwrap();
        assert_eq!(all.bytes(), inner.bytes() + 31 * 200);
    }
    let sizes = Table::size_bytes(&coarse) + 200 * 6_000;
    assert_eq!(refined.size_bytes(), sizes);
    assert_eq!((refined.dim(), refined.len()), (WORD_DIM, 6_000));
    assert_eq!(refined.residence(), coarse.residence());
}

#[test]
fn a_search_that_nobody_waits_for_ends_wherever_it_asks() {
    let rows = rows();
    let refined = Refined::new(rounded(&rows, Metric::L2), flat(&rows, Metric::L2)).unwrap();
    let query = queries().remove(0);
    let asked = assert_stops_wherever_it_asks(&refined, &query);
    // Each row is compared again: it asks as it goes on.
    let of_all = assert_stops_wherever_it_asks(&refined, &query.top(6_000));
    assert!(of_all > asked, "{of_all} times, {asked} for few rows");
}

#[test]
fn what_the_inner_table_refuses_is_refused() {
    let rows = rows();
    let refined = Refined::new(rounded(&rows, Metric::L2), flat(&rows, Metric::L2)).unwrap();
    let query = || Query::new([1.0; WORD_DIM]);
    let asked = [
        Query::new([1.0]),
        Query::new([f32::NAN; WORD_DIM]),
        Query::new([1e30; WORD_DIM]),
        query().top(0),
        query().nprobe(0),
        query().radius(f32::NAN),
    ];
    let mut context = Context::default();
    for query in &asked {
        let expected = flat(&rows, Metric::L2).search(query, &mut context);
        let expected = expected.unwrap_err();
        let told = refined.search(query, &mut context);
        // By what it shows, as NaN is no error's equal.
        assert_eq!(format!("{:?}", told.unwrap_err()), format!("{expected:?}"));
        let told = refined.coarse(query, &mut context).unwrap_err();
        assert_eq!(format!("{told:?}"), format!("{expected:?}"));
    }
    let other = FlatTable::build([1.0, 2.0], 2, Metric::L2).unwrap();
    let refused = Refined::new(other, flat(&rows, Metric::L2)).unwrap_err();
    assert!(matches!(refused, BuildError::Setting { .. }), "{refused}");
    assert!(refused.to_string().contains("50"), "{refused}");
}

#[test]
fn an_empty_table_finds_nothing() {
    let empty = || FlatTable::build([], WORD_DIM, Metric::Cosine).unwrap();
    let refined = Refined::new(empty(), empty()).unwrap();
    assert!(refined.is_empty());
    let query = Query::new([1.0; WORD_DIM]);
    assert_eq!(unsplit(&refined, &query), []);
    assert_eq!(split(&refined, &query, 0), []);
}

#[test]
fn a_candidate_without_an_exact_row_is_an_error_that_names_it() {
    let rows = words(0, 50);
    let most = rows.len() - WORD_DIM;
    let short = flat(&rows[..most], Metric::L2);
    let refined = Refined::new(flat(&rows, Metric::L2), short).unwrap();
    let (last, missing) = (Query::new(&rows[most..]), rows.len() / WORD_DIM - 1);
    let mut context = Context::default();
    let told = refined.search(&last, &mut context);
    assert!(
        matches!(&told, Err(SearchError::Backend(why)) if why.contains(&format!("candidate {missing} "))),
        "{told:?}"
    );
    assert_eq!(refined.search_whole(&last, &mut context), told);
    // Others are answered as long as they do not come upon it.
    let others = last.filter(Filter::matching(move |id| id != missing as u64));
    assert_eq!(unsplit(&refined, &others).len(), 10);
}

#[test]
fn many_queries_are_answered_as_one_by_one_and_a_bad_one_fails_alone() {
    let rows = rows();
    let walked = Refined::new(graph(&rows, Metric::L2), flat(&rows, Metric::L2)).unwrap();
    let scanned = Refined::new(rounded(&rows, Metric::L2), flat(&rows, Metric::L2)).unwrap();
    assert_eq!(walked.batch_size(), graph(&rows, Metric::L2).batch_size());
    let mut asked = queries();
    asked.insert(3, Query::new([1.0; WORD_DIM]).top(0));
    asked.insert(9, Query::new([f32::INFINITY; WORD_DIM]));
    // Known to the inner table alone.
    asked.insert(12, Query::new([1e30; WORD_DIM]));
    for table in [&walked as &dyn Table, &scanned] {
        let mut context = Context::default();
        let together = table.search_batch(&asked, &mut context);
        assert_eq!(together.iter().filter(|found| found.is_err()).count(), 3);
        let alone = |query| table.search(query, &mut Context::default());
        let alone: Vec<_> = asked.iter().map(alone).collect();
        assert_eq!(together, alone);
        assert_eq!(table.search_batch(&[], &mut context), []);
    }
}

#[test]
fn searches_at_once_are_as_one_after_the_other() {
    let rows = rows();
    let refined = Refined::new(rounded(&rows, Metric::Cosine), flat(&rows, Metric::Cosine));
    assert_concurrent_equals_sequential(&refined.unwrap(), &queries()[..20]);
}

/// Rows of words that are looked up by a key, as in a store.
struct Store(HashMap<u64, Vec<f32>>);

impl ExactRows for Store {
    fn dim(&self) -> usize {
        WORD_DIM
    }

    fn metric(&self) -> Metric {
        Metric::L2
    }

    fn size_bytes(&self) -> u64 {
        (self.0.len() * 4 * WORD_DIM) as u64
    }

    fn distances(
        &self,
        query: &[f32],
        ids: &[u64],
        distances: &mut [f32],
        context: &mut Context,
    ) -> Result<(), SearchError> {
        for (id, distance) in ids.iter().zip(distances) {
            let row = self.0.get(id);
            let row = row.ok_or_else(|| SearchError::Backend(format!("no row {id}")))?;
            *distance = Metric::L2.distance(query, row);
            context.add_bytes(4 * WORD_DIM as u64);
        }
        Ok(())
    }
}

#[test]
fn rows_may_come_from_another_store() {
    let rows = rows();
    let kept = (0..).zip(rows.chunks_exact(WORD_DIM).map(<[f32]>::to_vec));
    let stored = Refined::new(rounded(&rows, Metric::L2), Store(kept.collect())).unwrap();
    let refined = Refined::new(rounded(&rows, Metric::L2), flat(&rows, Metric::L2)).unwrap();
    for query in queries() {
        assert_eq!(unsplit(&stored, &query), unsplit(&refined, &query));
    }
    let without = Refined::new(rounded(&rows, Metric::L2), Store(HashMap::new())).unwrap();
    let told = without.search(&queries()[0], &mut Context::default());
    assert!(matches!(told, Err(SearchError::Backend(_))), "{told:?}");
}

#[test]
fn a_graph_stays_one_task() {
    let rows = words(0, 50);
    let walked = Refined::new(graph(&rows, Metric::L2), flat(&rows, Metric::L2)).unwrap();
    assert!(walked.as_split().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn split_answers_equal_unsplit_ones(
        metric in prop::sample::select(&METRICS),
        which in 0usize..100,
        k in prop_oneof![1usize..40, 40usize..7_000],
        every in prop_oneof![Just(1u64), 2u64..5, 500u64..600],
        radius_of in prop::option::of(any::<prop::sample::Index>()),
        cuts: u64,
    ) {
        thread_local! {
            static TABLES: Vec<Refined<FlatTable>> = METRICS
                .map(|metric| Refined::new(rounded(&rows(), metric), flat(&rows(), metric)).unwrap())
                .into();
            static QUERIES: Vec<Query> = queries();
        }
        let query = QUERIES.with(|queries| queries[which].clone());
        let filter = Filter::matching(move |id| id.is_multiple_of(every));
        let mut query = query.top(k).filter(filter);
        TABLES.with(|tables| {
            let at = METRICS.iter().position(|&other| other == metric);
            let table = &tables[at.unwrap()];
            if let Some(at) = radius_of {
                query = query.clone().radius(at.get(&unsplit(table, &query)).distance);
            }
            let whole: Vec<Neighbor> = unsplit(table, &query);
            assert_well_formed(&whole, k);
            prop_assert_eq!(split(table, &query, cuts), &whole[..]);
            let in_one = table.search_whole(&query, &mut Context::default());
            prop_assert_eq!(in_one.unwrap(), whole);
            Ok(())
        })?;
    }
}
