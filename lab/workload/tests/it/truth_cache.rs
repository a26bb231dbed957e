//! Truth kept on disk: always what an exact search finds, whatever happened to the files.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use chiplet_workload::dataset::VectorSet;
use chiplet_workload::truth::{CacheWarning, Cached, Metric, Truth, TruthCache};
use proptest::prelude::*;
use tempfile::TempDir;

const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

#[derive(Debug)]
struct Search {
    vectors: VectorSet,
    queries: VectorSet,
    k: usize,
    metric: Metric,
}

impl Search {
    fn exact(&self) -> Truth {
        Truth::exact(&self.vectors, &self.queries, self.k, self.metric).unwrap()
    }

    /// Asks through the cache, and holds the answer against an exact search.
    fn cached(&self, cache: &TruthCache) -> Cached {
        let calls = Cell::new(0);
        let count = |_, _| calls.set(calls.get() + 1);
        let Self {
            vectors, queries, ..
        } = self;
        let cached =
            Truth::exact_cached(vectors, queries, self.k, self.metric, cache, count).unwrap();
        assert_eq!(cached.truth, self.exact());
        let computed = if cached.found { 0 } else { queries.len() };
        assert_eq!(calls.get(), computed, "queries that were computed");
        cached
    }
}

/// Whole numbers in a small range, so that neighbours tie.
fn search() -> impl Strategy<Value = Search> {
    let set = |rows| {
        let values = prop::collection::vec(-2_i8..3, rows * 2);
        values.prop_map(|v| VectorSet::new(v.into_iter().map(f32::from).collect(), 2).unwrap())
    };
    let sets = (1_usize..20, 0_usize..5).prop_flat_map(move |(v, q)| (set(v), set(q)));
    (sets, 1_usize..25, prop::sample::select(&METRICS)).prop_map(
        |((vectors, queries), k, metric)| Search {
            vectors,
            queries,
            k,
            metric,
        },
    )
}

/// A search whose second query has its two nearest at the same distance.
fn with_ties() -> Search {
    let vectors = VectorSet::new(vec![0.0, 1.0, 5.0, 3.0, 9.0], 1).unwrap();
    let queries = VectorSet::new(vec![1.0, 4.0], 1).unwrap();
    Search {
        vectors,
        queries,
        k: 3,
        metric: Metric::L2,
    }
}

fn empty_cache() -> (TruthCache, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (TruthCache::new(folder.path().join("not/yet/there")), folder)
}

/// The one file in the cache.
fn only_file(cache: &TruthCache) -> PathBuf {
    let mut files = fs::read_dir(cache.folder()).unwrap();
    let path = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "more than one file in the cache");
    path
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_found_is_what_an_exact_search_finds(search in search()) {
        let (cache, _folder) = empty_cache();
        prop_assert!(!search.cached(&cache).found);
        let again = search.cached(&cache);
        prop_assert!(again.found && again.warnings.is_empty());
    }

    #[test]
    fn a_damaged_file_is_computed_and_written_again(
        search in search(), at: prop::sample::Index, bit in 0..8_u32, cut: bool,
    ) {
        let (cache, _folder) = empty_cache();
        search.cached(&cache);
        let path = only_file(&cache);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1_u8 << bit;
        }
        fs::write(&path, bytes).unwrap();
        let again = search.cached(&cache);
        prop_assert!(!again.found);
        let damaged = matches!(&again.warnings[..], [CacheWarning::Damaged { .. }]);
        prop_assert!(damaged, "{:?}", again.warnings);
        prop_assert_eq!(fs::read(only_file(&cache)).unwrap(), whole);
        prop_assert!(search.cached(&cache).found);
    }
}

#[test]
fn no_flipped_bit_is_believed() {
    let search = with_ties();
    let (cache, _folder) = empty_cache();
    search.cached(&cache);
    let path = only_file(&cache);
    let whole = fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, bytes).unwrap();
        assert!(!search.cached(&cache).found, "bit {bit}");
    }
}

#[test]
fn those_that_tie_with_the_kth_are_kept() {
    let search = with_ties();
    let (cache, _folder) = empty_cache();
    search.cached(&cache);
    let truth = search.cached(&cache).truth;
    // From 4.0, rows 2 and 3 are at 1 and row 1 is at 9.
    assert_eq!(truth.ids(1).collect::<Vec<_>>(), [2, 3, 1]);
    let tied = Search {
        k: 1,
        ..with_ties()
    };
    tied.cached(&cache);
    let truth = tied.cached(&cache).truth;
    assert_eq!(truth.ids(1).collect::<Vec<_>>(), [2]);
    assert_eq!([truth.recall(1, [2]), truth.recall(1, [3])], [1.0, 1.0]);
}

#[test]
fn another_search_never_finds_this_ones_answer() {
    let (cache, _folder) = empty_cache();
    with_ties().cached(&cache);
    let other_value = |set: &VectorSet| {
        let mut values = set.as_slice().to_vec();
        values[0] += 0.5;
        VectorSet::new(values, 1).unwrap()
    };
    let others = [
        Search {
            k: 2,
            ..with_ties()
        },
        Search {
            metric: Metric::InnerProduct,
            ..with_ties()
        },
        Search {
            metric: Metric::Cosine,
            ..with_ties()
        },
        Search {
            vectors: other_value(&with_ties().vectors),
            ..with_ties()
        },
        Search {
            queries: other_value(&with_ties().queries),
            ..with_ties()
        },
        Search {
            queries: with_ties().queries.select(&[1, 0]),
            ..with_ties()
        },
        Search {
            queries: with_ties().queries.select(&[0]),
            ..with_ties()
        },
        // The same values in the same order, but shared out between the sets in another way.
        Search {
            vectors: VectorSet::new(vec![0.0, 1.0, 5.0, 3.0], 1).unwrap(),
            queries: VectorSet::new(vec![9.0, 1.0, 4.0], 1).unwrap(),
            ..with_ties()
        },
    ];
    for (index, other) in others.iter().enumerate() {
        assert!(!other.cached(&cache).found, "search {index}");
    }
    // Nor by its file's name.
    let (own, _folder) = empty_cache();
    others[1].cached(&own);
    let foreign = fs::read(only_file(&own)).unwrap();
    let (mixed, _folder) = empty_cache();
    with_ties().cached(&mixed);
    fs::write(only_file(&mixed), foreign).unwrap();
    let found = with_ties().cached(&mixed);
    assert!(!found.found);
    assert!(
        found.warnings[0].to_string().contains("another search"),
        "{:?}",
        found.warnings
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let found = with_ties().cached(&TruthCache::new(file.join("truth")));
    assert!(!found.found);
    let last = found.warnings.last().unwrap();
    assert!(matches!(last, CacheWarning::Unwritable { .. }), "{last}");
}

#[test]
fn something_else_in_the_files_place_is_left_alone_with_a_warning() {
    let (cache, _folder) = empty_cache();
    with_ties().cached(&cache);
    let path = only_file(&cache);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let found = with_ties().cached(&cache);
    assert!(
        !found.found && found.warnings.len() == 2,
        "{:?}",
        found.warnings
    );
    assert_eq!(only_file(&cache), path, "no temporary file stays behind");
}
