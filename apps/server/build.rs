//! Compiles the API's description for gRPC reflection, from the protocol files that the `qdrant-client` crate carries.
//!
//! Only cargo knows where that crate is, and it answers for a whole workspace: it then wants the packages of every
//! crate and test in it, of which a build of this crate downloads a part. So it is asked about a package that depends
//! on `qdrant-client` alone, for this build's target, with this workspace's lock file. A build of this crate has
//! downloaded all of that, so the network is not needed.

use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::MetadataCommand;
use prost::Message;

const LOCK: &str = "../../Cargo.lock";
const CLIENT: &str = "qdrant-client";

fn main() -> anyhow::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LOCK}");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let protocol = client_folder(&out)?.join("proto");
    let descriptors = protox::compile([protocol.join("qdrant.proto")], [protocol])?;
    std::fs::write(out.join("qdrant.binpb"), descriptors.encode_to_vec())?;
    Ok(())
}

/// Where cargo has unpacked `qdrant-client`, in the version of the lock file.
fn client_folder(out: &Path) -> anyhow::Result<PathBuf> {
    let asking = out.join("asking");
    std::fs::create_dir_all(&asking)?;
    let manifest = asking.join("Cargo.toml");
    // No features: any that this crate does not ask for would need packages that its build does not have.
    let text = format!(
        "workspace = {{}}\n\
         package = {{ name = \"asking\", version = \"0.0.0\", edition = \"2024\" }}\n\
         lib = {{ path = \"lib.rs\" }}\n\
         dependencies = {{ {CLIENT} = {{ version = \"*\", default-features = false }} }}\n"
    );
    std::fs::write(&manifest, text)?;
    // Cargo takes out of the copy what this package does not need; the versions of the rest stay.
    let lock = std::fs::read(LOCK).context(LOCK)?;
    std::fs::write(asking.join("Cargo.lock"), lock)?;
    let target = std::env::var("TARGET")?;
    // Cargo runs in this crate's folder, so that it finds the same configuration as the build.
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .other_options(["--offline", "--filter-platform", &target].map(str::to_owned))
        .exec()
        .with_context(|| format!("cargo does not say where {CLIENT} is"))?;
    let client = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == CLIENT)
        .with_context(|| format!("cargo knows no package {CLIENT}"))?;
    let folder = client
        .manifest_path
        .parent()
        .context("a manifest is in a folder")?;
    Ok(folder.into())
}
