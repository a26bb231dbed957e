//! Files with anything in them: errors or nothing, and never a panic.

#[path = "../../../../fuzz/run_seeds.rs"]
mod run_seeds;

use std::fs;

use crate::common::{self, group};
use crate::inputs::{self, FILES, GROUP, SOUND, machine, read_all};
use chiplet_advise::{GroupPath, History, Host, Journal, Snapshot};
use proptest::prelude::*;

fn contents() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "[a-zN0-9_]{1,12} [0-9]{1,24}",
        "(anon|file|file_mapped)( N[0-9]{1,11}=[0-9]{1,22}){0,3}",
        "cpu[0-9]{0,6}( [0-9]{1,21}){0,12}",
        "[0-9]{0,4}:[a-z,=]{0,9}:[/.a-z]{0,20}",
        "[0-9,:/-]{0,30}",
        "-?[0-9]{1,22}",
        "(Unavailable|Error|max|max [0-9]{1,5}|[0-9]{1,22} [0-9]{1,22})",
        "(flags|vendor_id)[\t ]*: [A-Za-z ]{0,20}",
    ];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n").into_bytes()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// One or several files hold anything.
    #[test]
    fn no_file_makes_a_reader_panic(
        damage in prop::collection::vec((prop::sample::select(&FILES[..]), contents()), 1..4),
    ) {
        let saved = machine("GenuineIntel", 1);
        let host = Host::open(saved.root()).unwrap();
        let before = Snapshot::take(&host, &host.groups()).unwrap();
        read_all(&saved, &before);
        for (name, bytes) in damage {
            saved.write_bytes(name, &bytes);
        }
        read_all(&saved, &before);
    }

    /// Also a journal that was a sound one.
    #[test]
    fn no_journal_makes_a_reader_panic(bytes in contents(), cut in 0_usize..400, put in 0_usize..400) {
        let folder = common::folder();
        let path = folder.path().join("journal");
        fs::write(&path, SOUND).unwrap();
        prop_assert_eq!(History::read(&path).unwrap().records().count(), 1);
        let mut damaged = SOUND.as_bytes()[..cut.min(SOUND.len())].to_vec();
        let at = put.min(damaged.len());
        damaged.splice(at..at, bytes);
        fs::write(&path, &damaged).unwrap();
        let read = History::read(&path);
        prop_assert_eq!(read.is_ok(), Journal::open(&path).is_ok());
    }

    #[test]
    fn no_name_leads_out(name in "[a/.\\PC]{0,20}") {
        if let Ok(group) = name.parse::<GroupPath>() {
            let text = group.to_string();
            prop_assert!(text.starts_with('/') && !text.split('/').any(|part| part == ".."));
            prop_assert_eq!(text.parse::<GroupPath>().unwrap(), group);
        }
    }
}

#[test]
fn links_and_pipes_are_not_followed_or_waited_for() {
    let saved = machine("GenuineIntel", 1);
    let folder = saved.path("sys/fs/cgroup/a");
    std::os::unix::fs::symlink("..", folder.join("circle")).unwrap();
    let pipe = folder.join("cpu.stat");
    fs::remove_file(&pipe).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    let host = Host::open(saved.root()).unwrap();
    assert_eq!(host.groups(), [GroupPath::root(), group(GROUP)]);
    assert_eq!(host.look(&group(GROUP)).unwrap().cpu, None);
    assert!(host.look(&group("/a/circle")).is_err());
}

#[test]
fn seeds_of_the_fuzz_target_are_read() {
    run_seeds::run("advise", inputs::advise);
}
