//! What models learn of the gain by binding a service to a NUMA node, on cases that the simulator makes up.
//!
//! MAO (Liu, Jin, Shu, Li, He: "Machine learning approach for NUMA optimization in warehouse scale computers", section
//! IV.C) trained on four features of 2,000 containers and tested on a random 15 % of them. Containers of one service
//! were on both sides of that split. This asks what becomes of such figures when whole services are kept apart.
//!
//! **Everything here is modelled**: features and gains are `chiplet_sim`'s. No weights are written.
//!
//! | file | is |
//! |---|---|
//! | `family` | kinds of services: machine, tables, computing |
//! | `case` | an instance of one, run on both nodes and bound to one |
//! | `sample` | what a monitor sees of it, and what binding saved |
//! | `split` | what is learned from and what is tested on: at random, or by family |
//! | `model` | the law, linear regression, forest, boosted trees |
//! | `score`, `importance` | errors, and which features they hang on |
//! | `study`, `report` | all of it together |

pub mod case;
mod draw;
pub mod family;
pub mod importance;
pub mod model;
pub mod report;
pub mod sample;
pub mod score;
pub mod split;
pub mod study;
