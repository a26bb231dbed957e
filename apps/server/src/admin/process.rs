//! What the operating system says of this process, in Prometheus' names.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};

/// Figures of the process; absent where the system does not tell.
pub(crate) struct Process {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) start_seconds: f64,
    pub(crate) threads: u64,
    pub(crate) open_fds: u64,
}

impl Process {
    /// Reads `/proc/self` (Linux).
    pub(crate) fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let boot = fs::read_to_string("/proc/stat").ok()?;
        let open_fds = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
        let (_, fields) = stat.rsplit_once(')')?;
        // proc_pid_stat(5) counts fields from 1; the first after the name is the third.
        let field = |number: usize| -> Option<u64> {
            fields.split_whitespace().nth(number - 3)?.parse().ok()
        };
        let tick = 1.0 / clock_ticks_per_second() as f64;
        let boot_seconds: f64 = boot
            .lines()
            .find_map(|line| line.strip_prefix("btime "))?
            .trim()
            .parse()
            .ok()?;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 * tick,
            threads: field(20)?,
            start_seconds: boot_seconds + field(22)? as f64 * tick,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_size() as u64,
            open_fds,
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs() {
        let process = Process::read().unwrap();
        assert!(process.resident_bytes > 1 << 20);
        assert!(process.virtual_bytes >= process.resident_bytes);
        assert!(process.threads >= 1 && process.open_fds >= 3);
        assert!(process.start_seconds > 1e9);
    }
}
