//! Ids that are no row numbers: large, in no order, and the same for all kinds of tables, in memory and in files.

use crate::common::{clustered, duplicated, mapped, split, unsplit};
use chiplet_index::{
    AnyTable, BuildError, BuildOptions, ExactRows, FlatTable, HnswConfig, HnswTable, Metric, Pages,
    Refined, RowFormat,
};
#[cfg(feature = "faiss")]
use chiplet_index::{IvfConfig, IvfTable};
use chiplet_table::{Context, Filter, Neighbor, Query, SearchError, Table};
use proptest::prelude::*;

const DIM: usize = 8;

/// A kind of table, and what its answers are.
#[derive(Clone, Debug)]
struct Kind {
    made: Made,
    answers: Answers,
}

#[derive(Clone, Debug)]
enum Made {
    Flat(Metric),
    Hnsw(HnswConfig),
    #[cfg(feature = "faiss")]
    Ivf(&'static str, IvfConfig),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answers {
    /// The first rows of all, by distance and id.
    Exact,
    /// Those that a walk finds, of equally distant ones those with the smallest ids.
    Walked,
    /// Those that codes find, compared exactly: of rows with equal codes other ids find others.
    Refined,
}

impl Kind {
    fn all() -> Vec<Self> {
        let graph = |metric| HnswConfig::new(metric).m(6).ef_construction(40);
        let coded = graph(Metric::L2).rows(RowFormat::Sq4);
        #[cfg_attr(
            not(feature = "faiss"),
            expect(unused_mut, reason = "lists are added below")
        )]
        let mut all = vec![
            (Made::Flat(Metric::L2), Answers::Exact),
            (Made::Flat(Metric::Cosine), Answers::Exact),
            (Made::Hnsw(graph(Metric::L2)), Answers::Walked),
            (Made::Hnsw(graph(Metric::Cosine)), Answers::Walked),
            (Made::Hnsw(graph(Metric::InnerProduct)), Answers::Walked),
            (Made::Hnsw(coded.rerank(RowFormat::F32)), Answers::Refined),
        ];
        #[cfg(feature = "faiss")]
        {
            let (l2, cosine, product) = (Metric::L2, Metric::Cosine, Metric::InnerProduct);
            let lists = |factory, metric| Made::Ivf(factory, IvfConfig::new(metric).nprobe(4));
            let by_faiss = IvfConfig::new(l2).nprobe(4).faiss_scans(true);
            all.extend([
                (lists("IVF4,Flat", l2), Answers::Exact),
                (lists("IVF4,SQ8", cosine), Answers::Exact),
                (lists("IVF4(IVF2,Flat),PQ4x4fs,RFlat", l2), Answers::Refined),
                (lists("IVF4,SQ8,Refine(SQ8)", product), Answers::Refined),
                // Faiss scans the lists of these.
                (lists("IVF4,SQ6", l2), Answers::Exact),
                (Made::Ivf("IVF4,Flat", by_faiss), Answers::Exact),
            ]);
        }
        let kind = |(made, answers)| Self { made, answers };
        all.into_iter().map(kind).collect()
    }

    fn build(&self, rows: &[f32], options: BuildOptions<'_>) -> Result<AnyTable, BuildError> {
        Ok(match &self.made {
            Made::Flat(metric) => FlatTable::build_with(rows, DIM, *metric, options)?.into(),
            Made::Hnsw(config) => HnswTable::build_with(rows, DIM, config, options)?.into(),
            #[cfg(feature = "faiss")]
            Made::Ivf(factory, config) => {
                IvfTable::build_with(rows, DIM, factory, config, options)?.into()
            }
        })
    }
}

/// As many ids as rows, none twice, in no order: small ones, or all sizes and both ends of each.
fn ids(rows: usize) -> impl Strategy<Value = Vec<u64>> {
    let (four, eight) = (u64::from(u32::MAX), u64::MAX);
    let any = (0..200_u64).map(|at| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let edges = (0..20).chain(four - 9..=four + 9).chain(eight - 20..=eight);
    let wide: Vec<u64> = edges.chain(any).collect();
    let narrow: Vec<u64> = (0..1000).collect();
    let chosen = |from| prop::sample::subsequence(from, rows);
    prop_oneof![chosen(narrow), chosen(wide)].prop_shuffle()
}

/// The hits of a table of row numbers, as they are with `ids`.
fn named(hits: &[Neighbor], ids: &[u64]) -> Vec<Neighbor> {
    let mut named: Vec<Neighbor> = hits
        .iter()
        .map(|hit| Neighbor {
            id: ids[hit.id as usize],
            distance: hit.distance,
        })
        .collect();
    named.sort();
    named
}

fn distances(hits: &[Neighbor]) -> Vec<f32> {
    hits.iter().map(|hit| hit.distance).collect()
}

/// A table with ids and one of row numbers, which must answer alike.
fn assert_alike(kind: &Kind, numbered: &AnyTable, table: &AnyTable, ids: &[u64], query: &Query) {
    let all = |query: &Query| query.clone().top(ids.len()).ef(ids.len());
    let expected = named(&unsplit(numbered, &all(query)), ids);
    assert_eq!(unsplit(table, &all(query)), expected, "{kind:?}: all");
    let few = query.clone().top(5).ef(ids.len());
    let found = unsplit(table, &few);
    let plain = distances(&unsplit(numbered, &few));
    assert_eq!(found.len(), plain.len(), "{kind:?}");
    if kind.answers != Answers::Refined {
        assert_eq!(distances(&found), plain, "{kind:?}");
    }
    let first = &expected[..found.len()];
    let whole = kind.answers == Answers::Walked && distances(first) == plain;
    if kind.answers == Answers::Exact || whole {
        assert_eq!(found, first, "{kind:?}: ties by id");
    }
    if table.as_split().is_some() {
        for cuts in 1..4 {
            assert_eq!(split(table, &few, cuts), found, "{kind:?}: cut");
        }
    }
    // Every second row.
    let half = |ids: &[u64]| Filter::ids(ids.iter().copied().step_by(2));
    let numbers: Vec<u64> = (0..ids.len() as u64).collect();
    let expected = unsplit(numbered, &all(query).filter(half(&numbers)));
    let found = unsplit(table, &all(query).filter(half(ids)));
    assert_eq!(found, named(&expected, ids), "{kind:?}: filtered");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_table_with_ids_answers_as_one_of_row_numbers(
        (copied, rows, ids) in (any::<bool>(), 16usize..150).prop_flat_map(|(copied, rows)| {
            (Just(copied), Just(rows), ids(rows))
        }),
        seed in 0u64..1000,
    ) {
        let vectors = match copied {
            true => duplicated(rows, DIM, rows.div_ceil(3), seed),
            false => clustered(rows, DIM, seed),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        for kind in Kind::all() {
            let numbered = kind.build(&vectors, BuildOptions::new()).unwrap();
            let table = kind.build(&vectors, BuildOptions::new().ids(&ids)).unwrap();
            let queries = clustered(3, DIM, seed + 1);
            let own = &vectors[..DIM];
            let queries: Vec<_> = queries.chunks(DIM).chain([own]).map(Query::new).collect();
            for query in &queries {
                assert_alike(&kind, &numbered, &table, &ids, query);
            }
            if table.save(&path).is_err() {
                continue;
            }
            let mapped = mapped::any(&path).unwrap();
            let opened = chiplet_index::open(&path, Pages::Small).unwrap();
            let copy = opened.copy_to(&[0], &mut |_| true);
            for query in &queries {
                assert_alike(&kind, &numbered, &mapped, &ids, query);
                let found = unsplit(&opened, query);
                prop_assert_eq!(&found, &unsplit(&table, query));
                if let Ok(Some(copy)) = &copy {
                    prop_assert_eq!(&found, &unsplit(copy, query));
                }
            }
        }
    }
}

#[test]
fn ids_that_do_not_fit_the_rows_are_refused() {
    let rows = clustered(50, DIM, 3);
    let numbers: Vec<u64> = (0..50).map(|row| row * 3 + (1 << 40)).collect();
    for kind in Kind::all() {
        let build = |ids: &[u64]| kind.build(&rows, BuildOptions::new().ids(ids)).err();
        for count in [0, 49] {
            let refused = build(&numbers[..count]);
            let (ids, rows) = (count, 50);
            assert_eq!(refused, Some(BuildError::IdCount { ids, rows }), "{kind:?}");
        }
        let mut twice = numbers.clone();
        twice[40] = twice[7];
        let id = twice[7];
        let (first, second) = (7, 40);
        let refused = build(&twice);
        assert_eq!(refused, Some(BuildError::IdTwice { id, first, second }));
        assert_eq!(build(&numbers), None);
    }
    let none = BuildOptions::new().ids(&[]);
    assert!(FlatTable::build_with([], DIM, Metric::L2, none).is_ok());
}

#[test]
fn exact_rows_are_found_by_id() {
    let rows = clustered(300, DIM, 5);
    let ids: Vec<u64> = (0..300_u64)
        .map(|row| u64::MAX - row * 7919 % 300 * 5)
        .collect();
    let options = || BuildOptions::new().ids(&ids);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let flat = FlatTable::build_with(&rows, DIM, Metric::L2, options()).unwrap();
    flat.save(&path).unwrap();
    let flat = mapped::flat(&path).unwrap();
    let mut found = [0.0; 3];
    let asked = [ids[2], ids[299], ids[0]];
    let context = &mut Context::default();
    ExactRows::distances(&flat, &rows[..DIM], &asked, &mut found, context).unwrap();
    let exact = |row: usize| Metric::L2.distance(&rows[..DIM], &rows[row * DIM..][..DIM]);
    assert_eq!(found, [exact(2), exact(299), 0.0]);
    for unknown in [0, u64::MAX - 1] {
        let missing = ExactRows::distances(&flat, &rows[..DIM], &[unknown], &mut [0.0], context);
        let told = matches!(&missing, Err(SearchError::Backend(why)) if why.contains(&unknown.to_string()));
        assert!(told, "{missing:?}");
    }

    let config = HnswConfig::new(Metric::L2).rows(RowFormat::Sq8);
    let coarse = HnswTable::build_with(&rows, DIM, &config, options()).unwrap();
    let refined = Refined::new(coarse, flat).unwrap();
    let query = Query::new(&rows[9 * DIM..10 * DIM]).top(3).ef(300);
    let hits = unsplit(&refined, &query);
    assert_eq!((hits[0].id, hits[0].distance), (ids[9], 0.0));
    let exact = FlatTable::build_with(&rows, DIM, Metric::L2, options()).unwrap();
    assert_eq!(distances(&hits), distances(&unsplit(&exact, &query)));
}

#[test]
fn a_flat_table_of_row_numbers_keeps_none() {
    let rows = clustered(100, DIM, 5);
    let numbered = FlatTable::build(&rows, DIM, Metric::L2).unwrap();
    assert_eq!(Table::size_bytes(&numbered), 100 * DIM as u64 * 4);
    let ids: Vec<u64> = (0..100).collect();
    let options = BuildOptions::new().ids(&ids);
    let narrow = FlatTable::build_with(&rows, DIM, Metric::L2, options).unwrap();
    assert_eq!(Table::size_bytes(&narrow), 100 * (DIM as u64 * 4 + 4));
}
