//! `chiplet-advisor advise` and `chiplet-advisor balance` on machines made of files: advice, trials, rounds, and
//! everything put back.
//!
//! On a real kernel: `tests/kernel`.

#![cfg(unix)]

mod balance;
mod made_up;
mod trial;

use made_up::{MadeUp, chiplet, json, stderr, stdout};

#[test]
fn a_group_that_runs_off_its_memory_is_to_be_bound() {
    let machine = MadeUp::new();
    machine.group("/search-1", &[(0, 900 << 20), (1, 100 << 20)]);
    let args = [
        "advise",
        "--cgroup",
        "/search-1",
        "--seconds",
        "0.2",
        "--lambda",
        "1.7",
        "--msr",
        "0.4",
    ];
    let ran = chiplet(&machine, &args);
    let text = stdout(&ran);
    // Half of what it reads is remote on both nodes, a tenth on node 0: 0.4 (0.5 - 0.1) 0.7 / 1.35.
    for part in [
        "/search-1: ",
        "stalled on memory  MSR   40.0 %",
        "mapped pages       NPMR  100.0 %",
        "remote traffic     RMBR  50.0 % (not counted: pages off its cpus' nodes)",
        "node 0: may use 4 cpus, has 943.7 MB mapped",
        "-> bind to node 0: saves about 8.3 % of its cycles",
        "echo 0-3 > /sys/fs/cgroup/search-1/cpuset.cpus",
        "chiplet-advisor advise --trial --cgroup /search-1",
        "% of a hyperthread",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let told = json(&chiplet(&machine, &[&args[..], &["--json"]].concat()));
    let group = &told["groups"][0];
    assert_eq!(group["advice"]["bind"]["node"], 0);
    assert_eq!(group["memory"]["0"], 900 << 20);
    assert!(
        group["remedy"]["pod_spec"]
            .as_str()
            .unwrap()
            .contains("Guaranteed")
    );
    assert!(told["watching"].as_f64().unwrap() < 1.0);
    assert_eq!(machine.cpus("/search-1"), "\n", "nothing is written");
}

#[test]
fn what_is_missing_is_told_and_not_guessed() {
    let machine = MadeUp::new();
    machine.group("/search-1", &[(0, 900 << 20), (1, 100 << 20)]);
    let ran = chiplet(
        &machine,
        &["advise", "--cgroup", "/search-1", "--seconds", "0.1"],
    );
    let text = stdout(&ran);
    assert!(
        text.contains("cannot predict; no share of stalled cycles (MSR)"),
        "{text}"
    );
    assert!(text.contains("no ratio of latencies"), "{text}");
    assert!(
        text.contains("MBW   unknown: resctrl is not there: mount"),
        "{text}"
    );
}

#[test]
fn a_process_is_found_by_its_group() {
    let machine = MadeUp::new();
    machine.group("/search-1", &[(0, 1 << 20)]);
    machine.write("proc/4711/cgroup", "0::/search-1\n");
    let ran = chiplet(&machine, &["advise", "--pid", "4711", "--seconds", "0.1"]);
    assert!(stdout(&ran).starts_with("/search-1: "));
}

#[test]
fn bad_input_is_told_with_the_way_out() {
    let machine = MadeUp::new();
    machine.group("/search-1", &[(0, 1 << 20)]);
    let told = |args: &[&str], part: &str| {
        let ran = chiplet(&machine, args);
        assert_eq!(ran.status.code(), Some(2), "{args:?}");
        assert!(ran.stdout.is_empty());
        assert!(stderr(&ran).contains(part), "{args:?}: {}", stderr(&ran));
    };
    told(&["advise"], "--pid PID");
    told(&["advise", "--pid", "4711"], "no process 4711");
    told(&["advise", "--cgroup", "/other"], "no control group /other");
    told(
        &["advise", "--cgroup", "/../etc"],
        "not the path of a control group",
    );
    told(
        &["advise", "--cgroup", "/search-1", "--lambda", "0.5"],
        "such as 1.7",
    );
    told(
        &["advise", "--cgroup", "/search-1", "--msr", "40"],
        "0 to 1",
    );
    told(
        &[
            "advise",
            "--cgroup",
            "/search-1",
            "--trial",
            "--query",
            "up",
        ],
        "--prometheus",
    );
    told(&["advise", "--history"], "there is no journal");
    told(&["balance"], "--service");
    told(&["balance", "--service", "search=/*"], "NAME=GROUP");
    told(&["balance", "--rollback"], "there is no journal");
    machine.write("proc/self/cgroup", "5:cpuset:/\n0::/\n");
    told(
        &["advise", "--cgroup", "/search-1"],
        "systemd.unified_cgroup_hierarchy=1",
    );
}

#[test]
fn a_group_that_ends_within_the_window_is_told() {
    let machine = MadeUp::new();
    machine.group("/search-1", &[(0, 1 << 20)]);
    let child = machine.spawn(&["advise", "--cgroup", "/search-1", "--seconds", "0.6"]);
    std::thread::sleep(std::time::Duration::from_millis(250));
    machine.remove("/search-1");
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        stderr(&ran).contains("/search-1 has ended"),
        "{}",
        stderr(&ran)
    );
}
