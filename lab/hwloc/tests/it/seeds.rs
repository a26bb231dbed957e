//! The seeds of the fuzz targets, among them every input that ever went wrong, through the same checks.

#[path = "../../../../fuzz/run_seeds.rs"]
mod run_seeds;

use crate::inputs;
use run_seeds::run;

#[test]
fn hwloc_xml() {
    run("hwloc_xml", inputs::hwloc_xml);
}

#[test]
fn hwloc_synthetic() {
    run("hwloc_synthetic", inputs::hwloc_synthetic);
}
