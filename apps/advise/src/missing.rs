//! Why a figure is missing, and what would bring it.

use serde::{Deserialize, Serialize};

/// Why a figure is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// There is no resctrl file system.
    #[error(
        "resctrl is not there: mount -t resctrl resctrl /sys/fs/resctrl (a real machine with Intel RDT or AMD QoS)"
    )]
    NoResctrl,
    /// The group's tasks share a monitoring group with others.
    #[error(
        "its tasks are in no monitoring group of their own: mkdir /sys/fs/resctrl/mon_groups/NAME and write its threads' ids to NAME/tasks"
    )]
    NotMonitored,
    /// No process runs in the group.
    #[error("no process runs in it")]
    NoTasks,
    /// The processor or the kernel does not count this.
    #[error("this processor or kernel does not count it")]
    NotCounted,
    /// A counter says `Unavailable` or `Error`, or its file is damaged.
    #[error(
        "the counter says that it has no value now; measure again, with fewer monitoring groups"
    )]
    Unavailable,
    /// AMD's counter of local bytes.
    #[error(
        "AMD's mbm_local_bytes is not to be believed; count fills from near and far memory (ls_any_fills_from_sys)"
    )]
    LocalNotBelieved,
    /// Nobody counted cycles.
    #[error(
        "stall cycles were not counted: that takes a performance monitoring unit, and the right to use it (kernel.perf_event_paranoid)"
    )]
    NoCycles,
    /// A virtual machine has no such counter.
    #[error("a virtual machine has no such counter; measure on the host")]
    VirtualMachine,
    /// No `memory.numa_stat`.
    #[error(
        "there is no memory.numa_stat: enable the memory controller above (echo +memory > cgroup.subtree_control)"
    )]
    NoMemoryStat,
    /// It has no memory.
    #[error("it has no memory that counts")]
    NoPages,
    /// The cpus of the group are not known.
    #[error("it is not known which cpus it runs on")]
    NoCpus,
    /// The window has no length.
    #[error("the window has no length")]
    NoTime,
    /// Nothing was counted in the window.
    #[error("nothing was counted in the window: it was idle; measure under load")]
    Idle,
    /// A counter is lower at the end than at the beginning.
    #[error("a counter was reset in the window; measure again")]
    WentBack,
    /// The figures cannot be true together.
    #[error("the counters contradict each other")]
    Contradicts,
    /// Nobody measured the latencies of near and far memory.
    #[error("the latencies of near and far memory are not measured: measure both under load")]
    NoLatencies,
}
