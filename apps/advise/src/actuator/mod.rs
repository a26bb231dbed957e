//! Changing control groups, and taking changes back.
//!
//! | file | holds |
//! |---|---|
//! | `error.rs` | what is refused, and why |
//! | `files.rs` | one group's files, read and written below a root |
//! | `apply.rs` | a change: checked, noted, made, noted |
//! | `rollback.rs` | changes taken back |
//!
//! What is written is `cpuset.cpus`, and `cpuset.mems` only for a change that asks for it: on cgroup v2 writing it
//! migrates the group's pages.
//!
//! Where systemd or the kubelet manages the group, it may write the files again (at `daemon-reload`, or every few
//! seconds by the kubelet's cpu manager). For such groups their own settings last; see [`Remedy`](crate::Remedy).

mod apply;
mod error;
mod files;
#[cfg(all(test, target_os = "linux"))]
pub(crate) mod killed;
mod rollback;

pub use apply::{Actuator, Applied, Change};
pub use error::ApplyError;
pub use rollback::{Restoration, Restored, Which};
