//! Blocks that are refused, as a whole and at once, and come back; and those that ask for nothing.

use crate::common::hooked::{DIM, Hooked, answered, numbered, rows};
use crate::common::{Gate, HANG, OpenOnDrop, builder, executor, full_at, hold};
use chiplet::index::{FlatTable, Metric};
use chiplet::shutdown::Shutdown;
use chiplet::{Block, Filter, Query, QueryLimits, QueryParameter, SubmitError, TableId};

#[test]
fn a_block_is_refused_as_a_whole_if_no_part_has_a_place() {
    let executor = builder(1, 2)
        .queue_limit(3)
        .table_queue_limit(2)
        .build()
        .unwrap();
    let table = executor.add_table("t", Hooked(|_| (), 1));
    let other = executor.add_closure_table("other", 1);
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let held = hold(&executor, other, 2, &gate);
    let queued = executor.search(table, Query::new([7.0]));
    let accepted = executor.submit_block(table, numbered(1_000)).unwrap();
    let refused = executor.submit_block(table, numbered(500)).unwrap_err();
    assert_eq!(full_at(refused.reason), (None, 2));
    assert_eq!(refused.input.len(), 500, "the block comes back");
    let ticket = executor.search_block(table, numbered(3));
    assert_eq!(full_at(ticket.refusal().unwrap()), (None, 2));
    let total = executor.snapshot().total;
    // One place was left for the block: a first part of 16 rows. Those that were refused count as a part each.
    assert_eq!(
        (total.accepted, total.queued, total.shed),
        (2 + 1 + 16, 1 + 16, 64 + 3)
    );
    gate.open();
    held.into_iter().for_each(|ticket| ticket.wait().unwrap());
    queued.wait().unwrap();
    assert_eq!(answered(&accepted.wait().unwrap()), 1_000);
    let again = executor.submit_block(table, refused.input).unwrap();
    assert_eq!(answered(&again.wait().unwrap()), 500);
}

#[test]
fn what_does_not_fit_is_refused_and_comes_back() {
    let limits = QueryLimits::new().max_k(Some(5)).max_batch(Some(1));
    let executor = builder(1, 1).limits(limits).build().unwrap();
    let table = executor.add_table("flat", FlatTable::build(rows(30), DIM, Metric::L2).unwrap());
    let closures = executor.add_closure_table("closures", 1);
    let like = || Query::new([]).top(5);
    let block = |components| Block::new(vec![0.5; components], DIM).like(like());
    let (expected, got) = (DIM, 3);
    let (components, dim) = (3 * DIM + 1, DIM);
    let (filters, rows) = (1, 2);
    let (parameter, asked, limit) = (QueryParameter::K, 6, 5);
    let filter = Filter::ids([1]);
    for (table, block, reason) in [
        (TableId::default(), block(8), SubmitError::UnknownTable),
        (closures, block(8), SubmitError::NotSearchable),
        (
            table,
            Block::new(vec![0.5; 12], 3).like(like()),
            SubmitError::WrongDimension { expected, got },
        ),
        (
            table,
            Block::new(vec![0.5; 12], 0).like(like()),
            SubmitError::WrongDimension { expected, got: 0 },
        ),
        (
            table,
            block(components),
            SubmitError::RaggedRows { components, dim },
        ),
        (
            table,
            block(8).filters([filter]),
            SubmitError::WrongFilters { filters, rows },
        ),
        (
            table,
            block(8).like(Query::new([]).top(6)),
            SubmitError::OverLimit {
                parameter,
                asked,
                limit,
            },
        ),
        (
            table,
            Block::new(vec![0.5; 8], DIM).like(Query::new([]).top(5)),
            SubmitError::ShuttingDown,
        ),
    ] {
        if reason == SubmitError::ShuttingDown {
            // No limit of a batch's length applies to it.
            assert_eq!(
                executor
                    .search_block(table, block.clone())
                    .wait()
                    .unwrap()
                    .len(),
                2
            );
            executor.shutdown(Shutdown::Drain(HANG));
        }
        let len = block.len();
        let refused = executor.submit_block(table, block).unwrap_err();
        assert_eq!((refused.reason, refused.input.len()), (reason, len));
    }
}

#[test]
fn answers_that_no_memory_holds_are_refused() {
    let executor = executor(1, 1);
    let table = executor.add_table("t", Hooked(|_| (), 1));
    let block = numbered(8).like(Query::new([]).top(usize::MAX / 8));
    let refused = executor.submit_block(table, block).unwrap_err();
    assert_eq!(refused.reason, SubmitError::OutOfMemory);
}

#[test]
fn an_empty_block_is_answered_at_once() {
    let executor = executor(1, 1);
    let table = executor.add_table("t", Hooked(|_| (), 1));
    let gate = Gate::default();
    let _open = OpenOnDrop(gate.clone());
    let _held = hold(&executor, table, 1, &gate);
    let ticket = executor.submit_block(table, numbered(0)).unwrap();
    assert!(ticket.is_finished());
    assert!(ticket.wait().unwrap().is_empty());
}
