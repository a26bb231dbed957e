//! What is read of, and done to, the machine that the tests run on.

#[cfg(target_os = "linux")]
use chiplet_topology::pin::unpinned;
use chiplet_topology::pin::{PinError, current_affinity, pin_current_thread};
use chiplet_topology::{LevelChoice, Topology};

#[test]
fn detection_finds_exactly_the_cpus_of_this_thread() {
    let machine = Topology::detect(LevelChoice::Auto).unwrap();
    assert!(machine.is_this_machine());
    assert!(machine.worker_limit() >= 1);
    let may_use = current_affinity();
    let cpus: Vec<u32> = machine
        .domains()
        .iter()
        .flat_map(|domain| domain.cpus())
        .collect();
    assert!(
        cpus.iter().all(|cpu| may_use.contains(cpu)),
        "{cpus:?} of {may_use:?}"
    );
}

#[cfg(all(feature = "hwloc", target_os = "linux"))]
#[test]
fn hwloc_and_the_sys_reader_see_the_same_machine() {
    for choice in [LevelChoice::Auto, LevelChoice::L3, LevelChoice::L2] {
        match (Topology::detect(choice), Topology::from_sysfs("/", choice)) {
            (Ok(by_hwloc), Ok(by_sys)) => {
                assert_eq!(by_hwloc.domains(), by_sys.domains());
                assert_eq!(by_hwloc.level(), by_sys.level());
                assert_eq!(by_hwloc.restrictions(), by_sys.restrictions());
                assert_eq!(by_hwloc.worker_limit(), by_sys.worker_limit());
                for domain in by_hwloc.domains() {
                    assert!(by_hwloc.nearest(domain.id).eq(by_sys.nearest(domain.id)));
                }
            }
            (Err(by_hwloc), Err(by_sys)) => assert_eq!(by_hwloc.to_string(), by_sys.to_string()),
            (by_hwloc, by_sys) => panic!("{choice}: hwloc {by_hwloc:?}, /sys {by_sys:?}"),
        }
    }
}

/// Runs on a thread of its own, so that the mask of the test's thread stays as it is.
fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(run).join().expect("the thread does not panic"))
}

#[cfg(target_os = "linux")]
#[test]
fn a_pinned_thread_has_what_was_granted_and_detects_no_more() {
    let cpu = current_affinity()[0];
    on_a_thread(|| {
        assert_eq!(pin_current_thread(&[cpu]).unwrap(), [cpu]);
        assert_eq!(current_affinity(), [cpu]);
        let machine = Topology::detect(LevelChoice::Auto).unwrap();
        assert_eq!(machine.domains()[0].cpus(), [cpu]);
        assert_eq!(machine.worker_limit(), 1);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn cpus_that_do_not_exist_are_not_granted() {
    let cpu = current_affinity()[0];
    on_a_thread(|| {
        // Beyond every machine that runs this test, the second beyond libc's fixed-size masks too.
        for far in [1023, 5000] {
            assert_eq!(pin_current_thread(&[cpu, far]).unwrap(), [cpu]);
            assert!(matches!(
                pin_current_thread(&[far]),
                Err(PinError::Refused { .. })
            ));
        }
        assert!(matches!(
            pin_current_thread(&[cpu, 65_536]),
            Err(PinError::TooLarge { cpu: 65_536, .. })
        ));
        assert_eq!(current_affinity(), [cpu], "a refused pin changes nothing");
    });
}

/// The cpus of a process that the calling thread starts, as the kernel tells it.
#[cfg(target_os = "linux")]
fn of_a_process() -> String {
    let grep = ["Cpus_allowed_list", "/proc/self/status"];
    let told = std::process::Command::new("grep").args(grep).output();
    String::from_utf8(told.unwrap().stdout).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_pinned_thread_starts_unpinned_may_run_where_the_main_thread_may() {
    let cpu = current_affinity()[0];
    // Nothing here pins the main thread.
    let (all, all_of_threads) = (of_a_process(), current_affinity());
    on_a_thread(|| {
        pin_current_thread(&[cpu]).unwrap();
        let one = of_a_process();
        assert!(one.ends_with(&format!("\t{cpu}\n")), "{one}");
        assert_eq!(unpinned(of_a_process).unwrap(), all);
        let started = unpinned(|| std::thread::spawn(current_affinity)).unwrap();
        assert_eq!(started.join().unwrap(), all_of_threads);
        assert_eq!(of_a_process(), one, "it has its own back");
        let panics = std::panic::catch_unwind(|| unpinned(|| panic!("code panics")));
        assert!(panics.is_err());
        assert_eq!(current_affinity(), [cpu], "after a panic, too");
    });
}

#[test]
fn pinning_to_no_cpu_is_refused() {
    assert!(matches!(pin_current_thread(&[]), Err(PinError::NoCpus)));
}
