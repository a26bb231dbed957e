//! How a machine is to be read.

use crate::level::LevelChoice;

/// How to read a machine: which level makes the domains, and whether to believe its caches.
///
/// All readers take a [`LevelChoice`] too, where nothing else is to be said.
///
/// ```
/// use chiplet_topology::{LevelChoice, ReadOptions, Topology};
/// // This machine as it is told, though it is a virtual one.
/// let machine = Topology::detect(ReadOptions::new().virtual_machine(false))?;
/// assert_eq!(machine.warnings(), []);
/// # let same = Topology::detect(LevelChoice::Auto)?;
/// # assert_eq!(machine.cpu_count(), same.cpu_count());
/// # Ok::<(), chiplet_topology::TopologyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    pub(crate) level: LevelChoice,
    pub(crate) virtual_machine: Option<bool>,
}

impl ReadOptions {
    /// The usual level; virtual or not, as the machine reports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which level makes the domains.
    pub fn level(mut self, choice: LevelChoice) -> Self {
        self.level = choice;
        self
    }

    /// Whether the machine is virtual, which decides whether L3s that hypervisors make up are believed
    /// ([`Warning`](crate::Warning)).
    ///
    /// Without it: as the flag `hypervisor` in `/proc/cpuinfo` says, which x86 has. hwloc's XML files and
    /// synthetic descriptions do not tell and count as real machines.
    pub fn virtual_machine(mut self, is_virtual: bool) -> Self {
        self.virtual_machine = Some(is_virtual);
        self
    }
}

impl From<LevelChoice> for ReadOptions {
    fn from(level: LevelChoice) -> Self {
        Self::new().level(level)
    }
}
