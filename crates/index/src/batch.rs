//! From a table's own search of many queries, which one bad query ends, to an answer for each.

use chiplet_executor::{Context, Neighbor, Query, SearchError, Table};

/// The answers of `many`, or of one search after the other if it cannot answer all. Queries are checked first, so that
/// one which the table refuses rarely has others searched twice.
pub(crate) fn answers<T: Table>(
    table: &T,
    queries: &[Query],
    context: &mut Context,
    many: impl FnOnce(&T, &[Query], &mut Context) -> Result<Vec<Vec<Neighbor>>, SearchError>,
) -> Vec<Result<Vec<Neighbor>, SearchError>> {
    let dim = table.dim();
    let sound = queries.iter().all(|query| query.check(dim).is_ok());
    match sound.then(|| many(table, queries, context)) {
        Some(Ok(answers)) => answers.into_iter().map(Ok).collect(),
        Some(Err(_)) | None => {
            let search = |query| table.search(query, context);
            queries.iter().map(search).collect()
        }
    }
}
