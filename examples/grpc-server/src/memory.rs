//! How much memory points and indexes may take together: beyond it writes are refused, not the process killed.

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Budget {
    used: AtomicU64,
    limit: u64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            used: AtomicU64::new(0),
            limit,
        }
    }

    /// Takes memory that there is a choice about; false if that would be too much.
    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|&total| total <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Takes memory that is in use already.
    pub(crate) fn take(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }
}

/// Memory this process may use: the machine's, or the container's if that is less.
pub(crate) fn available() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(u64::MAX, |kib| kib.saturating_mul(1024));
    let limits = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let container = limits
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok())
        .min()
        .unwrap_or(u64::MAX);
    machine.min(container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_exceeded_by_choice() {
        let budget = Budget::new(10);
        assert!(budget.try_take(6));
        assert!(!budget.try_take(5));
        assert!(!budget.try_take(u64::MAX));
        budget.give_back(1);
        assert!(budget.try_take(5));
        assert_eq!((budget.used(), budget.limit()), (10, 10));
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available() > 1 << 20);
    }
}
