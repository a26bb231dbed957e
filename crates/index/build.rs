//! Builds the C++ functions that Faiss' C interface lacks, against the headers of the bundled Faiss.

fn main() {
    println!("cargo:rerun-if-changed=src/ivf/faiss.cpp");
    #[cfg(feature = "faiss")]
    build_faiss_calls();
}

#[cfg(feature = "faiss")]
fn build_faiss_calls() {
    // What faiss-sys' build script tells of where it has installed Faiss.
    let root = std::env::var("DEP_FAISS_C_ROOT")
        .expect("faiss-sys says where Faiss is when it builds it (feature `static`)");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .include(std::path::Path::new(&root).join("include"))
        .file("src/ivf/faiss.cpp")
        // Faiss' own headers leave parameters unused.
        .flag_if_supported("-Wno-unused-parameter")
        .compile("chiplet_ivf_faiss");
}
