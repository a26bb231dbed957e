//! Sets of vectors in memory: the invariants that everything built from a set relies on.

use chiplet_workload::dataset::{ShapeError, VectorSet};
use proptest::prelude::*;

#[test]
fn only_whole_finite_rows_make_a_set() {
    let new = |values: &[f32], dim| VectorSet::new(values.to_vec(), dim).unwrap_err();
    assert_eq!(new(&[1.0], 0), ShapeError::ZeroDim);
    assert_eq!(
        new(&[1.0, 2.0, 3.0], 2),
        ShapeError::Ragged { values: 3, dim: 2 }
    );
    let infinite = new(&[1.0, 2.0, 3.0, f32::INFINITY], 2);
    assert_eq!(
        infinite,
        ShapeError::NotFinite {
            row: 1,
            column: 1,
            value: f32::INFINITY
        }
    );
    assert!(matches!(
        new(&[f32::NAN], 1),
        ShapeError::NotFinite {
            row: 0,
            column: 0,
            ..
        }
    ));
    assert!(VectorSet::new(Vec::new(), 3).unwrap().is_empty());
}

#[test]
fn labels_come_one_a_row_and_follow_their_rows() {
    let set = VectorSet::new(vec![1.0, 2.0, 3.0], 1).unwrap();
    let error = set.clone().with_labels(vec!["one".into()]).unwrap_err();
    assert_eq!(error, ShapeError::LabelCount { labels: 1, rows: 3 });
    let set = set
        .with_labels(["one", "two", "three"].map(String::from).into())
        .unwrap();
    let some = set.select(&[2, 0, 2]);
    assert_eq!(some.as_slice(), [3.0, 1.0, 3.0]);
    assert_eq!(some.labels().unwrap(), ["three", "one", "three"]);
    assert_eq!((some.find("three"), some.find("two")), (Some(0), None));
    assert_eq!((some.label(1), some.label(3)), (Some("one"), None));
}

#[test]
fn normalized_vectors_have_length_one_and_zeros_stay() {
    let set = VectorSet::new(vec![3.0, 4.0, 0.0, 0.0], 2)
        .unwrap()
        .normalized();
    assert_eq!(set.as_slice(), [0.6, 0.8, 0.0, 0.0]);
}

proptest! {
    #[test]
    fn interleaved_parts_share_all_rows_out(rows in 0_usize..50, parts in 1_usize..12) {
        let set = VectorSet::new((0..rows).map(|row| row as f32).collect(), 1).unwrap();
        let mut seen = vec![0; rows];
        for part in 0..parts {
            let table = set.interleaved(part, parts);
            prop_assert!(table.len().abs_diff(rows / parts) <= 1);
            for (i, row) in table.rows().enumerate() {
                prop_assert_eq!(row[0] as usize, part + i * parts);
                seen[row[0] as usize] += 1;
            }
        }
        prop_assert!(seen.into_iter().all(|times| times == 1));
    }
}
