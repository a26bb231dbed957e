//! Tables that fill a domain's queue with batches, blocks and single queries: the last places are for others.

use crate::common::hooked::{Hooked, answered, numbered};
use crate::common::{Gate, OpenOnDrop, builder, hold};
use chiplet::{Executor, Query, TableId};

/// Submits one load to a table, or says that it was refused; with what waits for its answer.
type Submit = fn(&Executor, TableId) -> Option<Box<dyn FnOnce()>>;

fn single(executor: &Executor, table: TableId) -> Option<Box<dyn FnOnce()>> {
    let ticket = executor.submit(table, Query::new([7.0]).top(1)).ok()?;
    Some(Box::new(|| assert_eq!(ticket.wait().unwrap()[0].id, 7)))
}

fn batch(executor: &Executor, table: TableId) -> Option<Box<dyn FnOnce()>> {
    let queries = (0..150).map(|n| Query::new([n as f32]).top(1)).collect();
    let ticket = executor.submit_batch(table, queries).ok()?;
    Some(Box::new(|| {
        let answers = ticket.wait().unwrap();
        assert!(answers.into_iter().all(|answer| answer.is_ok()));
    }))
}

fn block(executor: &Executor, table: TableId) -> Option<Box<dyn FnOnce()>> {
    let ticket = executor.submit_block(table, numbered(150)).ok()?;
    Some(Box::new(|| {
        assert_eq!(answered(&ticket.wait().unwrap()), 150)
    }))
}

#[test]
fn nothing_of_quiet_tables_is_refused_beside_floods_of_any_kind() {
    let mixed: [&[Submit]; 4] = [&[single], &[batch], &[block], &[single, batch, block]];
    for (kinds, floods) in mixed
        .into_iter()
        .flat_map(|kinds| [2, 3, 8].map(|n| (kinds, n)))
    {
        let executor = builder(1, 2).build().unwrap();
        let table = |n: usize| executor.add_table(format!("t{n}"), Hooked(|_| (), 1));
        let flooding: Vec<_> = (0..floods).map(table).collect();
        let quiet: Vec<_> = (floods..floods + 10).map(table).collect();
        let gate = Gate::default();
        let _open = OpenOnDrop(gate.clone());
        let held = hold(&executor, executor.add_closure_table("held", 1), 2, &gate);
        let mut answers = Vec::new();
        // Round by round, until a whole round is refused.
        loop {
            let before = answers.len();
            for (n, &table) in flooding.iter().enumerate() {
                answers.extend(kinds[n % kinds.len()](&executor, table));
            }
            if answers.len() == before {
                break;
            }
        }
        assert!(executor.snapshot().total.queued > 300, "the queue is full");
        for round in 0..3 {
            for &table in &quiet {
                let accepted = single(&executor, table);
                assert!(accepted.is_some(), "{floods} floods, query {round}");
                answers.extend(accepted);
            }
        }
        gate.open();
        held.into_iter().for_each(|ticket| ticket.wait().unwrap());
        answers.into_iter().for_each(|wait| wait());
    }
}
