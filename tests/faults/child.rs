//! What the kernel is to refuse, it refuses for ever, and to all threads that the refused one starts: each case has a
//! process of its own, which is this test binary again with the name of the case in the environment.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::HANG;

const CASE: &str = "CHIPLET_FAULT_CASE";

/// Runs `body` in a child process, as `case` of `test` (its path in this binary), with `variables` in its environment.
/// Fails if the child fails, hangs, or has not run `body` to its end.
pub fn run(test: &str, case: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    let reached = format!("reached the end of {test}, {case}");
    if let Ok(asked) = std::env::var(CASE) {
        if asked == case {
            body();
            println!("{reached}");
        }
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CASE, case)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + HANG;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() >= deadline => break None,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let Some(status) = status else {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("{case}: the child hangs");
    };
    // It says little enough to fit into the pipe.
    let mut said = String::new();
    child.stdout.unwrap().read_to_string(&mut said).unwrap();
    assert!(status.success(), "{case}: {status}\n{said}");
    assert!(said.contains(&reached), "{case}: nothing ran\n{said}");
}
