//! Compiles the API's description for gRPC reflection, from the protocol files that the `qdrant-client` crate carries.

use std::path::PathBuf;

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.toml");
    let metadata = cargo_metadata::MetadataCommand::new()
        .other_options(["--offline".to_owned(), "--locked".to_owned()])
        .exec()?;
    let client = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == "qdrant-client")
        .ok_or("cargo knows no package qdrant-client")?;
    let folder = client
        .manifest_path
        .parent()
        .ok_or("a manifest is in a folder")?
        .join("proto");
    let descriptors = protox::compile([folder.join("qdrant.proto")], [folder])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("qdrant.binpb");
    std::fs::write(out, descriptors.encode_to_vec())?;
    Ok(())
}
