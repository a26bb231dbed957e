//! The charts of a run, drawn with `chiplet_charts`.

pub mod bars;
pub mod load_curve;
pub mod parts;
pub mod placement;
pub mod ratios;
pub mod scaling;
pub mod within_round;

pub use chiplet_bench::charts::*;
