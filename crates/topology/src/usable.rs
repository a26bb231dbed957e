//! Which cpus the running process may use at this moment, and how much memory.
//!
//! It changes while a service runs: a cpu is taken offline, or an orchestrator narrows the cgroup's cpuset. The kernel
//! moves threads off a cpu that they may use no longer and, in doing so, resets their masks, so whoever has pinned
//! threads wants to know. Nothing notifies a process of either change; it has to look.

use crate::sysfs;
use std::path::{Path, PathBuf};

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

/// The version of the control groups that have cpusets, and the folders of the process's own group and of those above
/// it.
#[doc(hidden)]
pub fn cpuset_groups(root: impl AsRef<Path>) -> Option<(u32, Vec<PathBuf>)> {
    sysfs::cpuset_groups(root.as_ref())
}

/// The bytes of memory that the process may take by its control group and those above it; `None` if none of them sets a
/// limit. systemd sets one with `MemoryMax=`, container runtimes with `--memory`. `root` is `/`, or a folder that holds
/// another machine's `sys` and `proc`.
///
/// ```
/// match chiplet_topology::memory_limit("/") {
///     Some(bytes) => println!("at most {} MiB", bytes >> 20),
///     None => println!("as much as the machine has"),
/// }
/// ```
pub fn memory_limit(root: impl AsRef<Path>) -> Option<u64> {
    sysfs::memory_limit(root.as_ref())
}
