//! The seeds of the fuzz targets, among them every input that ever went wrong, through the same checks.

#[path = "../../../../fuzz/run_seeds.rs"]
mod run_seeds;

use crate::inputs;
use run_seeds::run;

#[test]
fn cpu_sets() {
    run("cpu_sets", inputs::cpu_sets);
}

#[test]
fn sysfs() {
    run("sysfs", inputs::sysfs);
}

#[test]
fn cgroup() {
    run("cgroup", inputs::cgroup);
}
