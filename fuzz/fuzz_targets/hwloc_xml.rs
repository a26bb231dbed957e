#![no_main]

libfuzzer_sys::fuzz_target!(
    init: chiplet_fuzz::let_the_binding_panic(),
    |data: &[u8]| chiplet_fuzz::hwloc::hwloc_xml(data)
);
