//! The machine as an immutable value: cache domains (CCDs), cores, NUMA nodes and who is near whom.
//!
//! A [`Topology`] comes from the running machine ([`Topology::detect`]), a saved `/sys` tree
//! ([`Topology::from_sysfs`]), or a [`TopologyBuilder`]; the crate `chiplet-hwloc` reads hwloc's XML files and
//! synthetic descriptions. Everything else in the library takes it as an argument and nothing here is global, so a
//! 12-CCD server can be passed in on a laptop.
//!
//! What counts as usable: cpus that are online, in the cgroup's cpuset and in the affinity mask of
//! the thread that asked. The number of workers is also capped by the cgroup's CPU quota
//! ([`Topology::worker_limit`]).
//!
//! What is believed: everything, but for L3s of virtual machines that no processor has ([`Warning`]). Where a machine
//! tells its domains wrong, the crate `chiplet-probe` measures and [`Topology::with_domains`] sets them.
//!
//! ```
//! use chiplet_topology::{Distance, DomainId, Topology};
//!
//! // Two sockets of six CCDs, eight cores with two logical processors each.
//! let mut builder = Topology::builder().smt(2);
//! for _ in 0..2 {
//!     builder = builder.package();
//!     for _ in 0..6 {
//!         builder = builder.domain(32 << 20, 8);
//!     }
//! }
//! let machine = builder.build()?;
//! assert_eq!(machine.domains().len(), 12);
//! assert_eq!(machine.worker_limit(), 96);
//! assert_eq!(machine.distance(DomainId(0), DomainId(5)), Distance::SameNode);
//! assert_eq!(machine.distance(DomainId(0), DomainId(6)), Distance::OtherPackage);
//! # Ok::<(), chiplet_topology::TopologyError>(())
//! ```
//!
//! # Features
//!
//! * `hwloc`: read the machine through libhwloc 2.x. Without it the crate is pure Rust and reads Linux `/sys` itself.

mod assemble;
mod builder;
mod cpuset;
mod decide;
mod describe;
mod detect;
mod distance;
mod error;
mod forks;
mod given;
mod guest;
#[cfg(feature = "hwloc")]
mod hwloc;
mod level;
mod limits;
mod machine;
mod model;
mod numa;
mod options;
pub mod pin;
mod sysfs;
mod usable;

pub use builder::TopologyBuilder;
#[doc(hidden)]
pub use cpuset::parse_list;
#[cfg(feature = "hwloc")]
#[doc(hidden)]
pub use cpuset::parse_mask;
pub use cpuset::{CpuSetError, cpu_ranges};
pub use distance::Distance;
pub use error::{DomainsError, TopologyError};
pub use forks::Process;
pub use given::DomainList;
pub use guest::Warning;
#[cfg(feature = "hwloc")]
#[doc(hidden)]
pub use hwloc::from_hwloc;
pub use level::{Level, LevelChoice};
pub use limits::{Quota, Restriction};
pub use model::{Core, Domain, DomainId, Source, Topology};
#[doc(hidden)]
pub use numa::{NodeMemory, NumaMemory};
pub use numa::{numa_balancing, room_on};
pub use options::ReadOptions;
#[doc(hidden)]
pub use sysfs::Tree;
#[doc(hidden)]
pub use usable::cpuset_groups;
pub use usable::{memory_limit, usable_now};
