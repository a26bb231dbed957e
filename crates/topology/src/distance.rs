//! How far apart two domains are, and the order in which a domain looks at the others.
//!
//! The five steps follow the wires: two CCXs of one die share a link to memory, domains of one NUMA
//! node share memory controllers, those of one package share the I/O die, those of different
//! packages only the socket link. Measured core-to-core latencies rise in that order (Zen 1 to
//! Zen 5: 20-45 ns inside a domain, 100-180 ns across domains, 200-260 ns across sockets).

use std::fmt;

/// How far apart two domains are, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// The same domain.
    Same,
    /// Two CCXs on one die, that is on one memory link.
    SameDie,
    /// The same NUMA node.
    SameNode,
    /// The same package (socket).
    SamePackage,
    /// Different packages.
    OtherPackage,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same domain",
            Self::SameDie => "same die",
            Self::SameNode => "same node",
            Self::SamePackage => "same package",
            Self::OtherPackage => "other package",
        })
    }
}

/// Where a domain sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoreLocation {
    /// Unique in the whole machine; `None` if the system does not tell.
    pub(crate) die: Option<u32>,
    pub(crate) node: u32,
    pub(crate) package: u32,
}

impl CoreLocation {
    /// The distance to another domain's place. A die that spans several NUMA nodes does not make
    /// its domains near: their memory is not the same.
    pub(crate) fn distance(&self, other: &CoreLocation) -> Distance {
        if self.package != other.package {
            Distance::OtherPackage
        } else if self.node != other.node {
            Distance::SamePackage
        } else if self.die.is_some() && self.die == other.die {
            Distance::SameDie
        } else {
            Distance::SameNode
        }
    }
}

/// The indexes of all places but `me`, nearest first, ties by index. Found anew each time: a table for all of them
/// would need gigabytes on a machine of as many domains as a file can describe.
pub(crate) fn nearest(places: &[CoreLocation], me: usize) -> impl Iterator<Item = usize> + '_ {
    const OUTWARDS: [Distance; 4] = [
        Distance::SameDie,
        Distance::SameNode,
        Distance::SamePackage,
        Distance::OtherPackage,
    ];
    let from = places[me];
    OUTWARDS.into_iter().flat_map(move |distance| {
        let others = places.iter().enumerate();
        others
            .filter(move |&(other, place)| other != me && from.distance(place) == distance)
            .map(|(other, _)| other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_outwards_is_farther() {
        let here = CoreLocation {
            die: Some(1),
            node: 0,
            package: 0,
        };
        let steps = [
            (
                CoreLocation {
                    die: Some(1),
                    node: 0,
                    package: 0,
                },
                Distance::SameDie,
            ),
            (
                CoreLocation {
                    die: Some(2),
                    node: 0,
                    package: 0,
                },
                Distance::SameNode,
            ),
            (
                CoreLocation {
                    die: Some(1),
                    node: 1,
                    package: 0,
                },
                Distance::SamePackage,
            ),
            (
                CoreLocation {
                    die: Some(1),
                    node: 0,
                    package: 1,
                },
                Distance::OtherPackage,
            ),
        ];
        for (there, expected) in steps {
            assert_eq!(here.distance(&there), expected);
            assert_eq!(there.distance(&here), expected);
        }
        assert!(steps.windows(2).all(|pair| pair[0].1 < pair[1].1));
    }

    #[test]
    fn unknown_dies_are_not_taken_for_the_same_die() {
        let unknown = CoreLocation {
            die: None,
            node: 0,
            package: 0,
        };
        assert_eq!(unknown.distance(&unknown), Distance::SameNode);
    }

    #[test]
    fn neighbours_come_nearest_first_and_ties_by_id() {
        let place = |die, node, package| CoreLocation {
            die: Some(die),
            node,
            package,
        };
        let places = [
            place(0, 0, 0),
            place(9, 9, 1),
            place(1, 1, 0),
            place(2, 0, 0),
            place(0, 0, 0),
        ];
        let order = |me| nearest(&places, me).collect::<Vec<_>>();
        assert_eq!(order(0), [4, 3, 2, 1]);
        assert_eq!(order(1), [0, 2, 3, 4]);
    }
}
