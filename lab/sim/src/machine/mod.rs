//! A machine: its topology, and what its caches, links and memory cost.

mod costs;
mod pages;
mod presets;
mod under_load;
mod ways;

use chiplet_topology::{Distance, DomainId, Topology};
use thiserror::Error;

pub use costs::Costs;
pub use pages::Pages;
pub use presets::PRESETS;
pub use under_load::UnderLoad;
pub use ways::Ways;

/// A machine to model.
#[derive(Clone, Debug)]
pub struct Machine {
    /// How it is called in reports.
    pub name: String,
    /// Its domains and cores.
    pub topology: Topology,
    /// What its parts cost.
    pub costs: Costs,
}

/// Why there is no such machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// No preset has this name.
    #[error("there is no machine {name:?}: give one of {}, with x2 for two sockets, or an hwloc XML file",
        PRESETS.map(|preset| preset.0).join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// More domains were asked for than the machine has.
    #[error("{name} has {has} domains: ask for 1 to {has}, not {asked}")]
    TooFewDomains {
        /// The machine.
        name: String,
        /// Its domains.
        has: usize,
        /// Those asked for.
        asked: usize,
    },
}

impl Machine {
    /// A preset by its name: `genoa-9654` has one socket, `genoa-9654x2` has two.
    ///
    /// ```
    /// use chiplet_sim::Machine;
    ///
    /// let genoa = Machine::preset("genoa-9654")?;
    /// assert_eq!(genoa.topology.domains().len(), 12);
    /// assert_eq!(genoa.topology.core_count(), 96);
    /// assert_eq!(Machine::preset("genoa-9654x2")?.topology.core_count(), 192);
    /// # Ok::<(), chiplet_sim::MachineError>(())
    /// ```
    ///
    /// # Errors
    /// [`MachineError::Unknown`].
    pub fn preset(name: &str) -> Result<Self, MachineError> {
        Self::preset_with(name, None)
    }

    /// A preset, with L3s of another size if one is given.
    ///
    /// # Errors
    /// [`MachineError::Unknown`].
    pub fn preset_with(name: &str, l3_bytes: Option<u64>) -> Result<Self, MachineError> {
        let (base, sockets) = match name.strip_suffix("x2") {
            Some(base) => (base, 2),
            None => (name, 1),
        };
        let preset = PRESETS.iter().find(|preset| preset.0 == base);
        let Some(&(_, shape, costs)) = preset else {
            return Err(MachineError::Unknown {
                name: name.to_owned(),
            });
        };
        Ok(Self {
            name: name.to_owned(),
            topology: shape.topology(sockets, l3_bytes),
            costs,
        })
    }

    /// Any topology, with the costs of a preset.
    pub fn new(name: impl Into<String>, topology: Topology, costs: Costs) -> Self {
        Self {
            name: name.into(),
            topology,
            costs,
        }
    }

    /// The same machine with its first `domains` domains alone, the memory staying as it is.
    ///
    /// # Errors
    /// [`MachineError::TooFewDomains`] if it has not so many, or none is asked for.
    pub fn with_domains(&self, domains: usize) -> Result<Self, MachineError> {
        let all = self.topology.domains();
        if domains == 0 || domains > all.len() {
            return Err(MachineError::TooFewDomains {
                name: self.name.clone(),
                has: all.len(),
                asked: domains,
            });
        }
        let kept: Vec<u32> = all[..domains]
            .iter()
            .flat_map(|domain| domain.cpus())
            .collect();
        let topology = self.topology.restricted_to(&kept);
        Ok(Self {
            topology: topology.expect("the cpus are the machine's own"),
            ..self.clone()
        })
    }

    /// The package whose memory holds a table: they take turns.
    pub(crate) fn holder(&self, table: usize) -> usize {
        table % self.packages()
    }

    /// How many packages it has.
    pub(crate) fn packages(&self) -> usize {
        let packages = self.topology.domains().iter();
        packages
            .map(|domain| domain.package as usize + 1)
            .max()
            .unwrap_or(1)
    }

    /// Which link to memory each domain uses: domains of one die share one.
    pub(crate) fn links(&self) -> Vec<usize> {
        let domains = self.topology.domains();
        let mut links = Vec::new();
        let mut next = 0;
        for at in 0..domains.len() {
            let shared = (0..at).find(|&other| {
                let [a, b] = [at, other].map(|position| domains[position].id);
                self.topology.distance(a, b) == Distance::SameDie
            });
            links.push(match shared {
                Some(other) => links[other],
                None => {
                    next += 1;
                    next - 1
                }
            });
        }
        links
    }

    /// Nanoseconds for a cache line to get from a core of one domain to one of another.
    pub(crate) fn line_ns(&self, from: DomainId, to: DomainId) -> f64 {
        match self.topology.distance(from, to) {
            Distance::Same => self.costs.line_same_ns,
            Distance::OtherPackage => self.costs.line_socket_ns,
            Distance::SameDie | Distance::SameNode | Distance::SamePackage => {
                self.costs.line_other_ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_of_one_die_share_a_link() {
        let genoa = Machine::preset("genoa-9654").unwrap();
        assert_eq!(genoa.links(), (0..12).collect::<Vec<_>>());
        let bergamo = Machine::preset("bergamo-9754").unwrap();
        assert_eq!(bergamo.topology.domains().len(), 16);
        assert_eq!(bergamo.links()[..6], [0, 0, 1, 1, 2, 2]);
        let two = Machine::preset("rome-7k62x2").unwrap();
        assert_eq!(two.links().last(), Some(&11));
    }

    #[test]
    fn part_of_a_machine_keeps_its_first_domains() {
        let genoa = Machine::preset("genoa-9654").unwrap();
        let part = genoa.with_domains(3).unwrap();
        assert_eq!(part.topology.core_count(), 24);
        assert!(genoa.with_domains(13).is_err() && genoa.with_domains(0).is_err());
    }

    #[test]
    fn an_unknown_machine_is_answered_with_those_that_exist() {
        let error = Machine::preset("epyc").unwrap_err().to_string();
        assert!(error.contains("genoa-9654") && error.contains("\"epyc\""));
    }
}
