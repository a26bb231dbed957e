//! What one query may ask for is bounded, and what is over a bound comes back unqueued.

use crate::common::builder;
use crate::common::lists::Lists;
use chiplet::{BuildError, Error, Query, QueryLimits, QueryParameter, SubmitError};

const LIMITS: QueryLimits = QueryLimits::new()
    .max_k(Some(20))
    .max_ef(Some(50))
    .max_nprobe(Some(8))
    .max_batch(Some(3));

fn over(parameter: QueryParameter, asked: usize, limit: usize) -> SubmitError {
    SubmitError::OverLimit {
        parameter,
        asked,
        limit,
    }
}

#[test]
fn a_query_over_a_limit_comes_back_at_once() {
    let executor = builder(1, 1).limits(LIMITS).build().unwrap();
    let table = executor.add_table("lists", Lists::default());
    let query = || Query::new([1.0]).top(20).ef(50).nprobe(8);
    assert_eq!(executor.search(table, query()).wait().unwrap().len(), 20);
    for (query, reason) in [
        (query().top(21), over(QueryParameter::K, 21, 20)),
        (query().ef(51), over(QueryParameter::Ef, 51, 50)),
        (query().nprobe(9), over(QueryParameter::Nprobe, 9, 8)),
    ] {
        let refused = executor.submit(table, query.clone()).unwrap_err();
        assert_eq!((refused.reason, &refused.input), (reason, &query));
        let told = executor.search(table, query).wait();
        assert_eq!(told, Err(Error::Refused(reason)));
    }
    let total = executor.snapshot().total;
    assert_eq!(
        (total.accepted, total.done, total.shed),
        (1, 1, 0),
        "a query that is too large is no sign of overload"
    );
    executor.spawn(table, || ()).wait().unwrap();
}

#[test]
fn the_first_query_over_a_limit_refuses_its_batch() {
    let executor = builder(1, 2).limits(LIMITS).build().unwrap();
    let table = executor.add_table("lists", Lists::default());
    let batch = |tops: &[usize]| -> Vec<Query> {
        let query = |&top: &usize| Query::new([1.0]).top(top);
        tops.iter().map(query).collect()
    };
    let refused = executor.submit_batch(table, batch(&[5, 30, 40]));
    let refused = refused.unwrap_err();
    assert_eq!(refused.reason, over(QueryParameter::K, 30, 20));
    assert_eq!(refused.input, batch(&[5, 30, 40]), "all queries come back");
    let long = executor.search_batch(table, batch(&[1, 2, 3, 4]));
    let reason = over(QueryParameter::Batch, 4, 3);
    assert_eq!(long.refusal(), Some(reason));
    let answers = executor.search_batch(table, batch(&[1, 2, 20])).wait();
    let found: Vec<_> = answers.unwrap().into_iter().map(Result::unwrap).collect();
    let counts: Vec<_> = found.iter().map(Vec::len).collect();
    assert_eq!(counts, [1, 2, 20]);
    assert_eq!(executor.search_batch(table, Vec::new()).wait(), Ok(vec![]));
}

#[test]
fn there_is_no_limit_unless_one_is_given() {
    let executor = builder(1, 1).build().unwrap();
    let table = executor.add_table("lists", Lists::default());
    let most = Query::new([1.0]).top(usize::MAX).ef(usize::MAX);
    let most = most.nprobe(usize::MAX);
    assert_eq!(executor.search(table, most).wait().unwrap().len(), 1_000);
}

#[test]
fn a_limit_that_allows_nothing_is_refused() {
    let max_ef = Some(0);
    let limits = QueryLimits::new().max_ef(max_ef);
    let refused = builder(1, 1).limits(limits).build();
    let named = matches!(refused, Err(BuildError::ZeroBound { what: "max_ef" }));
    assert!(named, "{refused:?}");
}

#[test]
fn a_name_that_no_thread_can_have_is_refused() {
    let refused = builder(1, 1).name("search\0").build();
    let named = matches!(&refused, Err(BuildError::NulInName { name }) if name == "search\0");
    assert!(named, "{refused:?}");
}
