//! The kernel refuses to pin threads, or to say where they may run.

use std::process::Command;

use chiplet::snapshot::WorkerInfo;
use chiplet::topology::LevelChoice;
use chiplet::{Executor, Pin, Topology};

use crate::common::still;
use crate::kernel::{mask, refuse};
use crate::warnings::Warnings;
use crate::{child, verified};

fn serves(executor: &Executor) {
    let table = executor.add_closure_table("t", 1);
    let tickets: Vec<_> = (0..100).map(|n| executor.spawn(table, move || n)).collect();
    for (n, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.wait(), Ok(n));
    }
}

/// What each worker of an executor on this machine says of its pinning, after it has served.
fn workers(pin: Pin) -> (Executor, Vec<WorkerInfo>) {
    let machine = Topology::detect(LevelChoice::Auto).unwrap();
    let builder = Executor::builder().topology(machine).planner(still());
    let executor = builder.pin(pin).build().unwrap();
    serves(&executor);
    let workers = executor.workers();
    assert!(!workers.is_empty());
    (executor, workers)
}

fn all_float(error: i32, text: &str) {
    let warnings = Warnings::record();
    refuse(&[libc::SYS_sched_setaffinity], error);
    let mut asked = 0;
    let mut all_say_why = |workers: Vec<WorkerInfo>| {
        for worker in workers {
            asked += 1;
            assert!(worker.at_work && !worker.asked.is_empty(), "{worker:?}");
            assert_eq!(worker.granted, mask(), "where the kernel lets it run");
            let refused = worker.refused.unwrap();
            assert!(refused.contains(text), "{refused}");
        }
        assert_eq!(warnings.with("could not be pinned and floats"), asked);
        assert_eq!(warnings.with(text), asked);
    };
    for pin in [Pin::Domain, Pin::Core] {
        let (executor, workers) = workers(pin);
        all_say_why(workers);
        // Tying them anew is refused in the same way.
        let cpus = executor.topology().domains()[0].cpus();
        executor.restrict_to(&cpus).unwrap();
        all_say_why(executor.workers());
        serves(&executor);
    }
}

#[test]
fn workers_that_may_not_be_pinned_float_and_say_why() {
    const TEST: &str = "pinning::workers_that_may_not_be_pinned_float_and_say_why";
    for (case, error, text) in [
        ("EPERM", libc::EPERM, "Operation not permitted"),
        ("EINVAL", libc::EINVAL, "Invalid argument"),
    ] {
        child::run(TEST, case, &[], || all_float(error, text));
        verified(&format!("sched_setaffinity ends with {case}"));
    }
}

#[test]
fn what_a_task_starts_unpinned_may_use_what_the_process_may() {
    const TEST: &str = "pinning::what_a_task_starts_unpinned_may_use_what_the_process_may";
    child::run(TEST, "unpinned", &[], || {
        let (executor, workers) = workers(Pin::Core);
        let table = executor.add_closure_table("t", 1);
        // What the kernel says of a process that a worker starts.
        let cpus = || {
            let grep = ["Cpus_allowed_list", "/proc/self/status"];
            let told = Command::new("grep").args(grep).output().unwrap().stdout;
            String::from_utf8(told).unwrap().trim().to_owned()
        };
        let all = cpus();
        let [tied, free] = [
            executor.spawn(table, cpus).wait().unwrap(),
            executor
                .spawn(table, move || {
                    chiplet::topology::pin::unpinned(cpus).unwrap()
                })
                .wait()
                .unwrap(),
        ];
        let granted = |worker: &WorkerInfo| tied.ends_with(&format!("\t{}", worker.granted[0]));
        assert!(workers.len() == 1 || workers.iter().any(granted), "{tied}");
        assert_eq!(free, all);
    });
    verified("a process started inside a task");
}

#[test]
fn a_mask_that_the_call_does_not_tell_is_read_from_proc() {
    const TEST: &str = "pinning::a_mask_that_the_call_does_not_tell_is_read_from_proc";
    child::run(TEST, "getaffinity", &[], || {
        let all = mask();
        let warnings = Warnings::record();
        refuse(&[libc::SYS_sched_getaffinity], libc::EPERM);
        let (executor, workers) = workers(Pin::Core);
        for worker in workers {
            assert!(!worker.asked.is_empty());
            assert_eq!((&worker.granted, &worker.refused), (&worker.asked, &None));
            assert!(worker.granted.iter().all(|cpu| all.contains(cpu)));
        }
        executor.restrict_to(&all[..1]).unwrap();
        for worker in executor.workers() {
            assert_eq!(worker.granted, all[..1], "{worker:?}");
        }
        serves(&executor);
        assert_eq!(warnings.with(""), 0, "nothing is wrong");
    });
    verified("sched_getaffinity ends with EPERM");
}
