//! A machine of 2,048 cpus: more than libc's fixed-size masks hold.

use crate::checks;
use crate::common::{Saved, mask};
use chiplet_topology::{DomainId, LevelChoice, Restriction, Topology};

const CPUS: u32 = 2048;
/// Cpus of a CCD: eight cores, their second cpus numbered from the half on.
const CORES: u32 = CPUS / 2;

/// 128 CCDs of eight SMT cores on eight packages. As little as the reader needs of it: a cache is told by its first
/// cpu, and masks of all lengths occur.
fn tree() -> Saved {
    let saved = Saved::new(&[]);
    let cpu = |cpu: u32, file: &str| format!("sys/devices/system/cpu/cpu{cpu}/{file}");
    let both = |first: u32, cores: u32| {
        let cores = first..first + cores;
        mask(cores.clone().chain(cores.map(|core| core + CORES)))
    };
    let packages: Vec<String> = (0..8).map(|package| both(package * 128, 128)).collect();
    for number in 0..CPUS {
        let core = number % CORES;
        let package = core / 128;
        saved.write(&cpu(number, "topology/core_cpus"), &both(core, 1));
        saved.write(
            &cpu(number, "topology/package_cpus"),
            &packages[package as usize],
        );
        saved.write(
            &cpu(number, "topology/die_cpus"),
            &packages[package as usize],
        );
        saved.write(
            &cpu(number, "topology/physical_package_id"),
            &package.to_string(),
        );
        if number < CORES && number % 8 == 0 {
            saved.write(&cpu(number, "cache/index3/level"), "3");
            saved.write(&cpu(number, "cache/index3/size"), "32768K");
            saved.write(
                &cpu(number, "cache/index3/shared_cpu_map"),
                &both(number, 8),
            );
        }
    }
    saved.write("sys/devices/system/cpu/online", &format!("0-{}", CPUS - 1));
    saved
}

#[test]
fn a_machine_of_2048_cpus_is_read_whole() {
    let saved = tree();
    let machine = Topology::from_sysfs(saved.root(), LevelChoice::Auto).unwrap();
    checks::machine(&machine);
    assert_eq!((machine.domains().len(), machine.cpu_count()), (128, 2048));
    assert_eq!(machine.worker_limit(), 1024);
    let last = &machine.domains()[127];
    assert_eq!(
        (last.package, last.cores[7].cpus.as_slice()),
        (7, &[1023, 2047][..])
    );
    assert_eq!(machine.nearest(DomainId(127)).count(), 127);

    // A cpuset that lies beyond the first 1,024 cpus.
    saved.write("proc/mounts", "none /cpuset cpuset rw 0 0");
    saved.write("cpuset/cpus", "1016-1031,2040-2047");
    let machine = Topology::from_sysfs(saved.root(), LevelChoice::Auto).unwrap();
    let cpus: Vec<Vec<u32>> = machine
        .domains()
        .iter()
        .map(|domain| domain.cpus())
        .collect();
    let last: Vec<u32> = (1016..1024).chain(2040..2048).collect();
    assert_eq!(cpus, [(1024..1032).collect::<Vec<_>>(), last]);
    assert!(matches!(machine.restrictions(), [Restriction::Cpuset(taken)] if taken.len() == 2024));
}
