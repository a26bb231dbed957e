//! What the kernel refuses, and what it knows.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Has the kernel answer these calls with `error` from now on, on this thread and all that it starts.
pub fn refuse(calls: &[i64], error: i32) {
    let rules: BTreeMap<i64, _> = calls.iter().map(|&call| (call, Vec::new())).collect();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(error as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter(&program).unwrap();
}

/// Refuses to open files, with EACCES.
pub fn refuse_files() {
    let calls = [
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_openat2,
    ];
    refuse(&calls, libc::EACCES);
    let open = std::fs::File::open("/proc/self/status");
    let refused = std::io::ErrorKind::PermissionDenied;
    assert_eq!(open.map(drop).map_err(|error| error.kind()), Err(refused));
}

/// The cpus that this thread may run on, ascending.
pub fn mask() -> Vec<u32> {
    let mask = rustix::thread::sched_getaffinity(None).unwrap();
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
    cpus.filter(|&cpu| mask.is_set(cpu))
        .map(|cpu| cpu as u32)
        .collect()
}
