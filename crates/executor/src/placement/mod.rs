//! Where tables live and where workers run: the thread that moves both, and what it knows of them.
//!
//! The engine goes by the homes that are stored with each table and by who stands by; both are changed here.

pub(crate) mod balancer;
pub(crate) mod copier;
pub(crate) mod cores;
mod demand;
pub(crate) mod event;
pub(crate) mod nodes;
pub(crate) mod workers;
