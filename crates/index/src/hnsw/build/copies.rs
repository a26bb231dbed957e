//! Rows that are equal to an earlier one. They get no links: between equal rows no link is longer than another, so
//! copies would fill each other's lists, and nothing would lead out of them. A search that finds the first of them has
//! found all.

use std::collections::HashMap;

use xxhash_rust::xxh3::Xxh3;

use crate::error::BuildError;
use crate::progress::Watch;

/// The rows of `rows` (`[n][dim]`) that no earlier one is equal to, in order; and the others, each with the one that it
/// is equal to, in the order of those. 0.0 and -0.0 are equal.
///
/// # Errors
/// [`BuildError::Stopped`].
pub(super) fn apart(
    rows: &[f32],
    dim: usize,
    watch: &Watch<'_>,
) -> Result<(Vec<u32>, Vec<Same>), BuildError> {
    let row = |number: u32| &rows[number as usize * dim..][..dim];
    let mut first_of: HashMap<u64, u32> = HashMap::new();
    let (mut firsts, mut copies) = (Vec::new(), Vec::new());
    for number in 0..(rows.len() / dim) as u32 {
        let mut sum = Xxh3::new();
        for value in row(number) {
            // -0.0 becomes 0.0.
            sum.update(&(value + 0.0).to_ne_bytes());
        }
        let first = *first_of.entry(sum.digest()).or_insert(number);
        // Others of the same sum are seldom, and are linked like any row.
        match first != number && row(first) == row(number) {
            true => copies.push(Same { first, number }),
            false => firsts.push(number),
        }
        watch.look()?;
    }
    copies.sort_unstable_by_key(|copy| (copy.first, copy.number));
    Ok((firsts, copies))
}

/// A row that is equal to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Same {
    pub(super) first: u32,
    pub(super) number: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_copy_is_counted_to_the_first_of_its_rows() {
        let rows = [1.0, 0.0, 2.0, 2.0, 1.0, -0.0, 1.0, 0.0, 3.0, 0.0, 2.0, 2.0];
        let apart = |rows: &[f32]| super::apart(rows, 2, &Watch::none()).unwrap();
        let (firsts, copies) = apart(&rows);
        assert_eq!(firsts, [0, 1, 4]);
        let pairs: Vec<_> = copies
            .iter()
            .map(|copy| (copy.first, copy.number))
            .collect();
        assert_eq!(pairs, [(0, 2), (0, 3), (1, 5)]);
        assert_eq!(apart(&[]), (vec![], vec![]));
    }
}
