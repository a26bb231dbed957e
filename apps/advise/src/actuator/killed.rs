//! The process is killed between any two steps of a change and of a rollback, and the rollback after it is exact.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::{Actuator, Change, Restored, Which};
use crate::group::GroupPath;
use crate::host::Node;
use crate::journal::{Journal, State};

/// At which step the process is to be killed.
const AT: &str = "CHIPLET_KILLED_AT";
/// What it is to do: `apply` or `rollback`.
const DOING: &str = "CHIPLET_KILLED_DOING";
/// In which folder.
const WHERE: &str = "CHIPLET_KILLED_WHERE";

const SIGKILL: i32 = 9;

/// Ends this process as `kill -9` does, at the step that it was told.
pub(crate) fn step() {
    static STEPS: AtomicU64 = AtomicU64::new(0);
    let at = std::env::var(AT).ok().and_then(|at| at.parse::<u64>().ok());
    let Some(at) = at else {
        return;
    };
    if STEPS.fetch_add(1, Ordering::Relaxed) + 1 == at {
        let this = rustix::process::getpid();
        rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        unreachable!("nothing survives SIGKILL");
    }
}

const CPUS: &str = "0-3,8\n";
const MEMS: &str = "\n";

/// A folder that stands for a machine with one group.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        let group = machine.group();
        fs::create_dir_all(&group).unwrap();
        fs::write(machine.path("sys/fs/cgroup/cgroup.controllers"), "cpuset\n").unwrap();
        machine.set(CPUS, MEMS);
        machine
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn group(&self) -> std::path::PathBuf {
        self.path("sys/fs/cgroup/search")
    }

    fn set(&self, cpus: &str, mems: &str) {
        fs::write(self.group().join("cpuset.cpus"), cpus).unwrap();
        fs::write(self.group().join("cpuset.mems"), mems).unwrap();
    }

    fn holds(&self) -> (String, String) {
        let read = |name: &str| fs::read_to_string(self.group().join(name)).unwrap();
        (read("cpuset.cpus"), read("cpuset.mems"))
    }

    fn is_as_it_was(&self) -> bool {
        self.holds() == (CPUS.to_owned(), MEMS.to_owned())
    }

    /// Runs this test program again, to be killed at a step. Whether it was.
    fn dies(&self, doing: &str, at: u64) -> bool {
        let outcome = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "actuator::killed::child",
                "--ignored",
                "--nocapture",
            ])
            .env(DOING, doing)
            .env(WHERE, self.0.path())
            .env(AT, at.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&outcome.stdout);
        assert!(said.contains("running 1 test"), "{said}");
        match outcome.status.signal() {
            Some(SIGKILL) => true,
            _ => {
                assert!(outcome.status.success(), "{said}");
                false
            }
        }
    }
}

fn search() -> GroupPath {
    "/search".parse().unwrap()
}

fn bind(node: u32, cpus: std::ops::Range<u32>) -> Change {
    let node = Node {
        node,
        cpus: cpus.collect(),
        memory: None,
        memory_left: None,
    };
    let mut change = Change::bind(search(), &node);
    change.memory_nodes = Some(BTreeSet::from([node.node]));
    change
}

fn actuator(root: &Path) -> Actuator {
    Actuator::new(root).unwrap().dry(false)
}

fn journal(root: &Path) -> Journal {
    Journal::open(root.join("journal")).unwrap()
}

fn apply(root: &Path, change: &Change) {
    let now = SystemTime::now();
    actuator(root)
        .apply(&mut journal(root), change, now)
        .unwrap();
}

/// Rolls back all, and again: the second time there must be nothing left to do.
fn roll_back(root: &Path) {
    let mut journal = journal(root);
    let now = SystemTime::now();
    let done = actuator(root)
        .rollback(&mut journal, &Which::All, now)
        .unwrap();
    for restoration in &done {
        assert!(
            matches!(restoration.result, Ok(Restored::Files(_))),
            "{restoration:?}"
        );
    }
    assert_eq!(journal.history().open().count(), 0);
    let again = actuator(root)
        .rollback(&mut journal, &Which::All, now)
        .unwrap();
    assert!(again.is_empty(), "{again:?}");
}

#[test]
#[ignore = "the process that the other tests kill"]
fn child() {
    let root = std::env::var_os(WHERE).expect("it is told where");
    let root = Path::new(&root);
    match std::env::var(DOING)
        .expect("it is told what to do")
        .as_str()
    {
        "apply" => apply(root, &bind(1, 4..8)),
        _ => roll_back(root),
    }
}

/// Does `what` on a machine that was prepared, killed at the first step, the second and so on, and rolls back; returns
/// the number of the step that it no longer has.
fn killed_at_each_step(what: &str, prepare: impl Fn(&Machine)) -> u64 {
    for step in 1.. {
        let machine = Machine::new();
        prepare(&machine);
        let died = machine.dies(what, step);
        roll_back(machine.0.path());
        assert!(
            machine.is_as_it_was(),
            "killed at step {step}: {:?}",
            machine.holds()
        );
        if !died {
            return step;
        }
    }
    unreachable!("nothing has steps without end")
}

#[test]
fn a_change_killed_at_any_step_is_undone_exactly() {
    let steps = killed_at_each_step("apply", |_| ());
    // Three of each line, three of each file, and one between.
    assert_eq!(steps, 3 + 2 * 3 + 1 + 3 + 1);
}

#[test]
fn a_rollback_killed_at_any_step_is_ended_by_the_next_one() {
    let steps = killed_at_each_step("rollback", |machine| {
        apply(machine.0.path(), &bind(1, 4..8));
        apply(machine.0.path(), &bind(0, 0..4));
        assert_eq!(machine.holds(), ("0-3\n".to_owned(), "0\n".to_owned()));
    });
    assert_eq!(steps, 2 * 3 + 3 + 1);
}

#[test]
fn killed_while_it_changes_and_again_while_it_rolls_back() {
    for first in [4, 5, 6, 7, 8, 10, 12] {
        for second in 1..=8 {
            let machine = Machine::new();
            assert!(machine.dies("apply", first));
            machine.dies("rollback", second);
            roll_back(machine.0.path());
            assert!(
                machine.is_as_it_was(),
                "killed at {first}, then at {second}"
            );
        }
    }
}

/// A line may be on the disk in part. As long as it is not whole nothing was done on its account.
#[test]
fn a_journal_cut_anywhere_is_rolled_back_exactly() {
    let machine = Machine::new();
    let root = machine.0.path();
    apply(root, &bind(1, 4..8));
    let (made, file) = (machine.holds(), root.join("journal"));
    let whole = fs::read(&file).unwrap();
    let planned = whole.iter().position(|&byte| byte == b'\n').unwrap();
    for cut in 0..=whole.len() {
        // Before its line was whole the change had not begun. After that it may have come to any of these.
        let states = [
            (CPUS, MEMS),
            ("", MEMS),
            (made.0.as_str(), MEMS),
            (made.0.as_str(), ""),
            (made.0.as_str(), made.1.as_str()),
        ];
        let possible = if cut > planned {
            &states[..]
        } else {
            &states[..1]
        };
        for (cpus, mems) in possible {
            machine.set(cpus, mems);
            fs::write(&file, &whole[..cut]).unwrap();
            roll_back(root);
            assert!(machine.is_as_it_was(), "cut at {cut}");
        }
    }
}

#[test]
fn numbers_go_on_after_a_torn_line() {
    let machine = Machine::new();
    let root = machine.0.path();
    apply(root, &bind(1, 4..8));
    let file = root.join("journal");
    let mut torn = fs::read(&file).unwrap();
    torn.extend(b"{\"number\":3,\"unix_ms\":1,\"eve");
    fs::write(&file, &torn).unwrap();
    apply(root, &bind(0, 0..4));
    let journal = journal(root);
    let states: Vec<(u64, &State)> = (journal.history().records())
        .map(|record| (record.number, &record.state))
        .collect();
    assert_eq!(states, [(1, &State::Done), (3, &State::Done)]);
}
