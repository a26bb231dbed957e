//! Which cpus the running process may use at this moment.
//!
//! It changes while a service runs: a cpu is taken offline, or an orchestrator narrows the cgroup's cpuset. The kernel
//! moves threads off a cpu that they may use no longer and, in doing so, resets their masks, so whoever has pinned
//! threads wants to know. Nothing notifies a process of either change; it has to look.

use crate::sysfs;

/// The cpus that are online and in this process's cpuset, ascending. `None` if the system does not tell.
///
/// A look reads a handful of small files below `/sys` and `/proc`. The affinity mask does not count: it belongs to a
/// thread, and this is about the process.
///
/// ```
/// if let Some(cpus) = chiplet_topology::usable_now() {
///     println!("may run on cpus {}", chiplet_topology::cpu_ranges(&cpus));
/// }
/// ```
pub fn usable_now() -> Option<Vec<u32>> {
    let cpus = sysfs::usable_by_this_process()?;
    Some(cpus.into_iter().collect())
}
