//! `chiplet bench --modes`: real children, their answers, and how they end.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{bench, keys, run, words};

/// Short, and at two uses that a busy machine reaches.
const SHORT: &str = "--modes --uses=20,40 --rounds 1 --warmup 0.05 --duration 0.2";

fn skip_where_there_is_one_core() -> bool {
    let one = std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2);
    if one {
        eprintln!("skipped: one core has nothing to pin a process to");
    }
    one
}

fn modes(json: &Value) -> Vec<&str> {
    let modes = json["modes"].as_array().expect("a list");
    modes
        .iter()
        .map(|mode| mode["name"].as_str().unwrap())
        .collect()
}

#[test]
fn modes_are_processes_that_answer_at_equal_use() {
    if skip_where_there_is_one_core() {
        return;
    }
    let ran = run(&words(SHORT));
    assert_eq!(modes(&ran.json), ["one", "per-node", "pinned", "chiplet"]);
    let nodes = ran.json["workload"]["nodes"].as_array().unwrap().len();
    let processes: Vec<usize> = ran.json["modes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| mode["processes"].as_u64().unwrap() as usize)
        .collect();
    assert_eq!(processes, [1, nodes, nodes, 1]);
    let pinned = &ran.json["modes"][2];
    assert!(
        pinned["pinned_by"]
            .as_str()
            .unwrap()
            .starts_with(['c', 'a']),
        "{pinned}"
    );
    assert_eq!(ran.json["modes"][0]["pinned_by"], Value::Null);
    // Each process of `per-node` has a thread for each core, each of `pinned` for its own.
    let threads = |mode: usize| ran.json["modes"][mode]["threads"].as_u64().unwrap();
    assert_eq!(threads(1), threads(0) * nodes as u64);
    assert_eq!(threads(2), threads(0));
    // Every process has all tables.
    let bytes = |mode: usize| ran.json["modes"][mode]["table_bytes"].as_u64().unwrap();
    assert_eq!(bytes(2), bytes(0) * nodes as u64);

    let uses = ran.json["uses"].as_array().unwrap();
    assert_eq!(uses.len(), 2);
    for at in uses {
        assert_eq!(
            keys(&at["modes"][0]),
            words(
                "failed mean_us mode p50_us p99_ratio p99_us piled_up processor_us \
                 rate_qps requests rounds throughput_qps throughput_ratio used"
            )
            .into_iter()
            .collect::<BTreeSet<_>>()
        );
        for mode in at["modes"].as_array().unwrap() {
            // On a busy machine requests pile up, and the executor refuses what its queues cannot hold.
            assert!(mode["failed"] == 0 || mode["piled_up"] == true, "{mode}");
            let answered = mode["throughput_qps"].as_f64().unwrap() > 0.0;
            assert!(answered || mode["piled_up"] == true, "{mode}");
        }
    }
    assert!(ran.text.contains("at 20 % processor use"), "{}", ran.text);
}

#[test]
fn the_complex_model_and_four_processes_are_modes_like_others() {
    if skip_where_there_is_one_core() {
        return;
    }
    let ran = run(&words(
        "--modes=four-pinned,chiplet --uses=30 --rounds 1 --warmup 0.05 --duration 0.2 --model=ranking",
    ));
    assert_eq!(modes(&ran.json), ["four-pinned", "chiplet"]);
    assert_eq!(ran.json["modes"][0]["processes"], 4);
    assert_eq!(ran.json["workload"]["model"], "ranking");
    // Features are in the processes, beside the tables.
    let bytes = |at: &Value| at.as_u64().unwrap();
    assert!(
        bytes(&ran.json["modes"][1]["table_bytes"])
            > bytes(&ran.json["workload"]["bytes"]) + 800 * 128
    );
}

#[test]
fn what_cannot_be_is_told_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], why: &str| {
        let output = bench(folder.path(), arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(why), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty());
    };
    refused(
        &["--modes", "--level=l3", "--domains=0"],
        "cannot be used with",
    );
    refused(&["--modes=two"], "invalid value");
    refused(&["--modes", "--rate=max"], "cannot be used with");
    refused(&["--uses=60"], "--modes");
    refused(&["--modes=one,one"], "twice");
    refused(&["--modes", "--uses=30,30"], "twice");
    refused(&["--modes", "--uses=95"], "95");
    refused(&["--modes", "--strategy=openmp", "--kind=ivf"], "openmp");
}

/// A run that goes on for long.
fn long(folder: &std::path::Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_chiplet"))
        .args(words(
            "bench --tables=2 --rows=200 --dims=8 --queries=50 --modes=per-node,chiplet",
        ))
        .args(["--duration=1", "--rounds=100", "--truth-cache"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be run")
}

/// The processes that `process` has started, once there are as many as `count`.
fn children(process: u32, count: usize) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let found: Vec<u32> = text
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        if found.len() >= count {
            return found;
        }
        assert!(
            Instant::now() < until,
            "{} of {count} processes were started",
            found.len()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill")
        .args([name, &process.to_string()])
        .status();
    assert!(status.expect("kill can be run").success());
}

/// Waits until no such process is there; one that nobody waits for counts as gone.
fn gone(process: u32) {
    let until = Instant::now() + Duration::from_secs(60);
    let state = || {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        text.rsplit_once(") ")?
            .1
            .chars()
            .next()
            .filter(|&state| state != 'Z')
    };
    while state().is_some() {
        assert!(Instant::now() < until, "process {process} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A run that goes on for long, once all its processes have read their tables, and those.
fn under_way(folder: &std::path::Path) -> (Child, Vec<u32>) {
    let run = long(folder);
    let processes = children(run.id(), 3);
    let begun = Instant::now();
    while connected(run.id()) < processes.len() {
        assert!(begun.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(20));
    }
    // The first rounds are under way.
    std::thread::sleep(Duration::from_secs(1));
    (run, processes)
}

/// How many of a run's processes have been connected to, which is done when they have read their tables.
fn connected(run: u32) -> usize {
    const CONNECTED: &str = "03";
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    let theirs = format!("/chiplet-modes-{run}-");
    let connected = sockets.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let path = fields.get(7).filter(|path| path.contains(&theirs))?;
        (fields[5] == CONNECTED).then(|| (*path).to_owned())
    });
    connected.collect::<BTreeSet<_>>().len()
}

/// Sends a signal to one process of a run: the run ends with this message, and the others end with it.
#[cfg(target_os = "linux")]
fn ends_with_all_others(signalled: &str, said: &str) {
    if skip_where_there_is_one_core() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (run, processes) = under_way(folder.path());
    signal(signalled, processes[0]);
    let output = run.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("mode per-node") && error.contains(said),
        "{error}"
    );
    processes.into_iter().for_each(gone);
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_is_killed_ends_the_run() {
    ends_with_all_others("-KILL", "an instance ended");
}

#[test]
#[ignore = "waits for a minute: make lab"]
#[cfg(target_os = "linux")]
fn a_process_that_is_stuck_ends_the_run() {
    ends_with_all_others("-STOP", "was it stopped?");
}

#[test]
#[cfg(target_os = "linux")]
fn processes_end_when_the_command_is_killed_or_stopped() {
    if skip_where_there_is_one_core() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["-KILL", "-INT"] {
        let (mut run, processes) = under_way(folder.path());
        signal(name, run.id());
        run.wait().unwrap();
        processes.into_iter().for_each(gone);
    }
}
