//! A machine as its files tell it, below `/` or below the root of a saved tree.
//!
//! | file | reads |
//! |---|---|
//! | `machine.rs` | what a machine is, opened |
//! | `nodes.rs` | NUMA nodes with cpus and memory; whose L3 is whose; what keeps cpus busy (`/proc/stat`) |
//! | `groups.rs` | control groups of version 2: cpu time, quota, cpuset, memory by node, processes |
//! | `resctrl.rs` | bytes to memory and bytes in L3, by monitoring group |
//! | `look.rs` | a group at a moment; two of them make a [`Window`](crate::Window) |
//!
//! Every read is bounded and opens only regular files (`chiplet_topology`'s reader). No link is followed from group to
//! group. A file that is not there is a thing not known. A cpu list that holds what no kernel writes is an error; any
//! other damaged file is a thing not known.

mod error;
mod groups;
mod look;
mod machine;
mod nodes;
mod resctrl;

pub use error::HostError;
pub(crate) use groups::{exists, file, is_version_2};
pub use look::{CpuUse, Look};
pub use machine::{Host, Vendor};
pub use nodes::Node;
pub(crate) use nodes::{Busy, within};
