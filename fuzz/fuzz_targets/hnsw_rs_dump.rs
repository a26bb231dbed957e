#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chiplet_fuzz::index::hnsw_rs_dump(data));
