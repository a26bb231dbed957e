//! What can be done where the system does not let masks be set: a thread is tied to one cpu, if at all.

use super::{PinError, refused};
use crate::cpuset::CpuSet;

pub(super) type Number = std::convert::Infallible;

pub(super) fn this_thread() -> Option<Number> {
    None
}

pub(super) fn main_thread() -> Option<Number> {
    None
}

pub(super) fn current_cpu() -> Option<u32> {
    None
}

pub(super) fn pin(_: Option<Number>, cpus: &[u32]) -> Result<Vec<u32>, PinError> {
    if core_affinity::set_for_current(core_affinity::CoreId {
        id: cpus[0] as usize,
    }) {
        Ok(vec![cpus[0]])
    } else {
        Err(refused(cpus, "this system does not pin threads"))
    }
}

#[cfg(feature = "hwloc")]
pub(super) fn tells_masks() -> bool {
    true
}

pub(super) fn affinity(_: Option<Number>) -> Option<CpuSet> {
    Some(
        core_affinity::get_core_ids()?
            .into_iter()
            .map(|core| core.id as u32)
            .collect(),
    )
}
