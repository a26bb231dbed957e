//! What a run of `chiplet bench` found, as text and as a page; its values are [`chiplet_bench::report`].

pub mod chart;
pub mod counter;
pub mod doubts;
pub mod html;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
pub mod text;

pub use chiplet_bench::report::*;
