//! In which order a group looks at the others: for help, for work that is worth crossing for, for room.

use std::ops::Deref;

use chiplet_topology::{DomainId, Topology};

use crate::TableId;

/// Domains that a table's queries overflow to.
const OVERFLOW: usize = 3;

/// Every other group as one of them looks at them: the nearest first.
///
/// ```
/// use chiplet_policy::Neighbours;
///
/// let nearest = Neighbours::new(vec![1, 2, 3], 1);
/// assert_eq!(*nearest, [1, 2, 3]);
/// assert_eq!(nearest.of_socket(), [1]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    all: Vec<usize>,
    /// How many of them are of its own socket.
    of_socket: usize,
}

impl Neighbours {
    /// `all` others in order, the first `of_socket` of which share its memory.
    pub fn new(all: Vec<usize>, of_socket: usize) -> Self {
        Self { all, of_socket }
    }

    /// Those of its own socket.
    #[inline]
    pub fn of_socket(&self) -> &[usize] {
        &self.all[..self.of_socket]
    }
}

/// All of them of one socket.
impl FromIterator<usize> for Neighbours {
    fn from_iter<I: IntoIterator<Item = usize>>(others: I) -> Self {
        let all: Vec<usize> = others.into_iter().collect();
        Self {
            of_socket: all.len(),
            all,
        }
    }
}

impl Deref for Neighbours {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.all
    }
}

/// For each group of workers every other one. `domains` names each group's domain.
///
/// Of groups that are equally near, the one that follows in the list comes first. So the groups of a socket ask
/// different ones for help, and not all of them group 0.
///
/// # Panics
/// If a domain is not one of the topology's.
///
/// ```
/// use chiplet_policy::neighbours;
/// use chiplet_topology::{DomainId, Topology};
///
/// let ccds = (0..4).fold(Topology::builder(), |machine, _| machine.domain(32 << 20, 8));
/// let domains: Vec<DomainId> = (0..4).map(DomainId).collect();
/// let nearest = neighbours(&ccds.build()?, &domains);
/// assert_eq!(*nearest[0], [1, 2, 3]);
/// assert_eq!(*nearest[2], [3, 0, 1]);
/// # Ok::<(), chiplet_topology::TopologyError>(())
/// ```
pub fn neighbours(topology: &Topology, domains: &[DomainId]) -> Vec<Neighbours> {
    let count = domains.len();
    let nearest = |group: usize| {
        let mut others: Vec<usize> = (1..count).map(|step| (group + step) % count).collect();
        // Stable: what is equally near keeps its order.
        others.sort_by_key(|&other| topology.distance(domains[group], domains[other]));
        let place = |group: usize| {
            let mut all = topology.domains().iter();
            let known = all.find(|domain| domain.id == domains[group]);
            known.map(|domain| (domain.package, domain.node))
        };
        // Sockets may share a node: where the system makes one of all memory, no part of it is known to be far.
        let is_near = |&&other: &&usize| match (place(other), place(group)) {
            (Some((package, node)), Some(own)) => package == own.0 || node == own.1,
            _ => true,
        };
        let of_socket = others.iter().take_while(is_near).count();
        Neighbours::new(others, of_socket)
    };
    (0..count).map(nearest).collect()
}

/// The domains that a new task of `table` may go to when [`is_worth_rebalancing`](crate::is_worth_rebalancing) says so,
/// as positions in a list of `others` domains: three at most, and always the same, so that what goes elsewhere finds a
/// warm cache there.
///
/// With any domain instead, drawn for each task, a table whose home is asked for more than it can do is cold in all
/// caches, and evicts there what other tables need. Simulated at saturation (the paper's tables at five sizes, two
/// seeds each), p99 is 0.93 times as long on average (0.82-1.04), p999 0.92 (0.82-1.10), and throughput the same
/// (0.97-1.04).
///
/// ```
/// use chiplet_policy::{TableId, overflow_domains};
///
/// let table = TableId { slot: 5, generation: 1 };
/// let three: Vec<usize> = overflow_domains(table, 11).collect();
/// assert_eq!(three.len(), 3);
/// assert_eq!(overflow_domains(table, 1).collect::<Vec<_>>(), [0]);
/// ```
pub fn overflow_domains(table: TableId, others: usize) -> impl Iterator<Item = usize> {
    // Multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4): slots in a row begin far apart.
    let hash = u64::from(table.slot).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..others.min(OVERFLOW)).map(move |step| (hash as usize + step) % others)
}
