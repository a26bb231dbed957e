//! Queries over coarse rows that are cut by the executor, and compared with exact rows where their parts are merged.

use crate::common::words::{WORD_DIM, words};
use crate::common::{HANG, builder};
use chiplet::index::{ExactRows, FlatTable, Metric, Refined};
use chiplet::shutdown::Shutdown;
use chiplet::{Context, Error, Query, SearchError, SplitConfig, Table};

/// Rows that have lost most of what they had, as codes of few bits have.
fn rounded(rows: &[f32]) -> FlatTable {
    let rows: Vec<f32> = rows.iter().map(|x| (x / 0.6).round() * 0.6).collect();
    FlatTable::build(rows, WORD_DIM, Metric::Cosine).unwrap()
}

#[test]
fn queries_that_are_cut_answer_as_whole_ones_with_exact_distances() {
    let (rows, queries) = (words(0, 3), words(7, 100));
    let exact = FlatTable::build(&*rows, WORD_DIM, Metric::Cosine).unwrap();
    let kept = FlatTable::build(&*rows, WORD_DIM, Metric::Cosine).unwrap();
    let table = Refined::new(rounded(&rows), kept).unwrap();
    let ask = |vector: &[f32]| Query::new(vector).top(10);
    let direct = |table: &dyn Table, vector: &[f32]| {
        let found = table.search(&ask(vector), &mut Context::default());
        found.unwrap()
    };
    let expected: Vec<_> = queries
        .chunks(WORD_DIM)
        .map(|query| direct(&table, query))
        .collect();

    let split = SplitConfig::new().min_unit_bytes(Some(1 << 10));
    let executor = builder(2, 3).split(split).build().unwrap();
    let id = executor.add_table("words", table);
    let (mut cut, mut same, mut wanted) = (0, 0, 0);
    for _ in 0..3 {
        let tickets: Vec<_> = queries
            .chunks(WORD_DIM)
            .map(|query| executor.search(id, ask(query)).with_report())
            .collect();
        for ((ticket, query), expected) in tickets
            .into_iter()
            .zip(queries.chunks(WORD_DIM))
            .zip(&expected)
        {
            let (hits, report) = ticket.wait().unwrap();
            assert_eq!(&hits, expected);
            cut += usize::from(report.units > 1);
            let truth = direct(&exact, query);
            wanted += truth.len();
            // The same rows at the same distances, to the bit.
            same += hits.iter().filter(|hit| truth.contains(hit)).count();
        }
    }
    assert!(cut > 0, "no query was cut");
    let recall = same as f64 / wanted as f64;
    assert!(recall >= 0.97, "{recall}");
    executor.shutdown(Shutdown::Drain(HANG));
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.done), (900, 900), "{total:?}");
}

#[test]
fn a_row_that_is_gone_fails_its_query_alone() {
    let rows = words(0, 3);
    let most = rows.len() - WORD_DIM;
    let short = FlatTable::build(&rows[..most], WORD_DIM, Metric::Cosine).unwrap();
    let missing = rows.len() / WORD_DIM - 1;
    assert_eq!(ExactRows::size_bytes(&short), 4 * most as u64);
    let table = Refined::new(rounded(&rows), short).unwrap();
    let executor = builder(1, 3).build().unwrap();
    let id = executor.add_table("words", table);
    let told = executor.search(id, Query::new(&rows[most..])).wait();
    assert!(
        matches!(&told, Err(Error::Search(SearchError::Backend(why))) if why.contains(&format!("candidate {missing} "))),
        "{told:?}"
    );
    let others = executor.search(id, Query::new(&rows[..WORD_DIM])).wait();
    assert_eq!(others.unwrap().len(), 10);
    let total = executor.snapshot().total;
    assert_eq!((total.accepted, total.ended()), (2, 2), "{total:?}");
}
