//! `--trial`: kept, rolled back, stopped and killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use super::made_up::{MadeUp, chiplet, json, stderr, stdout};

/// Answers as Prometheus does: a latency, by whether the group is bound and by how often it was asked.
fn prometheus(cpus: PathBuf, latency: impl Fn(bool, u32) -> f64 + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (asked, stream) in (0..).zip(listener.incoming()) {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap())
                .lines()
                .map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            assert!(
                first.starts_with("GET /api/v1/query?query=latency%5B200ms%5D "),
                "{first}"
            );
            let is_bound = !std::fs::read_to_string(&cpus).unwrap().trim().is_empty();
            let value = latency(is_bound, asked);
            let body = format!(
                r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{}},"value":[1,"{value}"]}}]}}}}"#
            );
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    address
}

/// A machine with a group, and the arguments of a trial that this Prometheus judges.
fn trial(bound: f64, unbound: f64, window: &str) -> (MadeUp, Vec<String>) {
    trial_by(
        window,
        move |is_bound, _| if is_bound { bound } else { unbound },
    )
}

fn trial_by(
    window: &str,
    latency: impl Fn(bool, u32) -> f64 + Send + 'static,
) -> (MadeUp, Vec<String>) {
    let machine = MadeUp::new();
    machine.group("/search-1", &[(0, 900 << 20), (1, 100 << 20)]);
    let address = prometheus(machine.file("/search-1", "cpuset.cpus"), latency);
    let args = [
        "advise --trial --cgroup /search-1 --settle 0.1 --lambda 1.7 --msr 0.4 --better lower --query latency[$window]",
        &format!("--seconds {window} --prometheus http://{address}"),
    ];
    let args = args.join(" ");
    (machine, args.split(' ').map(str::to_owned).collect())
}

fn run(machine: &MadeUp, args: &[String]) -> Output {
    chiplet(
        machine,
        &args.iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

fn begin(machine: &MadeUp, args: &[String]) -> Child {
    machine.spawn(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Waits until the group is bound.
fn until_bound(machine: &MadeUp) {
    let patience = Instant::now() + Duration::from_secs(60);
    while machine.cpus("/search-1") != "0-3\n" {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_proves_better_is_kept_and_can_be_undone() {
    let (machine, args) = trial(8.0, 10.0, "0.2");
    let ran = run(&machine, &args);
    let text = stdout(&ran);
    assert!(
        text.contains("kept: a gain of 20.0 %, predicted 8.3 %"),
        "{text}"
    );
    assert_eq!(machine.cpus("/search-1"), "0-3\n");
    let history = stdout(&chiplet(&machine, &["advise", "--history"]));
    // Two pairs that were let go, and what was kept.
    assert_eq!(history.matches("rolled back").count(), 2, "{history}");
    assert_eq!(history.matches("in force").count(), 1, "{history}");
    assert!(history.contains("20.0 %"), "{history}");
    // It stays as it is until it is undone.
    let again = run(&machine, &args);
    assert!(
        stderr(&again).contains("still in force"),
        "{}",
        stderr(&again)
    );
    let undone = stdout(&chiplet(&machine, &["balance", "--rollback"]));
    assert!(
        undone.contains("/search-1: restored cpuset.cpus"),
        "{undone}"
    );
    assert_eq!(machine.cpus("/search-1"), "\n");
    assert!(
        stdout(&chiplet(&machine, &["balance", "--rollback"])).contains("no change is in force")
    );
}

#[test]
fn what_is_no_better_is_rolled_back() {
    let (machine, mut args) = trial(10.0, 9.9, "0.2");
    args.push("--json".to_owned());
    let told = json(&run(&machine, &args));
    assert_eq!(
        (&told["kept"], told["pairs"].as_array().unwrap().len()),
        (&false.into(), 2)
    );
    assert!(told["gain"].as_f64().unwrap() < 0.0);
    assert_eq!(machine.cpus("/search-1"), "\n");
}

#[test]
fn load_that_drifts_is_no_gain() {
    let (machine, args) = trial_by("0.2", |_, asked| 10.0 - 0.4 * f64::from(asked));
    let text = stdout(&run(&machine, &args));
    assert!(text.contains("rolled back"), "{text}");
}

#[test]
fn a_binding_that_somebody_takes_back_is_not_judged() {
    let (machine, args) = trial(8.0, 10.0, "0.2");
    let child = begin(&machine, &args);
    until_bound(&machine);
    machine.write("sys/fs/cgroup/search-1/cpuset.cpus", "\n");
    let ran = child.wait_with_output().unwrap();
    assert!(
        stderr(&ran).contains("taken the binding of /search-1 back"),
        "{}",
        stderr(&ran)
    );
}

#[test]
fn a_trial_that_is_stopped_puts_everything_back() {
    let (machine, args) = trial(8.0, 10.0, "0.2");
    let args: Vec<String> = args
        .into_iter()
        .map(|arg| if arg == "0.1" { "20".into() } else { arg })
        .collect();
    // The first window settles for 20 s too: it is stopped there, with nothing changed.
    let child = begin(&machine, &args);
    std::thread::sleep(Duration::from_millis(800));
    rustix::process::kill_process(pid(&child), rustix::process::Signal::INT).unwrap();
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(stderr(&ran).contains("is as it was"), "{}", stderr(&ran));
    assert_eq!(machine.cpus("/search-1"), "\n");
}

#[test]
fn a_trial_that_is_stopped_while_bound_lets_go() {
    let (machine, args) = trial(8.0, 10.0, "0.2");
    let child = begin(&machine, &args);
    until_bound(&machine);
    rustix::process::kill_process(pid(&child), rustix::process::Signal::TERM).unwrap();
    let ran = child.wait_with_output().unwrap();
    assert_eq!(machine.cpus("/search-1"), "\n", "{}", stderr(&ran));
}

#[test]
fn a_trial_that_is_killed_is_undone_by_the_journal() {
    let (machine, args) = trial(8.0, 10.0, "0.2");
    let mut child = begin(&machine, &args);
    until_bound(&machine);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(machine.cpus("/search-1"), "0-3\n");
    stdout(&chiplet(&machine, &["balance", "--rollback"]));
    assert_eq!(machine.cpus("/search-1"), "\n");
}

#[test]
fn what_cannot_be_tried_changes_nothing() {
    let (machine, args) = trial(8.0, 10.0, "0.2");
    let without: Vec<String> = args
        .iter()
        .filter(|arg| !arg.contains("latency") && *arg != "--query")
        .cloned()
        .collect();
    let without: Vec<&str> = without.iter().map(String::as_str).collect();
    let at = without
        .iter()
        .position(|arg| *arg == "--prometheus")
        .unwrap();
    let ipc = [&without[..at], &without[at + 2..]].concat();
    let ipc: Vec<&str> = ipc
        .into_iter()
        .filter(|arg| !["--better", "lower"].contains(arg))
        .collect();
    let ran = chiplet(&machine, &ipc);
    assert!(
        stderr(&ran).contains("name a metric by --prometheus"),
        "{}",
        stderr(&ran)
    );
    // Bound by somebody already.
    machine.write("sys/fs/cgroup/search-1/cpuset.cpus", "0-3\n");
    machine.write("sys/fs/cgroup/search-1/cpuset.cpus.effective", "0-3\n");
    let ran = run(&machine, &args);
    assert!(
        stderr(&ran).contains("there is nothing to try"),
        "{}",
        stderr(&ran)
    );
    assert!(!machine.journal().exists());
}

fn pid(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(child.id() as i32).unwrap()
}
