//! From answers that are given one by one to a list of them.

use chiplet_table::{Context, Neighbor, Query, SearchError, Table};

/// What [`Table::search_each`] finds, for a table's [`Table::search_batch`].
pub(crate) fn answers(
    table: &impl Table,
    queries: &[Query],
    context: &mut Context,
) -> Vec<Result<Vec<Neighbor>, SearchError>> {
    let mut answers: Vec<_> = queries.iter().map(|_| Ok(Vec::new())).collect();
    table.search_each(queries, context, &mut |number, found| {
        answers[number] = found.map(<[_]>::to_vec);
    });
    answers
}
