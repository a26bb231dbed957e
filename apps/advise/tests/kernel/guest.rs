//! The checks, run as the first process of the emulated machine.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use chiplet_memory::{MemoryPolicy, Pages, Region};
use chiplet_vm::init::{self, mount_at};
use serde_json::Value;

use crate::{COMMAND, prometheus};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

const GROUPS: [&str; 4] = ["/search-1", "/search-2", "/ads-1", "/ads-2"];

/// What every run is told: no counter exists here, and latencies of an emulator say nothing.
const TOLD: &str = "--lambda 1.7 --msr 0.4 --journal /tmp/journal";

/// What is checked, and how.
type Check = (&'static str, fn());

pub const CHECKS: [Check; 9] = [
    (
        "four services with memory on the wrong node are found",
        found,
    ),
    (
        "without counters nothing is predicted, and latencies are measured",
        not_predicted,
    ),
    ("a trial is kept, and undone to the letter", tried),
    (
        "all instances of a service are bound, and run nowhere else",
        balanced,
    ),
    (
        "rounds that are killed at any moment are undone to the letter",
        killed,
    ),
    ("a full node is told", full),
    ("a node that goes offline is not advised", offline),
    (
        "a group that ends while it is bound is told and closed",
        ended,
    ),
    (
        "a group without a cpuset is refused with the way out",
        without_cpuset,
    ),
];

pub fn main() {
    mount_at("proc", "/proc");
    mount_at("sysfs", "/sys");
    mount_at("cgroup2", "/sys/fs/cgroup");
    mount_at("devtmpfs", "/dev");
    // The kernel would move pages to where threads happen to run.
    write("/proc/sys/kernel/numa_balancing", "0");
    write(
        "/sys/fs/cgroup/cgroup.subtree_control",
        "+cpuset +cpu +memory",
    );
    let workers: Vec<Child> = GROUPS.iter().map(|group| service(group)).collect();
    let failed = CHECKS.iter().filter(|(what, check)| {
        println!("vm: {what}");
        let failed = catch_unwind(AssertUnwindSafe(check)).is_err();
        if failed {
            println!("vm: FAILED: {what}");
        }
        failed
    });
    let failed = failed.count();
    for mut worker in workers {
        let _ = worker.kill();
        let _ = worker.wait();
    }
    init::end(failed);
}

fn write(path: &str, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{path} <- {text}: {error}"));
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A process in a group of its own, ready.
fn service(group: &str) -> Child {
    fs::create_dir(format!("/sys/fs/cgroup{group}")).expect("it is not there yet");
    let worker = Command::new("/init")
        .args(["worker", group])
        .spawn()
        .expect("this program runs");
    let ready = format!("/tmp/ready{}", group.replace('/', "-"));
    until("it is ready", || fs::exists(&ready).unwrap_or(false));
    worker
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn command(words: &str) -> Command {
    let mut command = Command::new(COMMAND);
    command.args(words.split(' '));
    command
}

/// Runs the command and shows what it prints.
fn chiplet(words: &str) -> Output {
    let ran = command(words).output().expect("the command runs");
    for line in text(&ran.stdout).lines().chain(text(&ran.stderr).lines()) {
        println!("    {line}");
    }
    ran
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(words: &str) -> String {
    let ran = chiplet(words);
    assert!(ran.status.success(), "{words}");
    text(&ran.stdout)
}

fn json(words: &str) -> Value {
    let ran = command(words).output().expect("the command runs");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    serde_json::from_slice(&ran.stdout).expect("it is JSON")
}

fn list(text: &str) -> BTreeSet<u32> {
    chiplet_topology::parse_list(text).expect("the kernel writes lists")
}

/// The cpus of a node.
fn node(node: u32) -> BTreeSet<u32> {
    list(&read(&format!(
        "/sys/devices/system/node/node{node}/cpulist"
    )))
}

fn cpuset(group: &str) -> String {
    read(&format!("/sys/fs/cgroup{group}/cpuset.cpus"))
}

/// Where the group's process may run, by its own mask.
fn mask(group: &str) -> BTreeSet<u32> {
    let pid = read(&format!("/sys/fs/cgroup{group}/cgroup.procs"));
    let status = read(&format!("/proc/{}/status", pid.trim()));
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list(line.expect("the kernel tells"))
}

/// Whether a group may use all that there is. Once it has had a set, the kernel does not let it have an empty one again
/// while processes run in it.
fn is_free(group: &str) -> bool {
    ["\n", "0-15\n"].contains(&cpuset(group).as_str())
}

/// Nothing is bound, and nothing is in force.
fn assert_as_it_was() {
    for group in GROUPS {
        assert!(is_free(group), "{group}: {}", cpuset(group));
        assert_eq!(mask(group), node(0).union(&node(1)).copied().collect());
    }
    assert!(said(&format!("balance --rollback {JOURNAL}")).contains("no change is in force"));
}

/// Without a journal nothing is known of what was done, and no instance rests.
fn forget() {
    for file in ["/tmp/journal", "/tmp/journal.past"] {
        let _ = fs::remove_file(file);
    }
}

const JOURNAL: &str = "--journal /tmp/journal";

fn found() {
    let groups = GROUPS.map(|group| format!("--cgroup {group}")).join(" ");
    let told = json(&format!("advise {groups} --seconds 2 {TOLD} --json"));
    for group in told["groups"].as_array().expect("a list") {
        assert_eq!(group["advice"]["bind"]["node"], 0, "{group}");
        let (near, far) = (group["memory"]["0"].as_f64(), group["memory"]["1"].as_f64());
        assert!(near > Some(40e6) && far < Some(8e6), "{group}");
        assert_eq!(
            (&group["cpus"]["0"], &group["cpus"]["1"]),
            (&8.into(), &8.into())
        );
    }
    let text = said(&format!("advise --cgroup /search-1 --seconds 1 {TOLD}"));
    assert!(text.contains("echo 0-7 > /sys/fs/cgroup/search-1/cpuset.cpus"));
}

fn not_predicted() {
    let told = json(&format!(
        "advise --cgroup /search-1 --seconds 1 {JOURNAL} --json"
    ));
    let missing = &told["groups"][0]["advice"]["cannot_predict"]["missing"];
    assert_eq!(missing[0][0], "msr", "{told}");
    assert_eq!(
        missing.as_array().map(Vec::len),
        Some(1),
        "latencies are known: {told}"
    );
    let (near, far) = (&told["latencies"]["near_ns"], &told["latencies"]["far_ns"]);
    assert!(
        near.as_f64() > Some(0.0) && far.as_f64() > Some(0.0),
        "{told}"
    );
}

fn tried() {
    let address = prometheus::serve("/sys/fs/cgroup/search-1/cpuset.cpus");
    let text = said(&format!(
        "advise --trial --cgroup /search-1 --seconds 1 --settle 0.2 --prometheus http://{address} --query rate {TOLD}"
    ));
    assert!(text.contains("kept: a gain of 20.0 %"), "{text}");
    assert_eq!(cpuset("/search-1"), "0-7\n");
    assert_eq!(mask("/search-1"), node(0));
    said(&format!("advise --history {JOURNAL}"));
    said(&format!("balance --rollback {JOURNAL}"));
    assert_as_it_was();
}

const BALANCE: &str = "balance --service search=/search-* --service ads=/ads-* --apply --every 1";

fn balanced() {
    forget();
    let before = said(&format!(
        "balance --service search=/search-* --every 1 --rounds 1 {TOLD}"
    ));
    assert!(
        before.contains("would bind all 2 instances of search"),
        "{before}"
    );
    assert!(is_free("/search-1"), "a dry run");
    let text = said(&format!("{BALANCE} --rounds 1 {TOLD}"));
    assert!(text.contains("bind all 2 instances of"), "{text}");
    let bound: Vec<&str> = GROUPS
        .into_iter()
        .filter(|group| cpuset(group) == "0-7\n")
        .collect();
    assert_eq!(bound.len(), 2, "one service");
    for group in bound {
        assert_eq!(mask(group), node(0));
    }
    said(&format!("balance --rollback {JOURNAL}"));
    assert_as_it_was();
}

fn killed() {
    let mut met = [0; 2];
    for moment in 0..12 {
        forget();
        let mut child = command(&format!("{BALANCE} {TOLD}"))
            .spawn()
            .expect("the command runs");
        until("it binds", || {
            !is_free("/search-1") || !is_free("/ads-1") || moment < 3
        });
        std::thread::sleep(Duration::from_millis(moment));
        let _ = child.kill();
        let _ = child.wait();
        let bound = GROUPS.iter().filter(|group| !is_free(group)).count();
        met[usize::from(bound > 0)] += 1;
        let undone = command(&format!("balance --rollback {JOURNAL}"))
            .output()
            .expect("the command runs");
        assert!(
            undone.status.success() || moment < 3,
            "{}",
            text(&undone.stderr)
        );
        for group in GROUPS {
            assert!(is_free(group), "{group}, killed at {moment}");
        }
    }
    assert!(met[1] > 0, "it was never killed while something was bound");
    assert_as_it_was();
}

fn full() {
    forget();
    let room = chiplet_topology::room_on(&[0]).expect("the kernel says");
    let taken = room.saturating_sub(4 << 20) as usize;
    let region =
        Region::new(taken, MemoryPolicy::on([0]).pages(Pages::Small)).expect("it is there");
    region.populate(|_, _| ()).expect("it is there");
    let text = said(&format!("advise --cgroup /search-1 --seconds 1 {TOLD}"));
    assert!(
        text.contains("has no room") && text.contains("node 0 is short of memory"),
        "{text}"
    );
    let text = said(&format!("{BALANCE} --rounds 1 {TOLD}"));
    assert!(!text.contains("bind "), "{text}");
    drop(region);
    assert_as_it_was();
}

fn offline() {
    let far: Vec<u32> = node(1).into_iter().collect();
    let set = |online| {
        for cpu in &far {
            write(&format!("/sys/devices/system/cpu/cpu{cpu}/online"), online);
        }
    };
    set("0");
    let text = said(&format!("advise --cgroup /search-1 --seconds 1 {TOLD}"));
    let dry = chiplet(&format!(
        "balance --service search=/search-* --every 1 --rounds 1 {TOLD}"
    ));
    set("1");
    assert!(
        text.contains("nothing: the machine has one NUMA node with cpus"),
        "{text}"
    );
    assert!(dry.status.success());
}

fn ended() {
    forget();
    let mut worker = service("/short");
    let text = said(&format!(
        "balance --service short=/short --apply --every 1 --rounds 1 {TOLD}"
    ));
    assert!(text.contains("bind the one instance of short"), "{text}");
    let _ = worker.kill();
    let _ = worker.wait();
    until("its group is empty", || {
        fs::remove_dir("/sys/fs/cgroup/short").is_ok()
    });
    let ran = chiplet(&format!("advise --cgroup /short --seconds 1 {TOLD}"));
    assert!(text_of(&ran).contains("no control group /short"));
    assert!(said(&format!("balance --rollback {JOURNAL}")).contains("/short: has ended"));
    assert_as_it_was();
}

fn without_cpuset() {
    // Its parent hands down no controllers.
    fs::create_dir("/sys/fs/cgroup/search-1/inner").expect("it is not there yet");
    let ran = chiplet(&format!(
        "advise --cgroup /search-1/inner --seconds 1 {TOLD}"
    ));
    assert!(ran.status.success());
    let text = said(&format!(
        "balance --service inner=/search-1/inner --apply --every 1 --rounds 1 {TOLD}"
    ));
    assert!(
        !text.contains("bind "),
        "nothing is known of its memory: {text}"
    );
    let ran = chiplet(&format!(
        "advise --trial --cgroup /search-1/inner --seconds 1 {TOLD}"
    ));
    assert!(
        text_of(&ran).contains("name a node by --to N"),
        "{}",
        text_of(&ran)
    );
    fs::remove_dir("/sys/fs/cgroup/search-1/inner").expect("it is empty");
}

fn text_of(ran: &Output) -> String {
    text(&ran.stderr)
}
