//! What is searched and how often ([`chiplet_recipes`]), and what its queries read.

mod prepare;

pub use chiplet_recipes::*;
pub(crate) use prepare::Plan;
pub use prepare::{Prepared, Sampling};
