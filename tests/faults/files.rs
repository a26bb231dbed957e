//! The kernel refuses to open any file, /sys and /proc included.

use std::time::{Duration, Instant};

use chiplet::topology::{LevelChoice, TopologyError};
use chiplet::{Executor, Topology};
use chiplet_topology::pin::pin_current_thread;
use chiplet_topology::{Source, usable_now};

use crate::kernel::{mask, refuse, refuse_files};
use crate::warnings::Warnings;
use crate::{child, verified};

/// The balancer looks each second at what may be used, so that it has looked once.
const LOOKED: Duration = Duration::from_millis(1_500);

/// Serves for a while and returns how many tasks that were.
fn serve(executor: &Executor) -> u64 {
    let table = executor.add_closure_table("t", 1);
    let until = Instant::now() + LOOKED;
    let mut tasks = 0;
    while Instant::now() < until {
        assert_eq!(executor.spawn(table, move || tasks).wait(), Ok(tasks));
        tasks += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    tasks
}

#[test]
fn without_files_the_machine_is_its_number_of_cpus() {
    const TEST: &str = "files::without_files_the_machine_is_its_number_of_cpus";
    child::run(TEST, "detect", &[], || {
        let warnings = Warnings::record();
        assert!(usable_now().is_some(), "this machine tells");
        // Not the first: counting gives other cpus then than the mask does.
        let last = mask().pop().unwrap();
        assert_eq!(pin_current_thread(&[last]).unwrap(), [last]);
        refuse_files();
        assert_eq!(usable_now(), None);
        let machine = Topology::detect(LevelChoice::Auto).unwrap();
        assert_eq!(machine.source(), &Source::CpuCount);
        assert_eq!(machine.domains().len(), 1);
        assert_eq!(machine.domains()[0].cpus(), [last]);
        assert!(machine.is_this_machine());
        assert_eq!(warnings.with("going by the number of cpus"), 1);
        let asked = Topology::detect(LevelChoice::L3);
        assert!(
            matches!(asked, Err(TopologyError::NoSuchLevel { .. })),
            "{asked:?}"
        );
    });
    verified("no file can be opened, the machine is detected");
}

#[test]
fn without_files_an_executor_is_built_and_serves() {
    const TEST: &str = "files::without_files_an_executor_is_built_and_serves";
    child::run(TEST, "serve", &[], || {
        let warnings = Warnings::record();
        refuse_files();
        let executor = Executor::builder().build().unwrap();
        let workers = executor.workers();
        assert_eq!(workers.len(), mask().len());
        for worker in &workers {
            assert_eq!((&worker.granted, &worker.refused), (&mask(), &None));
        }
        let warned = warnings.with("");
        let tasks = serve(&executor);
        // The look has found nothing out, and so has changed nothing.
        assert_eq!(format!("{:?}", executor.workers()), format!("{workers:?}"));
        assert_eq!(warnings.with(""), warned);
        let total = executor.snapshot().total;
        assert_eq!((total.accepted, total.done), (tasks, tasks));
    });
    verified("no file can be opened, an executor serves");
}

#[test]
fn files_that_can_no_longer_be_opened_change_nothing() {
    const TEST: &str = "files::files_that_can_no_longer_be_opened_change_nothing";
    child::run(TEST, "later", &[], || {
        // The threads are this one's, which may open nothing, and the machine is known.
        let machine = Topology::detect(LevelChoice::Auto).unwrap();
        refuse_files();
        let executor = Executor::builder().topology(machine).build().unwrap();
        let workers = format!("{:?}", executor.workers());
        assert!(serve(&executor) > 0);
        assert_eq!(format!("{:?}", executor.workers()), workers);
    });
    verified("no file can be opened any more, an executor serves");
}

#[test]
fn without_files_and_masks_an_executor_serves_and_says_what_it_does_not_know() {
    const TEST: &str =
        "files::without_files_and_masks_an_executor_serves_and_says_what_it_does_not_know";
    child::run(TEST, "masks", &[], || {
        refuse(&[libc::SYS_sched_getaffinity], libc::EPERM);
        refuse_files();
        let executor = Executor::builder().build().unwrap();
        assert_eq!(executor.topology().source(), &Source::CpuCount);
        for worker in executor.workers() {
            assert!(worker.at_work && worker.granted.is_empty(), "{worker:?}");
            let refused = worker.refused.unwrap();
            assert!(
                refused.contains("the mask cannot be read back"),
                "{refused}"
            );
        }
        assert!(serve(&executor) > 0);
    });
    verified("no file can be opened and no mask read, an executor serves");
}
