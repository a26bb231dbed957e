//! A process that binds and takes back all the time is killed from outside, wherever it happens to be.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::common::{Saved, group};
use chiplet_advise::{Actuator, Change, Host, Journal, Which};

const WHERE: &str = "CHIPLET_KILLED_WHERE";
const GROUPS: [&str; 3] = ["/a", "/b", "/c"];
const WAS: [&str; 3] = ["\n", "0-7\n", "1,3\n"];

#[test]
#[ignore = "the process that is killed"]
fn child() {
    let root = std::env::var_os(WHERE).expect("it is told where");
    let root = Path::new(&root);
    let host = Host::open(root).unwrap();
    let actuator = Actuator::new(root).unwrap().dry(false);
    let mut journal = Journal::open(root.join("journal")).unwrap();
    for round in 0.. {
        let name = GROUPS[round % 3];
        let change = match round % 5 {
            4 => Change::unbind(group(name), 0),
            _ => Change::bind(group(name), &host.nodes()[round % 2]),
        };
        actuator
            .apply(&mut journal, &change, SystemTime::now())
            .unwrap();
        println!("round {round}");
        if round % 7 == 6 {
            let which = Which::Group(group(name));
            actuator
                .rollback(&mut journal, &which, SystemTime::now())
                .unwrap();
        }
    }
}

#[test]
fn whatever_it_was_doing_all_is_as_it_was() {
    for rounds in [1, 2, 3, 5, 8, 13, 21, 34, 35, 36] {
        let saved = Saved::new("GenuineIntel", 1);
        for (name, was) in GROUPS.iter().zip(WAS) {
            saved.group_files(name, &[("cpuset.cpus", was.trim_end())]);
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child", "--ignored", "--nocapture"])
            .env(WHERE, saved.root())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let lines = said.lines().map(Result::unwrap);
        // It goes on while it is being killed.
        let seen = lines
            .filter(|line| line.starts_with("round"))
            .take(rounds)
            .count();
        assert_eq!(seen, rounds, "it ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();

        let actuator = Actuator::new(saved.root()).unwrap().dry(false);
        let mut journal = Journal::open(saved.path("journal")).unwrap();
        let back = actuator
            .rollback(&mut journal, &Which::All, SystemTime::now())
            .unwrap();
        for restoration in back {
            assert!(restoration.result.is_ok(), "{restoration:?}");
        }
        let holds = GROUPS.map(|name| saved.holds(name, "cpuset.cpus"));
        assert_eq!(holds, WAS, "killed after {rounds} rounds");
        assert_eq!(journal.history().open().count(), 0);
    }
}
