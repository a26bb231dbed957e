//! How much memory the server may take: beyond it requests are refused, not the process killed.
//!
//! What is *kept*, points and indexes, and what is *in flight*, requests and answers under way, count together. A part
//! of the limit is left to what is in flight, so that a server that is full of points can still be asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The part of the limit that points and indexes leave to requests.
const LEFT_TO_REQUESTS: u64 = 8;

pub(crate) struct Budget {
    used: Mutex<Used>,
    limit: u64,
}

#[derive(Default)]
struct Used {
    kept: u64,
    in_flight: u64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            used: Mutex::default(),
            limit,
        }
    }

    /// Takes memory to be kept, which there is a choice about; false if that would be too much.
    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let mut used = self.used.lock();
        let in_flight = used.in_flight.max(self.limit / LEFT_TO_REQUESTS);
        let fits = fits(&[used.kept, in_flight, bytes], self.limit);
        if fits {
            used.kept += bytes;
        }
        fits
    }

    /// Takes memory for points that were stored before this process began; false if there is not as much. They may have
    /// what is left to requests too.
    pub(crate) fn try_load(&self, bytes: u64) -> bool {
        let mut used = self.used.lock();
        let fits = fits(&[used.kept, used.in_flight, bytes], self.limit);
        if fits {
            used.kept += bytes;
        }
        fits
    }

    /// Takes memory that is in use already.
    pub(crate) fn take(&self, bytes: u64) {
        self.used.lock().kept += bytes;
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.lock().kept -= bytes;
    }

    /// Memory of points and indexes.
    pub(crate) fn kept(&self) -> u64 {
        self.used.lock().kept
    }

    /// Memory that is taken, by whatever.
    pub(crate) fn used(&self) -> u64 {
        let used = self.used.lock();
        used.kept + used.in_flight
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }
}

fn fits(parts: &[u64], limit: u64) -> bool {
    let sum = parts
        .iter()
        .try_fold(0_u64, |sum, &part| sum.checked_add(part));
    sum.is_some_and(|sum| sum <= limit)
}

/// Memory of something that stays: points, indexes. Given back when it is dropped.
pub(crate) struct Kept {
    budget: Arc<Budget>,
    bytes: AtomicU64,
}

impl Kept {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Takes more; false if there is not as much.
    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let fits = self.budget.try_take(bytes);
        if fits {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// [`Budget::try_load`].
    pub(crate) fn try_load(&self, bytes: u64) -> bool {
        let fits = self.budget.try_load(bytes);
        if fits {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Takes over what the budget has given to somebody else already, and gives back what is no longer needed.
    pub(crate) fn exchange(&self, more: u64, less: u64) {
        self.bytes.fetch_add(more, Ordering::Relaxed);
        self.bytes.fetch_sub(less, Ordering::Relaxed);
        self.budget.give_back(less);
    }

    /// Counts so much instead of what it was; it is in use already.
    pub(crate) fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.budget.take(bytes);
        self.budget.give_back(before);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.give_back(*self.bytes.get_mut());
    }
}

/// What a request or its answer takes while it is under way; given back when it is dropped.
pub(crate) struct InFlight {
    budget: Arc<Budget>,
    bytes: AtomicU64,
}

impl InFlight {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes: AtomicU64::new(0),
        }
    }

    /// Takes more; false if there is not as much.
    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let mut used = self.budget.used.lock();
        let fits = fits(&[used.kept, used.in_flight, bytes], self.budget.limit);
        if fits {
            used.in_flight += bytes;
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        fits
    }

    pub(crate) fn limit(&self) -> u64 {
        self.budget.limit
    }
}

impl Default for InFlight {
    /// Of nobody's memory.
    fn default() -> Self {
        Self::new(&Arc::new(Budget::new(u64::MAX)))
    }
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InFlight({:?} bytes)", self.bytes)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.budget.used.lock().in_flight -= *self.bytes.get_mut();
    }
}

/// Memory this process may use: the machine's, or that of its control group if that is less.
pub(crate) fn available() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(u64::MAX, |kib| kib.saturating_mul(1024));
    let group = chiplet_topology::memory_limit("/").unwrap_or(u64::MAX);
    machine.min(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_exceeded_by_choice() {
        let budget = Budget::new(80);
        assert!(budget.try_take(60));
        assert!(!budget.try_take(11));
        assert!(!budget.try_take(u64::MAX));
        budget.give_back(1);
        assert!(budget.try_take(11), "an eighth is left to requests");
        assert!(!budget.try_load(11) && budget.try_load(10));
        assert_eq!((budget.used(), budget.limit()), (80, 80));
    }

    #[test]
    fn requests_have_what_points_leave_and_an_eighth_always() {
        let budget = Arc::new(Budget::new(80));
        let one = InFlight::new(&budget);
        assert!(one.try_take(30) && !one.try_take(51));
        assert!(budget.try_take(50) && !budget.try_take(1));
        let other = InFlight::new(&budget);
        assert!(!other.try_take(1));
        drop(one);
        assert_eq!(budget.used(), 50);
        assert!(budget.try_take(20) && !budget.try_take(1));
        assert!(other.try_take(4) && other.try_take(6) && !other.try_take(1));
        drop(other);
        assert_eq!(budget.used(), 70);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available() > 1 << 20);
    }
}
