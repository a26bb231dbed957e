//! The kernel refuses a thread while an executor is being built.
//!
//! The limit is on address space and stacks are huge, so that which thread is the first without room for its stack can
//! be told beforehand, whatever else the process maps meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet::{BuildError, Executor, Topology};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::HANG;
use crate::{child, verified};

const STACK: u64 = 128 << 20;
const DOMAINS: u32 = 12;
const CORES: u32 = 8;
const WORKERS: u64 = 96;
/// Threads that call wakers at deadlines, in turn.
const TIMERS: u64 = 4;
/// All of an executor's threads.
const THREADS: u64 = WORKERS + TIMERS + 2;

/// Address space in use, in bytes.
fn mapped() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib: u64 = size.unwrap().trim_end_matches("kB").trim().parse().unwrap();
    kib << 10
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Builds an executor in a process that has room for `started` threads more, so that the next, called `name`, fails.
fn build_fails_at(started: u64, name: &str) {
    let before = threads();
    let unlimited = getrlimit(Resource::As);
    let room = mapped() + started * STACK + STACK / 2;
    let limited = Rlimit {
        current: Some(room),
        maximum: unlimited.maximum,
    };
    // All that the threads share is theirs until they end, this too.
    let shared = Arc::new(());
    let theirs = Arc::clone(&shared);
    let builder = || Executor::builder().topology(Topology::uniform(DOMAINS, CORES, 32 << 20));
    let to_fail = builder().on_remap(move |_| assert_eq!(*theirs, ()));

    setrlimit(Resource::As, limited).unwrap();
    let error = to_fail.build().unwrap_err();
    setrlimit(Resource::As, unlimited).unwrap();

    let text = error.to_string();
    let BuildError::Spawn {
        name: failed,
        source,
    } = error
    else {
        panic!("{text}")
    };
    assert_eq!(failed, name);
    assert_eq!(source.raw_os_error(), Some(libc::EAGAIN), "{source}");
    for advice in [
        name,
        &source.to_string(),
        "ulimit -u",
        "pids.max",
        "ulimit -v",
        "max_workers",
    ] {
        assert!(text.contains(advice), "{text:?} does not say {advice:?}");
    }

    assert_eq!(Arc::strong_count(&shared), 1, "a thread was not joined");
    // The kernel may list a thread for a moment after it has been joined.
    let deadline = Instant::now() + HANG;
    while threads() > before {
        assert!(Instant::now() < deadline, "{} threads are left", threads());
        std::thread::sleep(Duration::from_millis(1));
    }

    // Nothing of the failure stays: the same can be built once it is allowed.
    let executor = builder().build().unwrap();
    assert_eq!(threads() as u64, before as u64 + THREADS);
    let table = executor.add_closure_table("t", 1);
    assert_eq!(executor.spawn(table, || 7).wait(), Ok(7));
}

fn check(test: &str, started: u64, name: &str) {
    let stack = STACK.to_string();
    let variables = [
        ("RUST_MIN_STACK", stack.as_str()),
        // Else each thread would map a heap of its own, as large as half a stack here.
        ("MALLOC_ARENA_MAX", "1"),
    ];
    child::run(test, name, &variables, || build_fails_at(started, name));
    verified(&format!("no thread {name}, after {started} of {THREADS}"));
}

#[test]
fn the_first_worker_cannot_be_started() {
    check(
        "threads::the_first_worker_cannot_be_started",
        0,
        "chiplet-0-0",
    );
}

#[test]
fn a_worker_in_the_middle_cannot_be_started() {
    check(
        "threads::a_worker_in_the_middle_cannot_be_started",
        43,
        "chiplet-5-43",
    );
}

#[test]
fn the_last_worker_cannot_be_started() {
    check(
        "threads::the_last_worker_cannot_be_started",
        WORKERS - 1,
        "chiplet-11-95",
    );
}

#[test]
fn the_timer_cannot_be_started() {
    check(
        "threads::the_timer_cannot_be_started",
        WORKERS + 2,
        "chiplet-timer",
    );
}

#[test]
fn the_balancer_cannot_be_started() {
    check(
        "threads::the_balancer_cannot_be_started",
        WORKERS,
        "chiplet-balance",
    );
}

#[test]
fn the_timed_look_cannot_be_started() {
    check(
        "threads::the_timed_look_cannot_be_started",
        WORKERS + 1,
        "chiplet-monitor",
    );
}
