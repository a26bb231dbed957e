//! Tests of what hwloc reads, in one program.
#![cfg(feature = "hwloc")]

#[path = "../../../../crates/topology/tests/common/checks.rs"]
#[allow(dead_code, reason = "the checks of topology's tests are more")]
mod checks;
mod files;
#[path = "../common/inputs.rs"]
mod inputs;
mod seeds;
