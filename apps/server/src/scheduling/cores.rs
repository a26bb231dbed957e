//! Which cores search, and which are left to the network's threads.

use chiplet::Topology;
use chiplet::topology::TopologyError;
use chiplet::topology::pin::pin_current_thread;

use crate::config::SchedulerSettings;

/// Cores for each one that is left to the network, unless told: receiving and answering a request costs about an
/// eighth of a search of a few hundred microseconds (the server's benchmark prints both).
const CORES_PER_RESERVED: usize = 8;

/// Below this no core can be spared.
const FEWEST_TO_RESERVE: usize = 4;

pub(crate) fn detect(settings: &SchedulerSettings) -> Result<Topology, TopologyError> {
    Topology::detect(settings.level())
}

/// Cores to leave free.
pub(crate) fn reserve(settings: &SchedulerSettings, cores: usize) -> usize {
    settings.reserve_cores.unwrap_or({
        if cores < FEWEST_TO_RESERVE {
            0
        } else {
            cores.div_ceil(CORES_PER_RESERVED)
        }
    })
}

/// Ties the calling thread to `cpus`, if there are any. A refusal is logged and otherwise without consequence.
pub(crate) fn settle(cpus: &[u32]) {
    if cpus.is_empty() {
        return;
    }
    if let Err(error) = pin_current_thread(cpus) {
        tracing::warn!(%error, "a thread floats that should keep off the searching cores");
    }
}
