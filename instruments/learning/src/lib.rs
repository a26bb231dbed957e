//! What models learn of the gain by binding a service to a NUMA node, on cases that the simulator makes up.
//!
//! MAO (Liu, Jin, Shu, Li, He: "Machine learning approach for NUMA optimization in warehouse scale computers", section
//! IV.C) trained on four features of 2,000 containers and tested on a random 15 % of them. Containers of one service
//! were on both sides of that split. This asks what becomes of such figures when whole services are kept apart.
//!
//! **Everything here is modelled**: both features and labels come from `chiplet_sim`. No weights are written.
//!
//! | file | is |
//! |---|---|
//! | `family`, `case`, `sample` | services, their instances, and what is measured of each |

pub mod case;
pub mod draw;
pub mod family;
pub mod sample;
