//! L3s of a virtual machine that no processor has.
//!
//! A hypervisor chooses what its guests see. libvirt gives each virtual cpu a socket of its own unless told
//! otherwise, and with it an L3: 32 virtual cpus read as 32 domains of one core, though they run on a few
//! CCDs, anywhere. VMware does the same where a socket is given one core. Others give all cpus one L3, whatever
//! lies below. What can be known to be wrong is not believed. A real machine is believed in all cases: the
//! EPYC 72F3 has an L3 for each core.

use crate::machine::Machine;
use std::collections::BTreeMap;
use std::fmt;

const MIB: u64 = 1 << 20;
/// Arm's DynamIQ clusters can be built with an L3 of 256 KiB; nobody has a smaller one.
const SMALLEST: u64 = MIB / 4;
/// A Xeon 6 of 128 cores has 504 MiB.
const LARGEST: u64 = 1024 * MIB;
/// AMD since Zen: 96 MiB with stacked cache, 16 cores. Twice as much and more is left for parts to come.
const LARGEST_OF_ZEN: u64 = 256 * MIB;
const MOST_CORES_OF_ZEN: usize = 32;

/// Something that a machine reports and chiplet did not believe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A virtual machine tells of L3s most of which have one core.
    OneCoreL3s {
        /// How many L3s it tells of.
        l3s: usize,
    },
    /// A virtual machine tells of an L3 that no processor has.
    ImpossibleL3 {
        /// Its size.
        bytes: u64,
        /// Cores under it.
        cores: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneCoreL3s { l3s } => write!(
                f,
                "this virtual machine tells of {l3s} L3s, and most have one core. Hypervisors make that up, so no L3 \
                 is believed."
            )?,
            Self::ImpossibleL3 { bytes, cores } => write!(
                f,
                "this virtual machine tells of an L3 of {} KiB under {cores} core{}, which no processor has. So no L3 \
                 is believed.",
                bytes >> 10,
                if *cores == 1 { "" } else { "s" }
            )?,
        }
        f.write_str(
            " If the L3s are real, ask for --level l3 (LevelChoice::L3). If you know the domains, give them with \
             --domains (Topology::with_domains). chiplet topology --probe measures which cores are near each other",
        )
    }
}

/// Why the L3s of a virtual machine are not to be believed, if so.
pub(crate) fn doubt(machine: &Machine) -> Option<Warning> {
    let mut cores_in = BTreeMap::<u32, usize>::new();
    for l3 in machine.cores.iter().filter_map(|core| core.l3) {
        *cores_in.entry(l3.key).or_default() += 1;
    }
    let shared = cores_in.values().filter(|&&cores| cores > 1).count();
    if cores_in.len() > 1 && shared * 2 < cores_in.len() {
        return Some(Warning::OneCoreL3s {
            l3s: cores_in.len(),
        });
    }
    let zen = machine.processor.amd && machine.processor.family >= 0x17;
    machine.cores.iter().find_map(|core| {
        let l3 = core.l3?;
        let (bytes, cores) = (l3.bytes, cores_in[&l3.key]);
        let least = core.l2.map_or(SMALLEST, |l2| l2.bytes.max(SMALLEST));
        let impossible = bytes > 0 && !(least..=LARGEST).contains(&bytes)
            || zen && (bytes > LARGEST_OF_ZEN || cores > MOST_CORES_OF_ZEN);
        impossible.then_some(Warning::ImpossibleL3 { bytes, cores })
    })
}
