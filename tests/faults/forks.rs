//! The process forks: the child has the executor's memory, and none of its threads.
#![allow(
    unsafe_code,
    reason = "nothing safe forks a process that has other threads"
)]

use chiplet::index::{FlatTable, Metric};
use chiplet::shutdown::Shutdown;
use chiplet::{Error, Executor, SubmitError, TableError, TableId, TableOptions, Topology};

use crate::{child, verified};

/// Returns when all other threads of this process sleep. A fork copies locks as they are: one that a thread holds just
/// then, say while it wakes another, stays locked in the child for good.
fn others_sleep() {
    // SAFETY: takes nothing and gives a number.
    let own = unsafe { libc::gettid() }.to_string();
    let sleeps = |task: std::io::Result<std::fs::DirEntry>| {
        let task = task.unwrap();
        let stat = std::fs::read_to_string(task.path().join("stat"));
        // A thread that has ended meanwhile has no such file. The state follows the name, which is in parentheses.
        task.file_name() == *own || stat.is_ok_and(|stat| stat.contains(") S "))
    };
    while !std::fs::read_dir("/proc/self/task").unwrap().all(sleeps) {
        std::thread::yield_now();
    }
}

/// Runs `code` in a fork of this process; the child's exit status. The kernel ends a child that hangs.
fn in_a_fork(code: impl FnOnce() -> bool) -> libc::c_int {
    others_sleep();
    // SAFETY: of libc only what may be called between fork and exit. The child takes memory and runs the executor's
    // code, which other threads of this process are not in: its workers sleep. glibc keeps malloc sound.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork is refused");
        if child == 0 {
            libc::alarm(30);
            let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code));
            libc::_exit(i32::from(!passed.unwrap_or(false)));
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    }
}

/// Whether all that is no task is told, too, by its error or a panic.
fn all_others_say_so(executor: &Executor, table: TableId) -> bool {
    let changes = [
        executor.remove_table(table),
        executor.set_table_options(table, TableOptions::new()),
        executor.set_table_size(table, 1),
        executor
            .replace_table(table, FlatTable::build([1.0], 1, Metric::L2).unwrap())
            .map_err(|refused| refused.reason),
    ];
    let calls: [&dyn Fn(); 9] = [
        &|| drop(executor.snapshot()),
        &|| assert_ne!(executor.add_closure_table("more", 1), table),
        &|| drop(executor.nodes_for_new()),
        &|| drop(executor.nodes_of(table)),
        &|| drop(executor.placement()),
        &|| drop(executor.workers()),
        &|| drop(executor.free_cpus()),
        &|| executor.hold_placement(true),
        &|| drop(executor.restrict_to(&[0])),
    ];
    std::panic::set_hook(Box::new(|_| ()));
    let panics = calls.iter().all(|call| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_err();
        panic.downcast_ref::<String>() == Some(&SubmitError::Forked.to_string())
    });
    panics && changes == [Err(TableError::Forked); 4] && executor.table_options(table).is_none()
}

#[test]
fn a_fork_is_told_that_it_has_no_workers() {
    // In a process of its own: nothing else of this binary runs there.
    child::run(
        "forks::a_fork_is_told_that_it_has_no_workers",
        "fork",
        &[],
        || {
            let machine = Topology::uniform(2, 2, 32 << 20);
            let executor = Executor::builder().topology(machine).build().unwrap();
            let table = executor.add_closure_table("songs", 1);
            assert_eq!(executor.spawn(table, || 1).wait(), Ok(1));
            let mut kept = Some(executor);
            let status = in_a_fork(|| {
                let executor = kept.take().unwrap();
                let refused = executor.submit_fn(table, None, |_| 2).err();
                let told = refused.is_some_and(|refused| refused.reason == SubmitError::Forked);
                let waited = executor.spawn(table, || 2).wait();
                let told = told && waited == Err(Error::Refused(SubmitError::Forked));
                let told = told && all_others_say_so(&executor, table);
                let report = executor.shutdown(Shutdown::Abandon(std::time::Duration::MAX));
                drop(executor);
                told && report.still_running == 0
            });
            assert_eq!(status, 0, "a child's status");
            // The parent's own goes on, and so does one that the child builds.
            let executor = kept.take().unwrap();
            assert_eq!(executor.spawn(table, || 3).wait(), Ok(3));
            let status = in_a_fork(|| {
                let machine = Topology::uniform(1, 2, 32 << 20);
                let own = Executor::builder().topology(machine).build().unwrap();
                let table = own.add_closure_table("songs", 1);
                own.spawn(table, || 4).wait() == Ok(4)
            });
            assert_eq!(status, 0, "a child's status with an executor of its own");
        },
    );
    verified("fork with an executor");
}
