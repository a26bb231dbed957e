//! Who may read the data folder.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::ALONE;
use crate::common::{self, Running};
use chiplet_server::server::Server;
use rustix::fs::Mode;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// What is in a folder, with its modes.
fn modes(folder: &Path) -> BTreeMap<String, u32> {
    let entries = std::fs::read_dir(folder).unwrap();
    let named = entries.map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, mode(&entry.path()))
    });
    named.collect()
}

#[test]
fn what_the_server_makes_is_its_users_and_what_is_there_keeps_its_mode() {
    let _alone = ALONE.lock();
    // New files would be everybody's.
    rustix::process::umask(Mode::empty());
    let around = tempfile::tempdir().unwrap();
    let folder = around.path().join("new").join("data");
    let running = Running::with(|settings| settings.data_dir = folder.clone());
    running.fill("line", 4, 10);
    let made = modes(&folder);
    let of = |name: &str| {
        (
            name.to_owned(),
            if name.contains("indexes") {
                0o700
            } else {
                0o600
            },
        )
    };
    let expected = ["chiplet-indexes", "line.redb", "lock"].map(of);
    assert_eq!(made, BTreeMap::from(expected));
    assert_eq!(mode(&folder), 0o700);
    drop(running);

    let chosen = |path: &Path, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    };
    chosen(&folder, 0o750);
    chosen(&folder.join("line.redb"), 0o640);
    let mut settings = common::settings(&around);
    settings.data_dir = folder.clone();
    let again = Server::start(&settings).unwrap();
    again.wait_until_ready();
    again.shutdown();
    assert_eq!(mode(&folder), 0o750);
    assert_eq!(mode(&folder.join("line.redb")), 0o640);
}
