//! The parts of `chiplet bench`.

pub mod counters;
pub mod report;
