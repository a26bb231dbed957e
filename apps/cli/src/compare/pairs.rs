//! What two reports have in common.

use crate::bench::report::{Report, Strategy};

/// Strategies of both runs, in the order of the first.
pub(super) fn both<'a>(
    a: &'a Report,
    b: &'a Report,
) -> impl Iterator<Item = (&'a Strategy, &'a Strategy)> {
    a.strategies.iter().filter_map(|one| {
        let other = b.strategies.iter().find(|other| other.name == one.name)?;
        Some((one, other))
    })
}
