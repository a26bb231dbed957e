//! A home for a new table.

use super::input::DomainSpec;
use super::machine::clean;

/// What a domain holds already, for [`assign_home`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DomainTally {
    /// The domain.
    pub spec: DomainSpec,
    /// Load of its tables, measured or expected: core-seconds or bytes per second, the same for all domains.
    pub load: f64,
    /// Bytes of the tables that have it as home; where tables are placed by time, of each at most what its cache holds.
    pub bytes: f64,
    /// Number of tables that have it as home.
    pub tables: u32,
}

/// The home for a table that has no load yet: the domain with the least load per core, of those the one with the fewest
/// table bytes per core (size is the best guess at the load to come), then with the fewest tables, then with the lowest
/// id. Domains without cores come last. `None` if there are no domains.
pub fn assign_home<'a>(
    tallies: impl IntoIterator<Item = &'a DomainTally>,
) -> Option<&'a DomainTally> {
    let per_core = |amount: f64, tally: &DomainTally| clean(amount) / tally.spec.strength();
    let has_none = |tally: &DomainTally| tally.spec.cores == 0;
    tallies.into_iter().min_by(|a, b| {
        (has_none(a).cmp(&has_none(b)))
            .then_with(|| per_core(a.load, a).total_cmp(&per_core(b.load, b)))
            .then_with(|| per_core(a.bytes, a).total_cmp(&per_core(b.bytes, b)))
            .then(a.tables.cmp(&b.tables))
            .then(a.spec.id.cmp(&b.spec.id))
    })
}
