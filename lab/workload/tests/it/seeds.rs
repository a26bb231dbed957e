//! The seeds of the fuzz targets, among them every input that ever went wrong, through the same checks.

#[path = "../../../../fuzz/run_seeds.rs"]
mod run_seeds;

use crate::inputs;
use run_seeds::run;

#[test]
fn vectors() {
    run("vectors", inputs::vectors);
}

#[cfg(feature = "hdf5")]
#[test]
fn hdf5() {
    run("hdf5", inputs::hdf5);
}

#[test]
fn truth_cache() {
    run("truth_cache", inputs::truth_cache);
}
