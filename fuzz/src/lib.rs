//! What the fuzz targets run: the same checks as the crates' own tests over the seeds.

#[path = "../../apps/advise/tests/common/inputs.rs"]
pub mod advise;
#[path = "../../crates/topology/tests/common/checks.rs"]
mod checks;
#[path = "../../crates/topology/tests/common/mod.rs"]
mod common;
#[path = "../../lab/hwloc/tests/common/inputs.rs"]
pub mod hwloc;
#[path = "../../crates/index/tests/common/mapped.rs"]
mod mapped;
#[path = "../../crates/index/tests/common/inputs.rs"]
pub mod index;
#[path = "../../crates/topology/tests/common/inputs.rs"]
pub mod topology;
#[path = "../../lab/workload/tests/common/inputs.rs"]
pub mod workload;

/// Makes a panic inside the hwloc binding not count as a finding: `chiplet-topology` catches it and
/// returns an error, but libFuzzer's hook would end the process before. Any other panic still does.
pub fn let_the_binding_panic() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let inside = |file: &str| file.contains("/hwlocality-");
        if !info.location().is_some_and(|at| inside(at.file())) {
            hook(info);
        }
    }));
}
