//! The seeds of the fuzz targets, among them every input that ever went wrong, through the same checks.
#![cfg(feature = "hwloc")]

#[path = "../../../crates/topology/tests/common/checks.rs"]
#[allow(dead_code, reason = "the checks of topology's tests are more")]
mod checks;
#[path = "common/inputs.rs"]
mod inputs;

#[path = "../../../fuzz/run_seeds.rs"]
mod run_seeds;

use run_seeds::run;

#[test]
fn hwloc_xml() {
    run("hwloc_xml", inputs::hwloc_xml);
}

#[test]
fn hwloc_synthetic() {
    run("hwloc_synthetic", inputs::hwloc_synthetic);
}
