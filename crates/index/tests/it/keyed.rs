//! Keyed rows: every key has its value and no other has one, in memory, from a file, while they change.

use crate::common;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use chiplet_index::{
    BuildError, ExactRows as _, FlatTable, HnswConfig, HnswTable, KeyedRows, KeyedVectors,
    LiveKeyedRows, Metric, Pages, Refined, RowFormat, UpdateError,
};
use chiplet_table::{Context, Query, Table as _};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

fn build(pairs: &[(u64, Vec<u8>)], bytes: usize) -> KeyedRows {
    let keys: Vec<u64> = pairs.iter().map(|(key, _)| *key).collect();
    KeyedRows::build(&keys, bytes, |at| &pairs[at].1).unwrap()
}

/// Asserts that `rows` has what `pairs` has, of some keys that it has and some that it has not.
fn holds(rows: &KeyedRows, pairs: &HashMap<u64, Vec<u8>>, absent: &[u64]) {
    assert_eq!(rows.len(), pairs.len());
    let keys: Vec<u64> = pairs.keys().chain(absent).copied().collect();
    for key in &keys {
        assert_eq!(rows.get(*key), pairs.get(key).map(Vec::as_slice), "{key}");
    }
    let bytes = rows.value_bytes();
    let (mut values, mut found) = (vec![9; keys.len() * bytes], vec![false; keys.len()]);
    let count = rows.get_many(&keys, &mut values, &mut found);
    assert_eq!(count, found.iter().filter(|found| **found).count());
    for (at, key) in keys.iter().enumerate() {
        let value = &values[at * bytes..][..bytes];
        match pairs.get(key) {
            Some(expected) => assert!(found[at] && value == expected, "{key}"),
            None => assert!(!found[at] && value.iter().all(|&byte| byte == 0), "{key}"),
        }
    }
    let all: HashMap<u64, Vec<u8>> = rows
        .iter()
        .map(|(key, value)| (key, value.to_vec()))
        .collect();
    assert_eq!(&all, pairs);
    assert_eq!(rows.iter().count(), pairs.len(), "each once");
}

proptest! {
    #[test]
    fn every_key_has_its_value_and_no_other_one(
        pairs in proptest::collection::hash_map(
            prop_oneof![any::<u64>(), 0..1000_u64, Just(0), Just(u64::MAX)], any::<u8>(), 0..300),
        absent in proptest::collection::vec(any::<u64>(), 0..40),
        bytes in 0..20_usize,
    ) {
        let pairs: HashMap<u64, Vec<u8>> =
            pairs.into_iter().map(|(key, byte)| (key, vec![byte; bytes])).collect();
        let list: Vec<(u64, Vec<u8>)> = pairs.clone().into_iter().collect();
        let rows = build(&list, bytes);
        holds(&rows, &pairs, &absent);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        rows.save(&path).unwrap();
        holds(&KeyedRows::load(&path, Pages::Small).unwrap(), &pairs, &absent);
        let mapped = common::mapped::keyed(&path).unwrap();
        mapped.verify().unwrap();
        holds(&mapped, &pairs, &absent);
    }
}

#[test]
fn tables_of_all_small_sizes_are_built() {
    for keys in 0..400_u64 {
        let pairs: Vec<(u64, Vec<u8>)> = (0..keys)
            .map(|key| (key, key.to_le_bytes().to_vec()))
            .collect();
        let rows = build(&pairs, 8);
        holds(&rows, &pairs.into_iter().collect(), &[keys, u64::MAX]);
    }
}

/// Several parts; keys that differ in few bits, at the low and at the high end.
#[test]
fn many_keys_take_50_bytes_each_with_values_of_40() {
    for shift in [0, 44] {
        let keys: Vec<u64> = (0..200_000).map(|key| key << shift).collect();
        let rows = KeyedRows::build(&keys, 40, |_| &[][..]);
        assert!(matches!(
            rows,
            Err(BuildError::ValueLength {
                bytes: 0,
                wanted: 40,
                ..
            })
        ));
        let values: Vec<[u8; 40]> = keys.iter().map(|key| [(key >> shift) as u8; 40]).collect();
        let rows = KeyedRows::build(&keys, 40, |at| &values[at]).unwrap();
        for (key, value) in keys.iter().zip(&values) {
            assert_eq!(rows.get(*key), Some(&value[..]));
            assert_eq!(rows.get(!*key), None);
        }
        let each = rows.size_bytes() as f64 / keys.len() as f64;
        assert!(each < 50.0, "{each}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let build = |keys: &[u64], values: &[&'static [u8]]| {
        KeyedRows::build(keys, 2, |at| values[at]).map(|_| ())
    };
    let error = build(&[5, 77, 6, 77], &[&b"ab"[..]; 4]).unwrap_err();
    assert_eq!(
        error,
        BuildError::KeyTwice {
            key: 77,
            first: 1,
            second: 3
        }
    );
    assert!(error.to_string().contains("key 77"), "{error}");
    let error = build(&[5, 77], &[&b"ab"[..], b"abc"]).unwrap_err();
    assert_eq!(
        error,
        BuildError::ValueLength {
            key: 77,
            bytes: 3,
            wanted: 2
        }
    );
    assert!(error.to_string().contains("key 77"), "{error}");
    let error = KeyedRows::build(&[], usize::MAX, |_| unreachable!()).unwrap_err();
    assert!(matches!(
        error,
        BuildError::Setting {
            setting: "value_bytes",
            ..
        }
    ));
}

#[test]
fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let pairs: Vec<(u64, Vec<u8>)> = (0..50).map(|key| (key, vec![1, 2, 3])).collect();
    build(&pairs, 3).save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for at in (0..whole.len()).filter(|at| whole.len() - at < 900 || at % 61 == 0) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, damaged).unwrap();
        assert!(KeyedRows::load(&path, Pages::Small).is_err(), "byte {at}");
    }
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(common::mapped::keyed(&path).is_err());
    FlatTable::build([1.0], 1, Metric::L2)
        .unwrap()
        .save(&path)
        .unwrap();
    let told = KeyedRows::load(&path, Pages::Small)
        .unwrap_err()
        .to_string();
    assert!(told.contains("flat") && told.contains("keyed"), "{told}");
}

fn look(rows: &LiveKeyedRows, key: u64) -> Option<u8> {
    let (mut value, mut found) = ([0], [false]);
    rows.get_many(&[key], &mut value, &mut found);
    found[0].then_some(value[0])
}

#[test]
fn writes_are_read_at_once_and_kept_by_the_next_version() {
    let rows = LiveKeyedRows::new(build(&[(1, vec![10]), (2, vec![20])], 1), 3);
    let before = rows.version();
    rows.insert(2, &[21]).unwrap();
    rows.insert(3, &[30]).unwrap();
    rows.remove(1).unwrap();
    assert_eq!(rows.insert(4, &[40]), Err(UpdateError::Full { limit: 3 }));
    rows.insert(3, &[31]).unwrap();
    let error = rows.insert(3, &[1, 2]).unwrap_err();
    assert_eq!(
        error,
        UpdateError::ValueLength {
            key: 3,
            bytes: 2,
            wanted: 1
        }
    );
    for rebuilt in [false, true] {
        assert_eq!(
            [1, 2, 3, 4].map(|key| look(&rows, key)),
            [None, Some(21), Some(31), None]
        );
        assert_eq!(rows.written(), if rebuilt { 0 } else { 3 });
        rows.rebuild().unwrap();
    }
    // All or nothing: of these one is of the wrong length, of those one is too many.
    let wrong = [(7, Some(&[70][..])), (8, Some(&[1, 2][..]))];
    assert!(rows.write_many(wrong).is_err());
    let many = [7, 8, 9, 10].map(|key| (key, Some(&[1][..])));
    assert_eq!(rows.write_many(many), Err(UpdateError::Full { limit: 3 }));
    assert_eq!((look(&rows, 7), rows.written()), (None, 0));
    let twice = [(7, Some(&[70][..])), (2, None), (7, Some(&[71][..]))];
    rows.write_many(twice).unwrap();
    assert_eq!([7, 2].map(|key| look(&rows, key)), [Some(71), None]);
    rows.write_many([(7, None), (2, Some(&[21][..]))]).unwrap();
    rows.rebuild().unwrap();
    assert_eq!((rows.version().len(), before.len()), (2, 2));
    assert_eq!(
        before.get(1),
        Some(&[10][..]),
        "who holds a version keeps it"
    );
    assert!(rows.replace(build(&[(9, vec![1, 2])], 2)).is_err());
    rows.insert(5, &[5]).unwrap();
    let old = rows.replace(build(&[(9, vec![90])], 1)).unwrap();
    assert_eq!(old.len(), 2);
    assert_eq!(
        [2, 5, 9].map(|key| look(&rows, key)),
        [None, None, Some(90)]
    );
}

/// A counter for each key only grows, whoever rebuilds meanwhile: no write is lost and none comes back.
#[test]
fn no_write_is_lost_while_versions_change() {
    const KEYS: u64 = 50;
    let pairs: Vec<(u64, Vec<u8>)> = (0..KEYS).map(|key| (key, vec![0; 8])).collect();
    let rows = Arc::new(LiveKeyedRows::new(build(&pairs, 8), 1000));
    let last = 400_u64;
    thread::scope(|scope| {
        scope.spawn(|| {
            for write in 1..=last {
                for key in (write % 7..KEYS).step_by(7) {
                    rows.insert(key, &write.to_le_bytes()).unwrap();
                }
            }
        });
        scope.spawn(|| {
            for _ in 0..20 {
                rows.rebuild().unwrap();
            }
        });
        scope.spawn(|| {
            let keys: Vec<u64> = (0..KEYS).collect();
            let (mut values, mut found) = (vec![0; 8 * 50], vec![false; 50]);
            let mut before = vec![0; 50];
            for _ in 0..500 {
                assert_eq!(rows.get_many(&keys, &mut values, &mut found), 50);
                for (before, value) in before.iter_mut().zip(values.as_chunks::<8>().0) {
                    let now = u64::from_le_bytes(*value);
                    assert!(now >= *before, "{now} after {before}");
                    *before = now;
                }
            }
        });
    });
    rows.rebuild().unwrap();
    for key in 0..KEYS {
        let written = (1..=last).rev().find(|write| write % 7 == key % 7).unwrap();
        assert_eq!(
            rows.version().get(key),
            Some(&written.to_le_bytes()[..]),
            "{key}"
        );
    }
}

#[test]
fn a_refined_table_takes_its_rows_from_keys() {
    const DIM: usize = 24;
    let mut random = SmallRng::seed_from_u64(7);
    let mut some = |count: usize| -> Vec<f32> { (0..count).map(|_| random.random()).collect() };
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let rows = some(500 * DIM);
        let exact = FlatTable::build(&rows, DIM, metric).unwrap();
        let keys: Vec<u64> = (0..500).collect();
        let keyed = KeyedRows::build(&keys, 4 * DIM, |at| {
            bytemuck::cast_slice(&rows[at * DIM..][..DIM])
        });
        let keyed = KeyedVectors::new(Arc::new(keyed.unwrap()), metric).unwrap();
        let config = HnswConfig::new(metric)
            .rows(RowFormat::Sq4)
            .inside_refined();
        let coarse = HnswTable::build(&rows, DIM, &config).unwrap();
        let refined = Refined::new(coarse, keyed).unwrap();
        let query = Query::new(some(DIM)).top(5).ef(300);
        let found = refined.search(&query, &mut Context::default()).unwrap();
        let expected = exact.search(&query, &mut Context::default()).unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.id, expected.id, "{metric:?}");
            assert!((found.distance - expected.distance).abs() < 1e-5);
        }
    }
    let odd = Arc::new(KeyedRows::build(&[1], 5, |_| b"12345").unwrap());
    assert!(KeyedVectors::new(odd, Metric::L2).is_err());
    let one = Arc::new(KeyedRows::build(&[1], 4, |_| &[0, 0, 0xc0, 0x7f]).unwrap());
    let one = KeyedVectors::new(one, Metric::L2).unwrap();
    for (key, told) in [(2, "candidate 2 is no key"), (1, "key 1")] {
        let error = one.distances(&[1.0], &[key], &mut [0.0], &mut Context::default());
        assert!(error.unwrap_err().to_string().contains(told));
    }
}
