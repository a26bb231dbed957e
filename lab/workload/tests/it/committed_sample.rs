//! The GloVe sample that the repository carries: whole, and its neighbours exact.

use std::path::Path;

use chiplet_workload::dataset::{GloveSample, VectorSet};
use chiplet_workload::truth::{Metric, Truth};

fn datasets() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets")
}

#[test]
fn it_holds_30_000_labelled_words_of_50_dimensions() {
    let words = VectorSet::glove_sample(datasets()).unwrap();
    assert_eq!((words.len(), words.dim()), (30_000, 50));
    assert_eq!(words.label(0), Some("the"));
    // The first values of "the" in glove.6B.50d.txt, as GloVe's authors published them.
    assert_eq!(words.row(0)[..3], [0.418, 0.24968, -0.41242]);
}

#[test]
fn its_neighbours_are_those_that_an_exact_search_finds() {
    let sample = GloveSample::read(datasets().join(GloveSample::FOLDER)).unwrap();
    assert_eq!(sample.queries.len(), 1_000);
    // All 1,000 take long without optimisation; every 50th spans the sample as well.
    let some: Vec<_> = (0..sample.queries.len()).step_by(50).collect();
    let rows: Vec<_> = some.iter().map(|&query| sample.queries[query]).collect();
    let queries = sample.vectors.select(&rows);
    for (metric, committed) in [(Metric::Cosine, &sample.cosine), (Metric::L2, &sample.l2)] {
        let truth = Truth::exact(&sample.vectors, &queries, committed.width(), metric).unwrap();
        for (found, &query) in some.iter().enumerate() {
            assert_eq!(committed.row(query)[0] as usize, sample.queries[query]);
            assert_eq!(
                truth.ids(found).collect::<Vec<_>>(),
                committed.row(query),
                "{metric:?} {query}"
            );
        }
    }
}
