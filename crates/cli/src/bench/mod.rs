//! `chiplet bench`: what a run found, and how it is shown.

pub mod report;
