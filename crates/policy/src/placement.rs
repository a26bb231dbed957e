//! The map of tables to their home domains: an immutable value with a version.
//!
//! Invariants, kept by construction: a table's [`Homes`] are never empty, are sorted by domain, name no
//! domain twice, and their weights are positive and sum to [`Home::WHOLE`]; every change of a
//! [`Placement`] makes its version larger by one, so of two placements the newer is the one with the
//! larger version, and equal versions of one planner are equal maps.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::slice;
use std::sync::Arc;

use chiplet_topology::DomainId;

use crate::TableId;

/// One home of a table, and which part of the table's queries goes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Home {
    /// The domain.
    pub domain: DomainId,
    /// Its part of the table's traffic, of [`Home::WHOLE`].
    #[doc(hidden)]
    pub weight: u32,
}

impl Home {
    /// What the weights of a table's homes sum to. A power of two, so that [`Homes::pick`] needs no
    /// division, and fine enough that rounding shifts less than 0.01 % of a table's traffic.
    #[doc(hidden)]
    pub const WHOLE: u32 = 1 << 16;

    /// The weight as a part of 1.
    pub fn share(&self) -> f64 {
        f64::from(self.weight) / f64::from(Self::WHOLE)
    }
}

/// The homes of one table. Cloning is cheap and, for a table with one home, allocates nothing.
///
/// ```
/// use chiplet_policy::Homes;
/// use chiplet_topology::DomainId;
///
/// let homes = Homes::from_shares([(DomainId(4), 1.0), (DomainId(1), 3.0)]).unwrap();
/// let parts: Vec<_> = homes.iter().map(|home| (home.domain.0, home.share())).collect();
/// assert_eq!(parts, [(1, 0.75), (4, 0.25)]);
/// assert_eq!(homes.to_string(), "domain 1 (75 %), domain 4 (25 %)");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Homes(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    One([Home; 1]),
    Several(Arc<[Home]>),
}

impl Homes {
    /// Odd multiplier that spreads consecutive turns evenly over the weights: 2^16 / golden ratio
    /// (multiplicative hashing, Knuth, The Art of Computer Programming 3, section 6.4).
    const SPREAD: u32 = 40_503;

    /// The only home is `domain`.
    #[doc(hidden)]
    pub fn single(domain: DomainId) -> Self {
        Self(Repr::One([Home {
            domain,
            weight: Home::WHOLE,
        }]))
    }

    /// Homes with weights in proportion to `shares`, in any order. Shares that are not finite and
    /// positive are left out, those of a domain named twice are added up. `None` if nothing is left.
    ///
    /// Every home that is kept has a weight of at least 1.
    #[doc(hidden)]
    pub fn from_shares(shares: impl IntoIterator<Item = (DomainId, f64)>) -> Option<Self> {
        let mut sums: BTreeMap<DomainId, f64> = BTreeMap::new();
        for (domain, share) in shares {
            if share.is_finite() && share > 0.0 {
                let sum = sums.entry(domain).or_default();
                *sum = (*sum + share).min(f64::MAX);
            }
        }
        // The largest share scales all others, so that sums of huge shares stay finite.
        let largest = sums.values().copied().fold(0.0, f64::max);
        let parts = sums.into_iter().take(Home::WHOLE as usize);
        let parts: Vec<(DomainId, f64)> = parts
            .map(|(domain, share)| (domain, share / largest))
            .collect();
        match parts.as_slice() {
            [] => None,
            [(domain, _)] => Some(Self::single(*domain)),
            _ => Some(Self(Repr::Several(round(&parts).into()))),
        }
    }

    /// Homes with just these weights, in any order. `None` unless each is at least 1, they sum to [`Home::WHOLE`], and
    /// no domain is named twice.
    #[doc(hidden)]
    pub fn from_weights(homes: impl IntoIterator<Item = Home>) -> Option<Self> {
        let mut homes: Vec<Home> = homes.into_iter().collect();
        homes.sort_by_key(|home| home.domain);
        let distinct = homes.is_sorted_by(|a, b| a.domain < b.domain);
        let whole: u64 = homes.iter().map(|home| u64::from(home.weight)).sum();
        if !distinct || whole != Home::WHOLE.into() || homes.iter().any(|home| home.weight == 0) {
            return None;
        }
        Some(match homes.as_slice() {
            [home] => Self(Repr::One([*home])),
            _ => Self(Repr::Several(homes.into())),
        })
    }

    /// The homes, sorted by domain.
    #[doc(hidden)]
    pub fn as_slice(&self) -> &[Home] {
        match &self.0 {
            Repr::One(home) => home,
            Repr::Several(homes) => homes,
        }
    }

    /// The homes, sorted by domain.
    pub fn iter(&self) -> slice::Iter<'_, Home> {
        self.as_slice().iter()
    }

    /// How many domains are home to the table; never 0.
    #[expect(clippy::len_without_is_empty, reason = "homes are never empty")]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether `domain` is one of the homes.
    #[doc(hidden)]
    pub fn contains(&self, domain: DomainId) -> bool {
        self.iter().any(|home| home.domain == domain)
    }

    /// The home with the largest weight, the lowest domain of those that share it.
    pub fn main(&self) -> Home {
        let homes = self.as_slice();
        homes[1..].iter().fold(homes[0], |best, &home| {
            if home.weight > best.weight {
                home
            } else {
                best
            }
        })
    }

    /// The home of a table's query number `turn`, counted up from any start.
    ///
    /// Any [`Home::WHOLE`] turns in a row give each home exactly its weight, and a few in a row are
    /// already spread in proportion: no home gets a burst.
    ///
    /// ```
    /// use chiplet_policy::Homes;
    /// use chiplet_topology::DomainId;
    ///
    /// let homes = Homes::from_shares([(DomainId(0), 1.0), (DomainId(1), 1.0)]).unwrap();
    /// let first = (0..10).filter(|&turn| homes.pick(turn) == DomainId(0)).count();
    /// assert_eq!(first, 5);
    /// ```
    #[doc(hidden)]
    pub fn pick(&self, turn: u32) -> DomainId {
        match &self.0 {
            Repr::One([home]) => home.domain,
            Repr::Several(homes) => {
                let mut point = turn.wrapping_mul(Self::SPREAD) % Home::WHOLE;
                for home in homes.iter() {
                    if point < home.weight {
                        return home.domain;
                    }
                    point -= home.weight;
                }
                unreachable!("weights sum to Home::WHOLE")
            }
        }
    }
}

impl<'a> IntoIterator for &'a Homes {
    type Item = &'a Home;
    type IntoIter = slice::Iter<'a, Home>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Homes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.iter().map(|home| (home.domain.0, home.weight));
        f.debug_map().entries(parts).finish()
    }
}

impl fmt::Display for Homes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [home] = self.as_slice() {
            return write!(f, "domain {}", home.domain.0);
        }
        for (position, home) in self.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            let percent = home.share() * 100.0;
            write!(f, "{comma}domain {} ({percent:.0} %)", home.domain.0)?;
        }
        Ok(())
    }
}

/// Rounds positive parts to weights that sum to [`Home::WHOLE`]: each ends where the sum of parts so far ends, rounded.
fn round(parts: &[(DomainId, f64)]) -> Vec<Home> {
    let total: f64 = parts.iter().map(|&(_, part)| part).sum();
    // One unit of weight goes to every home beforehand, so that none is rounded away.
    let free = f64::from(Home::WHOLE) - parts.len() as f64;
    let (mut sum, mut given) = (0.0, 0);
    let homes = parts.iter().map(|&(domain, part)| {
        sum += part;
        let end = (sum / total * free).round() as u32;
        let weight = 1 + end - given;
        given = end;
        Home { domain, weight }
    });
    homes.collect()
}

/// The homes of all tables, at one version.
///
/// A query is routed by the placement that was current when it was submitted and finishes under it;
/// the next one may already follow a newer version.
///
/// ```
/// use chiplet_policy::{Homes, Placement, TableId};
/// use chiplet_topology::DomainId;
///
/// let table = TableId { slot: 0, generation: 0 };
/// let old = Placement::default().next([(table, Homes::single(DomainId(0)))]);
/// let new = old.next([(table, Homes::single(DomainId(2)))]);
/// assert_eq!((old.version(), new.version()), (1, 2));
/// let moves = new.diff(&old);
/// assert_eq!(moves[0].to_string(), "table 0: domain 0 -> domain 2");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    version: u64,
    homes: BTreeMap<TableId, Homes>,
}

impl Placement {
    /// The version: 0 for an empty placement, one more after each change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The homes of `table`, if it is placed.
    pub fn homes(&self, table: TableId) -> Option<&Homes> {
        self.homes.get(&table)
    }

    /// All tables and their homes, in id order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (TableId, &Homes)> + '_ {
        self.homes.iter().map(|(&table, homes)| (table, homes))
    }

    /// The placement that follows this one: these homes and no others, at the next version.
    #[doc(hidden)]
    pub fn next(&self, homes: impl IntoIterator<Item = (TableId, Homes)>) -> Self {
        Self {
            version: self.version + 1,
            homes: homes.into_iter().collect(),
        }
    }

    /// What turns `old` into this placement: one move for every table whose homes differ, in id order.
    #[doc(hidden)]
    pub fn diff(&self, old: &Self) -> Vec<Move> {
        let tables: BTreeSet<_> = self.homes.keys().chain(old.homes.keys()).collect();
        let moves = tables.into_iter().map(|&table| Move {
            table,
            from: old.homes(table).cloned(),
            to: self.homes(table).cloned(),
        });
        moves.filter(|step| step.from != step.to).collect()
    }

    /// Makes these moves, at the next version.
    pub(crate) fn make(&mut self, moves: &[Move]) {
        for step in moves {
            match &step.to {
                Some(to) => self.homes.insert(step.table, to.clone()),
                None => self.homes.remove(&step.table),
            };
        }
        self.version += 1;
    }

    /// Places one table, at the next version.
    pub(crate) fn insert(&mut self, table: TableId, homes: Homes) {
        self.homes.insert(table, homes);
        self.version += 1;
    }

    /// Takes one table out, at the next version; does nothing if it is not placed.
    pub(crate) fn remove(&mut self, table: TableId) -> Option<Homes> {
        let homes = self.homes.remove(&table)?;
        self.version += 1;
        Some(homes)
    }
}

/// One table whose homes differ between two placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The table.
    pub table: TableId,
    /// Its homes before; `None` if it was not placed.
    pub from: Option<Homes>,
    /// Its homes after; `None` if it is placed no more.
    pub to: Option<Homes>,
}

impl Move {
    /// Domains that become home by this move.
    pub fn gained(&self) -> impl Iterator<Item = DomainId> + '_ {
        Self::only_in(self.to.as_ref(), self.from.as_ref())
    }

    /// Domains that are home no longer.
    pub fn left(&self) -> impl Iterator<Item = DomainId> + '_ {
        Self::only_in(self.from.as_ref(), self.to.as_ref())
    }

    fn only_in<'a>(
        these: Option<&'a Homes>,
        others: Option<&'a Homes>,
    ) -> impl Iterator<Item = DomainId> + 'a {
        these
            .into_iter()
            .flatten()
            .map(|home| home.domain)
            .filter(move |&domain| !others.is_some_and(|homes| homes.contains(domain)))
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{}: {from} -> {to}", self.table),
            (Some(from), None) => write!(f, "{}: {from} -> removed", self.table),
            (None, Some(to)) => write!(f, "{}: new -> {to}", self.table),
            (None, None) => write!(f, "{}: not placed", self.table),
        }
    }
}
