//! Inverted lists that keep the rows beside their codes (`..,RFlat`), and answer with exact distances.

use std::sync::LazyLock;

use crate::common::{
    WORD_DIM, assert_stops_wherever_it_asks, assert_well_formed, mapped, recall, split, unsplit,
    words,
};
use chiplet_index::{FlatTable, IvfConfig, IvfTable, Metric, Pages, Refined, RowFormat};
use chiplet_table::{Context, Filter, Query, SplitTable, Table};
use proptest::prelude::*;

const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

/// Codes of four bits, as those of eight take long to train.
const FACTORIES: [&str; 6] = [
    "IVF16,PQ25x4fs,RFlat",
    "IVF16,PQ10x4fsr,Refine(Flat)",
    "IVF16,PQ25x4,Refine(SQ8)",
    "IVF16,SQ8,Refine(SQfp16)",
    "IVF16_HNSW8,Flat,Refine(SQbf16)",
    "PCA30,IVF16(IVF4,Flat),SQ4,Refine(Flat)",
];

static ROWS: LazyLock<Vec<f32>> = LazyLock::new(|| words(0, 12));

static TABLES: LazyLock<Vec<(String, Metric, IvfTable)>> = LazyLock::new(|| {
    let mut tables = Vec::new();
    for factory in FACTORIES {
        for metric in METRICS {
            let table = build(factory, metric);
            tables.push((format!("{factory} {metric:?}"), metric, table));
        }
    }
    tables
});

fn build(factory: &str, metric: Metric) -> IvfTable {
    let config = IvfConfig::new(metric).nprobe(6);
    IvfTable::build(&ROWS, WORD_DIM, factory, &config).unwrap()
}

fn flat(metric: Metric) -> FlatTable {
    FlatTable::build(&*ROWS, WORD_DIM, metric).unwrap()
}

fn queries() -> Vec<Query> {
    let words = words(7, 900);
    words.chunks_exact(WORD_DIM).map(Query::new).collect()
}

#[test]
fn rows_found_by_codes_are_those_found_by_rows() {
    let asked = words(7, 150);
    let queries = asked.chunks_exact(WORD_DIM).map(Query::new);
    let queries: Vec<Query> = queries.map(|query| query.nprobe(8)).collect();
    for metric in METRICS {
        let exact = flat(metric);
        let found = |factory: &str| recall(&exact, &build(factory, metric), &queries);
        let by_rows = found("IVF16,Flat");
        // Codes of 4 bits for each component, and for each two.
        for (code, least) in [("PQ50x4fs", 0.99), ("SQ4", 0.99), ("PQ25x4fs", 0.93)] {
            let by_codes = found(&format!("IVF16,{code}"));
            let refined = found(&format!("IVF16,{code},RFlat"));
            println!("{metric:?} {code}: {by_codes:.4} {refined:.4} {by_rows:.4}");
            assert!(by_codes < 0.95 * by_rows, "{metric:?} {code}: {by_codes}");
            assert!(
                refined >= least * by_rows,
                "{metric:?} {code}: {refined}, {by_rows}"
            );
        }
    }
}

#[test]
fn distances_are_those_of_the_second_rows() {
    for (name, metric, table) in &*TABLES {
        let exact = flat(*metric);
        for query in queries() {
            for hit in unsplit(table, &query) {
                let only = Query::new(query.vector()).filter(Filter::ids([hit.id]));
                let exactly = unsplit(&exact, &only)[0].distance;
                if name.contains("Flat)") || name.contains("RFlat") {
                    assert_eq!(hit.distance.to_bits(), exactly.to_bits(), "{name}");
                } else {
                    // A word's components are some hundredths to some units.
                    let apart = (hit.distance - exactly).abs();
                    assert!(apart <= 0.05 * exactly.abs().max(1.0), "{name}: {apart}");
                }
            }
        }
    }
}

#[test]
fn the_second_rows_may_as_well_be_another_tables() {
    for metric in METRICS {
        let apart = Refined::new(build("IVF16,PQ25x4fs", metric), flat(metric)).unwrap();
        let (_, _, together) = TABLES
            .iter()
            .find(|(_, other, _)| *other == metric)
            .unwrap();
        for query in queries() {
            let (mut ours, mut theirs) = (Context::default(), Context::default());
            let found = together.search(&query, &mut ours).unwrap();
            assert_eq!(apart.search(&query, &mut theirs).unwrap(), found);
            assert_eq!(ours.bytes(), theirs.bytes());
        }
        assert_eq!(apart.batch_size(), together.batch_size());
    }
}

#[test]
fn what_is_compared_is_counted() {
    let (refined, codes) = (
        build("IVF16,PQ25x4fs,RFlat", Metric::L2),
        build("IVF16,PQ25x4fs", Metric::L2),
    );
    let candidates = RowFormat::Sq4.reranked(10) as u64;
    for query in queries() {
        let (mut all, mut coarse) = (Context::default(), Context::default());
        refined.search(&query, &mut all).unwrap();
        codes.search(&query, &mut coarse).unwrap();
        assert_eq!(all.bytes(), coarse.bytes() + candidates * 200);
    }
    let (_, _, table) = &TABLES[0];
    assert!(assert_stops_wherever_it_asks(table, &queries()[0].clone().top(2_400).nprobe(16)) > 1);
}

#[test]
fn many_queries_are_answered_as_one_by_one() {
    for (name, _, table) in &*TABLES {
        let mut asked = queries();
        asked[3] = asked[3].clone().radius(5.0).top(40);
        let alone: Vec<_> = asked.iter().map(|query| unsplit(table, query)).collect();
        let many = table.search_many(&asked, &mut Context::default());
        assert_eq!(many.unwrap(), alone, "{name}");
        asked[5] = asked[5].clone().top(0);
        let mixed = table.search_batch(&asked, &mut Context::default());
        assert!(mixed[5].is_err());
        for (at, found) in mixed.into_iter().enumerate().filter(|(at, _)| *at != 5) {
            assert_eq!(found.unwrap(), alone[at], "{name}");
        }
    }
}

#[test]
fn a_table_from_a_file_refines_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    // The graph over centroids is left out of files.
    for (name, _, table) in TABLES.iter().filter(|(name, ..)| !name.contains("HNSW")) {
        table.save(&path).unwrap();
        for back in [
            IvfTable::load(&path, Pages::Small).unwrap(),
            mapped::ivf(&path).unwrap(),
        ] {
            assert_eq!(back.size_bytes(), table.size_bytes());
            for query in queries() {
                assert_eq!(unsplit(&back, &query), unsplit(table, &query), "{name}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn split_answers_equal_unsplit_ones(
        which: prop::sample::Index,
        word in 0usize..30,
        k in prop_oneof![1usize..40, 40usize..600],
        nprobe in 1usize..40,
        every in prop_oneof![Just(1u64), 2u64..5, 500u64..600],
        radius_of in prop::option::of(any::<prop::sample::Index>()),
        cuts: u64,
    ) {
        static QUERIES: LazyLock<Vec<Query>> = LazyLock::new(queries);
        let (name, _, table) = which.get(&TABLES);
        let filter = Filter::matching(move |id| id.is_multiple_of(every));
        let mut query = QUERIES[word].clone().top(k).nprobe(nprobe).filter(filter);
        let all = unsplit(table, &query);
        if let Some(at) = radius_of && !all.is_empty() {
            let radius = at.get(&all).distance;
            query = query.radius(radius);
            let near = all.iter().filter(|hit| hit.distance <= radius).copied();
            prop_assert_eq!(unsplit(table, &query), near.collect::<Vec<_>>(), "{}", name);
        }
        let whole = unsplit(table, &query);
        assert_well_formed(&whole, k);
        prop_assert!(whole.iter().all(|hit| hit.id.is_multiple_of(every)));
        prop_assert_eq!(split(table, &query, cuts), &whole[..], "{}", name);
        let in_one = table.search_whole(&query, &mut Context::default());
        prop_assert_eq!(in_one.unwrap(), whole, "{}", name);
    }
}
