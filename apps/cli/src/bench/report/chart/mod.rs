//! The charts of a run, drawn with `chiplet_bench::charts`.

pub mod bars;
pub mod load_curve;
pub mod parts;
pub mod placement;
pub mod ratios;
pub mod scaling;
pub mod within_round;

pub use chiplet_bench::charts::{
    AXIS_HEIGHT, Chart, Layout, Look, Px, Scale, axis_below, figure, label_width, legend, lines,
    section, short, tiles,
};
