//! Building an IVF table, or taking over an index of Faiss: what is reported, and what is refused.

use std::ops::ControlFlow;

use crate::common::{assert_progress, clustered, recall};
use chiplet_index::{
    BuildError, BuildOptions, FlatTable, IvfConfig, IvfTable, MAX_NORM, Metric, Stage,
};
use chiplet_table::{Context, Query, Table};
use faiss::index::index_factory;
use faiss::{Index, MetricType};

const DIM: usize = 16;

#[test]
fn progress_tells_training_from_adding() {
    let rows = clustered(9000, DIM, 4);
    let mut reports = Vec::new();
    let config = IvfConfig::new(Metric::L2);
    let options = BuildOptions::new().report(|progress| {
        reports.push(progress);
        ControlFlow::Continue(())
    });
    IvfTable::build_with(&rows, DIM, "IVF4,Flat", &config, options).unwrap();
    let stages = [
        Stage::Checking,
        Stage::Training,
        Stage::Adding,
        Stage::Finishing,
    ];
    assert_progress(&reports, &stages, 9000);
}

#[test]
fn refuses_what_cannot_be_built_and_says_why() {
    let rows = clustered(300, DIM, 4);
    let build = |factory: &str| {
        IvfTable::build(&rows, DIM, factory, &IvfConfig::new(Metric::L2))
            .err()
            .unwrap()
    };
    for (factory, reason) in [
        ("HNSW32", "begin with IVF"),
        ("IVF0,Flat", "no lists"),
        ("IVF4,Nonsense", "Nonsense"),
        ("IVF4,PQ5", "multiple"),
        ("ITQ8,IVF4,PQ4", "transforms"),
        ("IVF4,Flat,Refine(PQ4)", "Refine(SQ8)"),
        ("IVF4,Flat,RFlat,RFlat", "one RFlat"),
        ("IVF4\0,Flat", "description"),
    ] {
        let refused = build(factory);
        assert!(
            matches!(&refused, BuildError::Factory { reason: r, .. } if r.contains(reason)),
            "{factory:?}: {refused:?}"
        );
    }
    assert_eq!(
        build("IVF301,Flat"),
        BuildError::TooFewRows {
            rows: 300,
            lists: 301
        }
    );
    assert_eq!(
        build("IVF1000000M,Flat"),
        BuildError::TooFewRows {
            rows: 300,
            lists: 1_000_000 << 20
        }
    );
    // PQ with 8 bits trains 256 centroids of its own.
    let few = IvfTable::build(
        &rows[..100 * DIM],
        DIM,
        "IVF4,PQ4",
        &IvfConfig::new(Metric::L2),
    );
    assert!(matches!(few.err(), Some(BuildError::Faiss(_))));
    for (factory, kind) in [("IVF4,PQ4+4", "IwQR"), ("IVF4,RQ2x4fs_Nrq2x4", "IVRf")] {
        let refused = build(factory);
        assert!(
            matches!(&refused, BuildError::UnsupportedIndex { kind: k, .. } if k == kind),
            "{factory}: {refused:?}"
        );
    }
    for (factory, kind) in [
        ("IVF4,RQ2x4,RFlat", "IwRQ"),
        ("IVF4,SQ6,Refine(SQ8)", "IwSq"),
        ("PCA8,IVF4,SQ6", "IwSq"),
        ("IVF4(IVF2,Flat),SQ6", "IwSq"),
    ] {
        let refused = build(factory);
        assert!(
            matches!(&refused, BuildError::UnsupportedIndex { kind: k, reason } if k == kind && reason.contains("or drop these")),
            "{factory}: {refused:?}"
        );
    }
    let by_faiss = IvfConfig::new(Metric::L2).faiss_scans(true);
    let refused = IvfTable::build(&rows, DIM, "IVF4,Flat,RFlat", &by_faiss).err();
    assert!(
        matches!(&refused, Some(BuildError::Setting { setting, .. }) if *setting == "faiss_scans"),
        "{refused:?}"
    );
    let long: Vec<f32> = rows.iter().map(|x| x * 1e5).collect();
    let config = IvfConfig::new(Metric::L2);
    let refused = IvfTable::build(&long, DIM, "IVF4,Flat,Refine(SQfp16)", &config).err();
    assert!(
        matches!(refused, Some(BuildError::OutOfRange { .. })),
        "{refused:?}"
    );
    for config in [
        IvfConfig::new(Metric::L2).nprobe(0),
        IvfConfig::new(Metric::L2).grain(0),
    ] {
        let refused = IvfTable::build(&rows, DIM, "IVF4,Flat", &config).err();
        assert!(
            matches!(&refused, Some(BuildError::Setting { value, .. }) if value == "0"),
            "{refused:?}"
        );
    }
}

#[test]
fn refuses_to_adopt_indexes_that_are_not_plain_ivf() {
    let rows = clustered(300, DIM, 4);
    let adopt = |factory: &str, metric: MetricType, config: &IvfConfig| {
        let mut index = index_factory(DIM as u32, factory, metric).unwrap();
        index.train(&rows).unwrap();
        IvfTable::with_config(index, config).err().unwrap()
    };
    let l2 = IvfConfig::new(Metric::L2);
    for (factory, letters) in [
        ("Flat", "IxF2"),
        ("HNSW8", "IHNf"),
        ("PCA8,IVF4,Flat", "IxPT"),
        ("IDMap,IVF4,Flat", "IxMp"),
        ("IVF4,Flat,RFlat", "IxRF"),
        ("IVF4,ITQ16,SH", "IwSh"),
    ] {
        let refused = adopt(factory, MetricType::L2, &l2);
        assert!(
            matches!(&refused, BuildError::UnsupportedIndex { kind, .. } if kind == letters),
            "{factory}: {refused:?}"
        );
    }
    let refused = adopt("IVF4,Flat", MetricType::InnerProduct, &l2);
    assert!(
        matches!(refused, BuildError::UnsupportedIndex { .. }),
        "{refused:?}"
    );
}

/// Under the inner product centroids have length 1, and under L2 squares have few digits: neither may lose small rows
/// in silence.
#[test]
fn small_rows_are_found_or_refused() {
    let ordinary = clustered(2000, 16, 5);
    for (factory, least) in [
        ("IVF16,SQ8", 0.9),
        ("IVF16,SQ4", 0.5),
        ("IVF16,SQfp16", 0.9),
        ("IVF16,PQ8x4", 0.1),
    ] {
        for metric in [Metric::L2, Metric::InnerProduct] {
            let found = |scale: f32| {
                let rows: Vec<f32> = ordinary.iter().map(|x| x * scale).collect();
                let exact = FlatTable::build(rows.clone(), 16, metric).unwrap();
                let config = IvfConfig::new(metric).nprobe(16);
                let table = IvfTable::build(&rows, 16, factory, &config)?;
                let queries = rows.chunks_exact(16).step_by(61);
                let queries: Vec<Query> = queries.map(|row| Query::new(row).top(10)).collect();
                Ok::<f64, BuildError>(recall(&exact, &table, &queries))
            };
            let usual = found(1.0).unwrap();
            // Rows that are coded as they are have no centroid taken off, which costs a product's few centroids more.
            let less = if factory.contains("PQ") { 0.2 } else { 0.05 };
            assert!(usual > least, "{factory} {metric:?}: {usual}");
            for scale in [1e-2, 1e-9, 1e-23] {
                match found(scale) {
                    Ok(found) => assert!(
                        found > usual - less,
                        "{factory} {metric:?} {scale:e}: {found} of {usual}"
                    ),
                    Err(error) => {
                        let told = error.to_string();
                        assert!(told.contains("scale rows up"), "{told}");
                        let small = scale < 1e-20 || factory.ends_with("fp16") && scale < 1e-6;
                        assert!(small, "{factory} {metric:?} {scale:e}: {told}");
                    }
                }
            }
        }
    }
}

/// What Faiss throws in a thread of OpenMP's ends the process, so no row that could make it may get there.
#[test]
fn no_row_ends_the_process() {
    let factories = [
        "IVF8,Flat",
        "IVF8,SQ8",
        "IVF8,SQ4",
        "IVF8,SQfp16",
        "IVF8,PQ4x4",
        "IVF8,PQ4x4fs",
        "IVF8_HNSW4,Flat",
        "IVF8(IVF2,Flat),Flat",
        "PCA4,IVF8,Flat",
        "IVF8,RaBitQ",
    ];
    let usual: Vec<f32> = (0..300 * 8_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7)
        .collect();
    let sizes = [1e-30, 3.9e18, 4.1e18, f32::NAN];
    let cases = || {
        sizes
            .into_iter()
            .flat_map(|size| [8, 300].map(|count| (size, count)))
    };
    for factory in factories {
        for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
            for (size, count) in cases() {
                let mut rows = usual[..count * 8].to_vec();
                let odd = count / 2 * 8..count / 2 * 8 + 8;
                rows[odd.clone()].fill(0.0);
                rows[odd.start + 3] = size;
                let built = IvfTable::build(&rows, 8, factory, &IvfConfig::new(metric));
                let long = metric != Metric::Cosine && f64::from(size) > MAX_NORM;
                match built {
                    Ok(table) => {
                        assert!(!long && size.is_finite(), "{factory} {metric:?} {size:e}");
                        for row in rows.chunks_exact(8).take(10) {
                            let query = Query::new(row).top(400).nprobe(1_000);
                            let found = table.search(&query, &mut Context::default()).unwrap();
                            assert!(found.iter().all(|hit| !hit.distance.is_nan()));
                        }
                    }
                    Err(BuildError::RowTooLong { row, .. }) => assert!(long && row == count / 2),
                    Err(BuildError::NotFinite { row, component, .. }) => {
                        assert!(!size.is_finite() && (row, component) == (count / 2, 3));
                    }
                    // Faiss' own words about few rows, or numbers that it does not get on with.
                    Err(_) => assert!(!long && size.is_finite()),
                }
            }
        }
    }
}
