//! A home for a new table.

use chiplet_topology::DomainId;

use super::input::DomainSpec;
use super::machine::clean;
use crate::Homes;

/// What a domain holds already, for [`assign_home`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DomainTally {
    /// The domain.
    pub id: DomainId,
    /// Its cores.
    pub cores: u32,
    /// Their mean speed, as in [`DomainSpec`](crate::DomainSpec).
    pub speed: f64,
    /// Load of its tables, measured or expected: core-seconds or bytes per second, the same for all domains.
    pub load: f64,
    /// Bytes of the tables that have it as home; where tables are placed by time, of each at most what its cache holds.
    pub bytes: f64,
    /// Number of tables that have it as home.
    pub tables: u32,
}

/// A home for a table that has no load yet: the domain with the least load per core, of those the one with the fewest
/// table bytes per core (size is the best guess at the load to come), then with the fewest tables, then with the lowest
/// id.
///
/// Domains without cores are passed over unless all are.
///
/// # Panics
///
/// If `tallies` is empty: a table needs a domain to live on.
pub fn assign_home(tallies: &[DomainTally]) -> Homes {
    let coreless = tallies.iter().all(|tally| tally.cores == 0);
    let per_core = |amount: f64, tally: &DomainTally| {
        let spec = DomainSpec {
            speed: tally.speed,
            ..DomainSpec::new(tally.id, tally.cores.max(1))
        };
        clean(amount) / spec.strength()
    };
    let best = tallies
        .iter()
        .filter(|tally| coreless || tally.cores > 0)
        .min_by(|a, b| {
            per_core(a.load, a)
                .total_cmp(&per_core(b.load, b))
                .then_with(|| per_core(a.bytes, a).total_cmp(&per_core(b.bytes, b)))
                .then(a.tables.cmp(&b.tables))
                .then(a.id.cmp(&b.id))
        });
    Homes::single(
        best.expect("a table needs at least one domain to live on")
            .id,
    )
}
