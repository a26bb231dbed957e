//! This process as the kernel sees it.

use std::time::{Duration, Instant};

/// Threads now.
pub fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists a process's threads");
    tasks.count()
}

/// Threads once there are no more than `most`, or after `patience`: one that has been joined may still be listed for
/// a moment.
pub fn threads_at_most(most: usize, patience: Duration) -> usize {
    let begun = Instant::now();
    loop {
        let now = threads();
        if now <= most || begun.elapsed() > patience {
            return now;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Resident memory now, in bytes.
pub fn resident_bytes() -> u64 {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("Linux shows a process's memory");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .expect("VmRSS is in kB")
        * 1_024
}
