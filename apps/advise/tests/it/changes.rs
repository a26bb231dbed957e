//! Changes of groups in a folder that stands for control groups: made, refused, taken back, asked for later.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{Saved, group};
use chiplet_advise::{
    Actuator, ApplyError, Change, CpusetFile, Features, History, Host, Journal, JournalError,
    Missing, Outcome, Reading, Restored, State, Which,
};

const NOW: SystemTime = UNIX_EPOCH;

/// A machine of two nodes with three groups; each file of a cpuset as given.
fn machine() -> Saved {
    let saved = Saved::new("GenuineIntel", 1);
    for name in ["/a", "/b", "/c"] {
        saved.group_files(name, &[("cpuset.cpus", ""), ("cpuset.mems", "")]);
    }
    saved
}

fn bind(saved: &Saved, name: &str, node: usize) -> Change {
    let host = Host::open(saved.root()).unwrap();
    let mut change = Change::bind(group(name), &host.nodes()[node]);
    change.service = Some("search".to_owned());
    change
}

fn journal(saved: &Saved) -> Journal {
    Journal::open(saved.path("journal")).unwrap()
}

fn actuator(saved: &Saved) -> Actuator {
    Actuator::new(saved.root()).unwrap().dry(false)
}

#[test]
fn a_change_is_noted_made_and_taken_back() {
    let saved = machine();
    saved.group_files("/a", &[("cpuset.cpus", "0-5")]);
    let (actuator, mut journal) = (actuator(&saved), journal(&saved));
    let mut change = bind(&saved, "/a", 1);
    change.predicted = Some(0.12);
    change.features = Some(Features {
        mbw: Reading::Value(1e9),
        msr: Reading::Missing(Missing::NoCycles),
        npmr: Reading::Value(1.0),
        rmbr: Reading::Value(0.5),
        remote_by: None,
        not_counted: None,
    });
    let at = UNIX_EPOCH + Duration::from_millis(1_234);
    let applied = actuator.apply(&mut journal, &change, at).unwrap();
    assert_eq!(
        saved.holds("/a", "cpuset.cpus"),
        "4-5\n",
        "no wider than it was"
    );
    assert_eq!(saved.holds("/a", "cpuset.mems"), "\n");
    let number = applied.number.unwrap();
    journal.measured(number, 0.08, at).unwrap();
    // Another change, and back to what was before the first.
    actuator
        .apply(&mut journal, &Change::unbind(group("/a"), 1), at)
        .unwrap();
    assert_eq!(saved.holds("/a", "cpuset.cpus"), "\n");
    let back = actuator.rollback(&mut journal, &Which::All, at).unwrap();
    assert_eq!(back.len(), 1);
    assert!(matches!(&back[0].result, Ok(Restored::Files(files)) if *files == [CpusetFile::Cpus]));
    assert_eq!(saved.holds("/a", "cpuset.cpus"), "0-5\n");
    drop(journal);
    let history = History::read(saved.path("journal")).unwrap();
    let record = history.record(number).unwrap();
    assert_eq!((record.unix_ms, record.measured), (1_234, Some(0.08)));
    assert_eq!(record.planned.predicted, Some(0.12));
    assert_eq!(record.planned.features, change.features);
    assert_eq!(record.planned.writes[0].was, "0-5\n");
    assert_eq!(record.state, State::RolledBack(Outcome::Restored));
}

/// A kernel refuses the empty set to a group in which processes run, and the rollback that wrote all cpus instead may
/// have been killed before it noted that.
#[test]
fn all_cpus_stand_for_the_empty_set() {
    let saved = machine();
    saved.write("sys/devices/system/cpu/possible", "0-7");
    let (actuator, mut journal) = (actuator(&saved), journal(&saved));
    for holds in ["0-7", "0-3,4-7"] {
        let change = bind(&saved, "/a", 1);
        actuator.apply(&mut journal, &change, NOW).unwrap();
        saved.group_files("/a", &[("cpuset.cpus", holds)]);
        let back = actuator.rollback(&mut journal, &Which::All, NOW).unwrap();
        assert!(matches!(&back[0].result, Ok(Restored::Files(files)) if files.is_empty()));
        assert_eq!(journal.history().open().count(), 0);
        saved.group_files("/a", &[("cpuset.cpus", "")]);
    }
    // Less than all was set by somebody.
    actuator
        .apply(&mut journal, &bind(&saved, "/a", 1), NOW)
        .unwrap();
    saved.group_files("/a", &[("cpuset.cpus", "0-6")]);
    let back = actuator.rollback(&mut journal, &Which::All, NOW).unwrap();
    assert!(matches!(&back[0].result, Ok(Restored::SetByOthers { .. })));
}

#[test]
fn a_dry_one_writes_nothing_anywhere() {
    let saved = machine();
    actuator(&saved)
        .apply(&mut journal(&saved), &bind(&saved, "/b", 0), NOW)
        .unwrap();
    let before = fs::read(saved.path("journal")).unwrap();
    let (dry, mut journal) = (Actuator::new(saved.root()).unwrap(), journal(&saved));
    let applied = dry
        .apply(&mut journal, &bind(&saved, "/a", 1), NOW)
        .unwrap();
    assert_eq!(
        (applied.number, applied.writes[0].text.as_str()),
        (None, "4-7\n")
    );
    let back = dry.rollback(&mut journal, &Which::All, NOW).unwrap();
    assert!(matches!(&back[0].result, Ok(Restored::Files(files)) if *files == [CpusetFile::Cpus]));
    assert_eq!(saved.holds("/a", "cpuset.cpus"), "\n");
    assert_eq!(saved.holds("/b", "cpuset.cpus"), "0-3\n");
    assert_eq!(fs::read(saved.path("journal")).unwrap(), before);
}

#[test]
fn what_is_so_already_is_not_written() {
    let saved = machine();
    saved.group_files("/a", &[("cpuset.cpus", "4,5-7")]);
    let applied = actuator(&saved).apply(&mut journal(&saved), &bind(&saved, "/a", 1), NOW);
    assert!(applied.unwrap().writes.is_empty());
    assert_eq!(saved.holds("/a", "cpuset.cpus"), "4,5-7\n");
    assert!(fs::read(saved.path("journal")).unwrap().is_empty());
}

#[test]
fn what_may_not_be_changed_is_refused_before_it_is_noted() {
    let saved = machine();
    fs::create_dir_all(saved.path("sys/fs/cgroup/bare")).unwrap();
    fs::create_dir_all(saved.path("sys/fs/cgroup/strange/cpuset.cpus")).unwrap();
    std::os::unix::fs::symlink(
        saved.path("sys/fs/cgroup/a"),
        saved.path("sys/fs/cgroup/link"),
    )
    .unwrap();
    std::os::unix::fs::symlink(
        saved.path("proc/self/cgroup"),
        saved.path("sys/fs/cgroup/bare/cpuset.cpus"),
    )
    .unwrap();
    let mut journal = journal(&saved);
    let mut refused = |actuator: &Actuator, name: &str| {
        let change = bind(&saved, name, 1);
        let refused = actuator.apply(&mut journal, &change, NOW).unwrap_err();
        assert_eq!(journal.history().records().count(), 0, "{name}");
        refused
    };
    let all = actuator(&saved);
    assert!(matches!(refused(&all, "/"), ApplyError::RootGroup));
    assert!(matches!(refused(&all, "/nobody"), ApplyError::Host(_)));
    assert!(matches!(refused(&all, "/link"), ApplyError::Host(_)));
    for name in ["/bare", "/strange"] {
        assert!(
            matches!(refused(&all, name), ApplyError::NoCpuset { .. }),
            "{name}"
        );
    }
    let some = actuator(&saved).only(vec![group("/b"), group("/d/e")]);
    let error = refused(&some, "/a");
    assert!(matches!(error, ApplyError::NotOurs { .. }));
    assert_eq!(
        error.to_string(),
        "/a is not among the groups that may be changed: /b, /d/e"
    );
    let mut nowhere = bind(&saved, "/a", 1);
    nowhere.cpus.clear();
    let refused = all.apply(&mut journal, &nowhere, NOW);
    assert!(matches!(refused, Err(ApplyError::NoCpus { node: 1, .. })));
    some.apply(&mut journal, &bind(&saved, "/b", 1), NOW)
        .unwrap();
}

/// For root nothing is read-only, so a process of another user tries.
#[test]
fn a_group_of_another_user_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    const WHERE: &str = "CHIPLET_ANOTHER_USERS";
    const NOBODY: u32 = 65_534;
    if let Some(root) = std::env::var_os(WHERE) {
        let actuator = Actuator::new(&root).unwrap().dry(false);
        let mut journal = Journal::open(std::path::Path::new(&root).join("own/journal")).unwrap();
        let change = Change::bind(group("/a"), &Host::open(&root).unwrap().nodes()[1]);
        let refused = actuator.apply(&mut journal, &change, NOW).unwrap_err();
        assert!(
            matches!(refused, ApplyError::NotPermitted { .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains("Delegate=yes"), "{refused}");
        assert_eq!(journal.history().records().count(), 0);
        return;
    }
    let saved = machine();
    let allow = |name: &str, mode: u32| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(saved.path(name), mode).unwrap();
    };
    fs::create_dir(saved.path("own")).unwrap();
    allow("own", 0o777);
    allow("", 0o755);
    allow("sys/fs/cgroup/a/cpuset.cpus", 0o444);
    // The program itself may lie where others cannot go. It is copied by another process: a child of another test that
    // is started meanwhile would have this one's open file for a moment, and what is open for writing cannot be
    // started.
    let program = saved.path("program");
    let mut copy = Command::new("cp");
    copy.arg(std::env::current_exe().unwrap()).arg(&program);
    assert!(copy.status().unwrap().success());
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let outcome = command
        .args(["--exact", "changes::a_group_of_another_user_is_refused"])
        .env(WHERE, saved.root())
        .current_dir(saved.root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert!(
        outcome.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
fn groups_that_are_gone_or_new_are_told_and_skipped() {
    let saved = machine();
    let (actuator, mut journal) = (actuator(&saved), journal(&saved));
    for name in ["/a", "/b", "/c"] {
        actuator
            .apply(&mut journal, &bind(&saved, name, 0), NOW)
            .unwrap();
    }
    fs::remove_dir_all(saved.path("sys/fs/cgroup/a")).unwrap();
    fs::rename(
        saved.path("sys/fs/cgroup/b"),
        saved.path("sys/fs/cgroup/old"),
    )
    .unwrap();
    saved.group_files("/b", &[("cpuset.cpus", "0-3")]);
    let mut back = |which| actuator.rollback(&mut journal, &which, NOW).unwrap();
    let done = back(Which::All);
    let told: Vec<(String, &Restored)> = (done.iter())
        .map(|done| (done.group.to_string(), done.result.as_ref().unwrap()))
        .collect();
    let files = Restored::Files(vec![CpusetFile::Cpus]);
    let expected = [
        ("/c", &files),
        ("/b", &Restored::Replaced),
        ("/a", &Restored::Gone),
    ];
    assert_eq!(told, expected.map(|(name, what)| (name.to_owned(), what)));
    assert_eq!(saved.holds("/b", "cpuset.cpus"), "0-3\n");
    assert_eq!(saved.holds("/c", "cpuset.cpus"), "\n");
    assert!(back(Which::All).is_empty());
}

#[test]
fn a_journal_of_a_container_is_not_closed_from_the_host() {
    let saved = machine();
    let (actuator, mut journal) = (actuator(&saved), journal(&saved));
    actuator
        .apply(&mut journal, &bind(&saved, "/a", 0), NOW)
        .unwrap();
    // Where it runs now, another group is mounted, and it has no `/a`.
    let (mounted, other) = (
        saved.path("sys/fs/cgroup"),
        saved.path("sys/fs/cgroup.other"),
    );
    fs::rename(&mounted, &other).unwrap();
    saved.group_files("/", &[("cgroup.controllers", "cpuset")]);
    let back = actuator.rollback(&mut journal, &Which::All, NOW).unwrap();
    let error = back[0].result.as_ref().unwrap_err().to_string();
    assert!(error.contains("shows other groups than here"), "{error}");
    assert_eq!(journal.history().open().count(), 1);
    // A group of that name here, which is changed here, is undone all the same; the other one's change stays open.
    saved.group_files("/a", &[("cpuset.cpus", ""), ("cpuset.mems", "")]);
    actuator
        .apply(&mut journal, &bind(&saved, "/a", 1), NOW)
        .unwrap();
    let back = actuator.rollback(&mut journal, &Which::All, NOW).unwrap();
    assert!(matches!(&back[0].result, Ok(Restored::Files(files)) if files.len() == 1));
    assert_eq!(saved.holds("/a", "cpuset.cpus"), "\n");
    assert_eq!(journal.history().open().count(), 1);
    // Back where it was made.
    fs::remove_dir_all(&mounted).unwrap();
    fs::rename(&other, &mounted).unwrap();
    let back = actuator.rollback(&mut journal, &Which::All, NOW).unwrap();
    assert!(matches!(&back[0].result, Ok(Restored::Files(_))));
    assert_eq!(saved.holds("/a", "cpuset.cpus"), "\n");
    // Where that is gone, it can be closed.
    actuator
        .apply(&mut journal, &bind(&saved, "/a", 0), NOW)
        .unwrap();
    fs::rename(&mounted, &other).unwrap();
    saved.group_files("/", &[("cgroup.controllers", "cpuset")]);
    actuator
        .rollback_over(&mut journal, &Which::All, NOW)
        .unwrap();
    assert_eq!(journal.history().open().count(), 0);
}

#[test]
fn what_others_have_set_is_left_until_it_is_insisted() {
    let saved = machine();
    let (actuator, mut journal) = (actuator(&saved), journal(&saved));
    actuator
        .apply(&mut journal, &bind(&saved, "/a", 0), NOW)
        .unwrap();
    saved.group_files("/a", &[("cpuset.cpus", "2-3")]);
    let back = actuator.rollback(&mut journal, &Which::All, NOW).unwrap();
    assert!(matches!(&back[0].result, Ok(Restored::SetByOthers { holds, .. }) if holds == "2-3\n"));
    assert_eq!(saved.holds("/a", "cpuset.cpus"), "2-3\n");
    assert_eq!(journal.history().open().count(), 1);
    actuator
        .rollback_over(&mut journal, &Which::All, NOW)
        .unwrap();
    assert_eq!(saved.holds("/a", "cpuset.cpus"), "\n");
    assert_eq!(journal.history().open().count(), 0);
}

#[test]
fn one_group_can_be_taken_back() {
    let saved = machine();
    let (actuator, mut journal) = (actuator(&saved), journal(&saved));
    for change in [bind(&saved, "/a", 0), bind(&saved, "/b", 1)] {
        actuator.apply(&mut journal, &change, NOW).unwrap();
    }
    actuator
        .rollback(&mut journal, &Which::Group(group("/a")), NOW)
        .unwrap();
    let holds = ["/a", "/b"].map(|name| saved.holds(name, "cpuset.cpus"));
    assert_eq!(holds, ["\n", "4-7\n"]);
    assert_eq!(journal.history().open().count(), 1);
}

#[test]
fn a_journal_has_one_writer_and_any_reader() {
    let saved = machine();
    let path = saved.path("journal");
    assert_eq!(History::read(&path).unwrap().records().count(), 0);
    let mut first = journal(&saved);
    assert!(matches!(
        Journal::open(&path),
        Err(JournalError::Busy { .. })
    ));
    actuator(&saved)
        .apply(&mut first, &bind(&saved, "/a", 0), NOW)
        .unwrap();
    assert_eq!(&History::read(&path).unwrap(), first.history());
}

#[test]
fn a_damaged_journal_is_an_error_that_names_the_line() {
    let saved = machine();
    actuator(&saved)
        .apply(&mut journal(&saved), &bind(&saved, "/a", 0), NOW)
        .unwrap();
    let whole = fs::read_to_string(saved.path("journal")).unwrap();
    // It never leads to another file than those of a group's cpuset.
    for (from, to) in [
        ("\"/a\"", "\"/../a\""),
        ("cpuset.cpus", "memory.max"),
        ("{\"number\"", "{{"),
    ] {
        saved.write_bytes("journal", whole.replacen(from, to, 1).as_bytes());
        let error = Journal::open(saved.path("journal")).unwrap_err();
        assert!(
            matches!(error, JournalError::Damaged { line: 1, .. }),
            "{error}"
        );
    }
    saved.write_bytes("journal", &vec![b'x'; 2 << 20]);
    let error = History::read(saved.path("journal")).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
    fs::remove_file(saved.path("journal")).unwrap();
    fs::create_dir(saved.path("journal")).unwrap();
    assert!(matches!(
        History::read(saved.path("journal")),
        Err(JournalError::Io { .. })
    ));
}
