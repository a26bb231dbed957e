//! One input for each reader: what is read of it is checked. Run by the fuzz targets in `fuzz/` and, over the committed
//! seeds, by `seeds.rs`.

use super::checks;
use chiplet_hwloc::{HwlocError, from_synthetic, from_xml};
use chiplet_topology::{LevelChoice, Topology};
use std::fs;

/// A machine that was read keeps its promises; a refusal says why, without quoting a whole file.
fn check(read: Result<Topology, HwlocError>) {
    match read {
        Ok(machine) => checks::machine(&machine),
        Err(error) => {
            let length = error.to_string().len();
            assert!((1..8192).contains(&length), "a message of {length} bytes");
        }
    }
}

/// The bytes are an hwloc XML file.
pub fn hwloc_xml(data: &[u8]) {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder can be made");
    }
    FOLDER.with(|folder| {
        let path = folder.path().join("machine.xml");
        fs::write(&path, data).expect("files can be written");
        for choice in [LevelChoice::Auto, LevelChoice::L3, LevelChoice::L2] {
            check(from_xml(&path, choice));
        }
    });
}

/// The bytes are an hwloc synthetic description.
pub fn hwloc_synthetic(data: &[u8]) {
    let Ok(description) = str::from_utf8(data) else {
        return;
    };
    // The refusal quotes the description.
    if description.len() < 4096 {
        check(from_synthetic(description, LevelChoice::Auto));
    }
}
