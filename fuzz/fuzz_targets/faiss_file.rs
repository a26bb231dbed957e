#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chiplet_fuzz::index::faiss_file(data));
