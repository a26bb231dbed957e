//! From a table's own search of many queries, which one bad query ends, to an answer for each.

use chiplet_table::{Context, Neighbor, Query, SearchError, Table};

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
        // Nobody waits for any of them.
        Some(Err(SearchError::Stopped)) => vec![Err(SearchError::Stopped); queries.len()],
        Some(Err(_)) | None => {
            let search = |query| table.search(query, context);
            queries.iter().map(search).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlatTable, Metric};

    #[test]
    fn queries_that_nobody_waits_for_are_not_searched_again() {
        let table = FlatTable::build([1.0, 2.0], 2, Metric::L2).unwrap();
        let queries = vec![Query::new([0.0, 0.0]); 2];
        let stopped = |_: &FlatTable, _: &[Query], _: &mut Context| Err(SearchError::Stopped);
        let found = answers(&table, &queries, &mut Context::default(), stopped);
        assert_eq!(found, vec![Err(SearchError::Stopped); 2]);
    }
}
