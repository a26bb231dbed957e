//! Inverted lists of rows that are mapped first (`OPQ..`, `PCA..`, `RR..`), and lists that are found through groups.

use std::collections::HashSet;

use crate::common::{WORD_DIM, recall, unsplit, words};
use chiplet_index::{BuildError, FlatTable, IvfConfig, IvfTable, Metric};
use chiplet_table::{Context, Neighbor, Query, SplitTable, Table};

const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

fn build(rows: &[f32], factory: &str, metric: Metric) -> IvfTable {
    IvfTable::build(rows, WORD_DIM, factory, &IvfConfig::new(metric)).unwrap()
}

fn queries(count: usize) -> Vec<Query> {
    let asked = words(7, 28_000 / count);
    asked.chunks_exact(WORD_DIM).map(Query::new).collect()
}

#[test]
fn a_rotation_changes_no_distance() {
    let rows = words(0, 12);
    for metric in METRICS {
        let exact = FlatTable::build(&*rows, WORD_DIM, metric).unwrap();
        for factory in ["RR50,IVF16,Flat", "PCA50,IVF16,Flat", "RR60,IVF16,Flat"] {
            let table = build(&rows, factory, metric);
            assert_eq!(table.dim(), WORD_DIM);
            for query in queries(30) {
                let found = unsplit(&table, &query.clone().nprobe(16));
                let expected = unsplit(&exact, &query);
                let far = |found: &Neighbor, expected: &Neighbor| {
                    let scale = expected.distance.abs().max(1.0);
                    (found.distance - expected.distance).abs() > 1e-4 * scale
                };
                assert_eq!(found.len(), expected.len());
                let mut pairs = found.iter().zip(&expected);
                assert!(
                    !pairs.any(|(found, expected)| far(found, expected)),
                    "{factory} {metric:?}"
                );
            }
        }
    }
}

/// Inner products of rows that are all moved the same way rank them otherwise.
#[test]
fn fewer_components_keep_most_of_what_tells_rows_apart() {
    let rows: Vec<f32> = words(0, 12).iter().map(|x| x + 0.3).collect();
    let asked: Vec<f32> = words(7, 300).iter().map(|x| x + 0.3).collect();
    let queries: Vec<Query> = asked
        .chunks_exact(WORD_DIM)
        .map(|v| Query::new(v).nprobe(16))
        .collect();
    for (metric, least) in METRICS.into_iter().zip([0.99, 0.97, 0.99]) {
        let exact = FlatTable::build(&*rows, WORD_DIM, metric).unwrap();
        let found = |factory: &str| recall(&exact, &build(&rows, factory, metric), &queries);
        let few = found("PCA40,IVF16,Flat,RFlat");
        println!("{metric:?}: {few:.3}");
        assert!(few >= least, "{metric:?}: {few}");
    }
}

#[test]
fn a_learned_rotation_makes_codes_better() {
    // Two of 16 components hold nearly all that tells rows apart, and share a part of the codes.
    let rows: Vec<f32> = words(0, 24)
        .chunks_exact(WORD_DIM)
        .flat_map(|row| {
            (0..8)
                .map(|i| if i < 2 { row[i] } else { 0.02 * row[i] })
                .collect::<Vec<f32>>()
        })
        .collect();
    let queries: Vec<Query> = rows
        .chunks_exact(8)
        .step_by(20)
        .map(|v| Query::new(v).nprobe(4))
        .collect();
    let exact = FlatTable::build(&*rows, 8, Metric::L2).unwrap();
    let found = |factory: &str| {
        let table = IvfTable::build(&rows, 8, factory, &IvfConfig::new(Metric::L2)).unwrap();
        recall(&exact, &table, &queries)
    };
    let (plain, learned) = (found("IVF4,PQ4x4fs"), found("OPQ4,IVF4,PQ4x4fs"));
    println!("{plain:.3} {learned:.3}");
    assert!(learned > 1.2 * plain, "{plain} {learned}");
}

#[test]
fn all_lists_are_found_through_all_groups() {
    let rows = words(0, 6);
    for metric in METRICS {
        let (plain, grouped) = (
            build(&rows, "IVF64,SQ8", metric),
            build(&rows, "IVF64(IVF8,Flat),SQ8", metric),
        );
        assert_eq!((grouped.lists(), grouped.len()), (64, plain.len()));
        for query in queries(40) {
            let query = query.nprobe(64);
            assert_eq!(
                unsplit(&grouped, &query),
                unsplit(&plain, &query),
                "{metric:?}"
            );
        }
    }
}

#[test]
fn the_nearest_groups_have_the_nearest_lists() {
    let rows = words(0, 2);
    for metric in METRICS {
        let (plain, grouped) = (
            build(&rows, "IVF256,Flat", metric),
            build(&rows, "IVF256(IVF16,Flat),Flat", metric),
        );
        let (mut found, mut wanted, mut read, mut all) = (0, 0, 0, 0);
        for query in queries(100) {
            let lists = |table: &IvfTable| {
                let mut context = Context::default();
                let probes = table
                    .coarse(&query.clone().nprobe(8), &mut context)
                    .unwrap();
                let near: HashSet<u32> = probes
                    .iter()
                    .map(|probe| probe.distance.to_bits())
                    .collect();
                (near, context.bytes())
            };
            let ((near, bytes), (nearest, all_bytes)) = (lists(&grouped), lists(&plain));
            found += nearest.intersection(&near).count();
            wanted += nearest.len();
            read += bytes;
            all += all_bytes;
        }
        let share = found as f64 / wanted as f64;
        println!(
            "{metric:?}: {share:.3} of the lists, {:.2} of the bytes",
            read as f64 / all as f64
        );
        assert!(share > 0.9, "{metric:?}: {share}");
        assert!(10 * read < 6 * all, "{metric:?}: {read} of {all}");
    }
}

#[test]
fn what_cannot_be_mapped_is_refused() {
    let rows = words(0, 100);
    for (factory, reason) in [
        ("PCA60,IVF4,Flat", ""),
        ("OPQ7,IVF4,Flat", ""),
        ("L2norm,IVF4,Flat", "Metric::Cosine"),
        ("Pad64,IVF4,Flat", "yourself"),
    ] {
        let refused = IvfTable::build(&rows, WORD_DIM, factory, &IvfConfig::new(Metric::L2))
            .err()
            .unwrap();
        assert!(
            matches!(refused, BuildError::Factory { .. } | BuildError::Faiss(_)),
            "{factory}: {refused:?}"
        );
        assert!(refused.to_string().contains(reason), "{factory}: {refused}");
    }
    // A component without any spread has no scale that whitens it.
    let mut flat = words(0, 100);
    flat.chunks_exact_mut(WORD_DIM).for_each(|row| row[3] = 1.0);
    if let Ok(table) = IvfTable::build(
        &flat,
        WORD_DIM,
        "PCAW50,IVF4,Flat",
        &IvfConfig::new(Metric::L2),
    ) {
        assert_eq!(unsplit(&table, &Query::new(&flat[..WORD_DIM])).len(), 10);
    }
}
