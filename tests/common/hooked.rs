//! What batches and blocks are asked of: a table that answers with the number it is asked for, and rows for real
//! tables.

use chiplet::ticket::BlockAnswers;
use chiplet::{Block, Context, Neighbor, Query, SearchError, Table};

/// Components of [`rows`].
pub const DIM: usize = 4;

/// As many rows, few of them alike.
pub fn rows(count: usize) -> Vec<f32> {
    (0..count * DIM).map(|i| (i * 7919 % 1201) as f32).collect()
}

/// A table with a hook, which finds what it was asked for; it may want several queries at once.
pub struct Hooked<F>(pub F, pub usize);

impl<F: Fn(f32) + Send + Sync + 'static> Table for Hooked<F> {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        1
    }

    fn size_bytes(&self) -> u64 {
        1
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        query.check(1)?;
        context.add_bytes(1);
        let asked = query.vector()[0];
        (self.0)(asked);
        let (id, distance) = (asked as u64, 0.0);
        let found = query.allows(id).then_some(Neighbor { id, distance });
        Ok(found.into_iter().collect())
    }

    fn batch_size(&self) -> usize {
        self.1
    }
}

/// Rows that are their own number.
pub fn numbered(count: usize) -> Block {
    let rows: Vec<f32> = (0..count).map(|n| n as f32).collect();
    Block::new(rows, 1).like(Query::new([]).top(1))
}

/// The rows that have an answer, which is right, and those that have not.
pub fn answered(answers: &BlockAnswers) -> usize {
    let right = |row: &usize| match answers.row(*row) {
        Ok((ids, _)) => {
            assert_eq!(ids, [*row as u64]);
            true
        }
        Err(_) => false,
    };
    (0..answers.len()).filter(right).count()
}
