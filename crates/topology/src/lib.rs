//! The machine as an immutable value: cache domains (CCDs), cores, NUMA nodes and who is near whom.
mod model;
pub use model::{Core, Domain, DomainId, Level, Topology};
