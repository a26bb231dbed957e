//! Files of hnswlib as tables: they answer as hnswlib does, and damaged ones are refused.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::inputs::refused_or_sound;
use crate::common::{assert_well_formed, unsplit};
use chiplet_index::{BuildError, HnswConfig, HnswTable, Metric};
use chiplet_table::{Query, Table};
use proptest::prelude::*;
use serde_json::Value;

fn config(metric: Metric) -> HnswConfig {
    HnswConfig::new(metric)
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/hnswlib")
        .join(name)
}

fn hnswlib(name: &str, metric: Metric) -> Result<HnswTable, BuildError> {
    HnswTable::from_hnswlib(data(name), 4, &config(metric))
}

fn numbers(value: &Value) -> Vec<f64> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn files_of_hnswlib_answer_as_hnswlib_does() {
    let expected = fs::read_to_string(data("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let k = expected["k"].as_u64().unwrap() as usize;
    for (space, metric, added) in [
        ("l2", Metric::L2, 0.0),
        // hnswlib reports 1 - product.
        ("ip", Metric::InnerProduct, 1.0),
        ("cosine", Metric::Cosine, 0.0),
    ] {
        let table = hnswlib(&format!("{space}.bin"), metric).unwrap();
        assert_eq!((table.len(), table.dim()), (60, 4));
        let answers = expected["files"][space].as_array().unwrap();
        assert_eq!(answers.len(), 36);
        for answer in answers {
            let vector = numbers(&expected["queries"][answer["query"].as_u64().unwrap() as usize]);
            let vector: Vec<f32> = vector.iter().map(|&x| x as f32).collect();
            let ef = answer["ef"].as_u64().unwrap() as usize;
            let hits = unsplit(&table, &Query::new(vector).top(k).ef(ef));
            assert_well_formed(&hits, k);
            let ids = answer["ids"].as_array().unwrap().iter();
            let ids: Vec<u64> = ids.map(|id| id.as_u64().unwrap()).collect();
            let found: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
            assert_eq!(found, ids, "{space} {answer}");
            for (hit, distance) in hits.iter().zip(numbers(&answer["distances"])) {
                let apart = f64::from(hit.distance) + added - distance;
                assert!(apart.abs() < 1e-5, "{space} {hit:?} {answer}");
            }
        }
    }
}

#[test]
fn an_index_that_hnswlib_saved_empty_is_an_empty_table() {
    let table = hnswlib("empty.bin", Metric::L2).unwrap();
    assert_eq!((table.len(), table.dim()), (0, 4));
}

#[test]
fn files_of_hnswlib_that_do_not_fit_are_refused() {
    let deleted = hnswlib("deleted.bin", Metric::L2).err().unwrap();
    assert!(matches!(deleted, BuildError::File { .. }));
    let deleted = deleted.to_string();
    assert!(deleted.contains("1 of 8 elements"), "{deleted}");
    assert!(matches!(
        hnswlib("l2.bin", Metric::Cosine).err(),
        Some(BuildError::NotNormalized { row: 0, .. })
    ));
    let refused =
        |path: PathBuf, dim| match HnswTable::from_hnswlib(&path, dim, &config(Metric::L2)).err() {
            Some(BuildError::File {
                path: named,
                reason,
            }) => {
                assert_eq!(named, path);
                reason
            }
            other => panic!("{other:?}"),
        };
    let reason = refused(data("l2.bin"), 5);
    assert!(
        reason.contains("16 bytes") && reason.contains("5 components"),
        "{reason}"
    );
    refused(data("expected.json"), 4);
    refused(data("no such file"), 4);
    assert!(refused(data(""), 4).contains("regular file"));
}

fn opened(name: &str, bytes: &[u8]) -> Result<HnswTable, BuildError> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).unwrap();
    HnswTable::from_hnswlib(&path, 4, &config(Metric::L2))
}

#[test]
fn a_file_of_hnswlib_cut_or_prolonged_anywhere_is_refused() {
    let whole = fs::read(data("l2.bin")).unwrap();
    for length in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        assert!(opened("cut.bin", &whole[..length]).is_err(), "{length}");
    }
    assert!(opened("cut.bin", &[&whole[..], &[0]].concat()).is_err());
    assert!(opened("cut.bin", &whole).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_damaged_file_of_hnswlib_is_refused_or_can_be_searched(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = fs::read(data("l2.bin")).unwrap();
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        refused_or_sound(opened("damaged.bin", &bytes));
    }

    #[test]
    fn a_damaged_header_of_hnswlib_is_refused_or_can_be_searched(place in 0usize..96, value: u8) {
        let mut bytes = fs::read(data("l2.bin")).unwrap();
        bytes[place] = value;
        refused_or_sound(opened("header.bin", &bytes));
    }
}
