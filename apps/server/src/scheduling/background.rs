//! Where work that nobody waits for runs: at the lowest priority, and away from the searches' caches.
//!
//! A build reads and writes far more than a cache holds, so wherever it runs that cache is lost to searches. It is
//! kept to one place: the cores that are left to the network if there are any, else the domain with the least
//! traffic at that moment.

use std::sync::{Arc, Weak};

use super::{Scheduler, cores};

/// The lowest priority that still makes progress on a busy machine (SCHED_IDLE might not).
const NICE: i32 = 19;

#[derive(Clone)]
pub(crate) struct Background {
    scheduler: Weak<Scheduler>,
    left_free: Arc<[u32]>,
}

impl Background {
    pub(crate) fn new(scheduler: &Arc<Scheduler>) -> Self {
        no_helpers();
        Self {
            left_free: scheduler
                .executor()
                .map(chiplet::Executor::free_cpus)
                .unwrap_or_default()
                .into(),
            scheduler: Arc::downgrade(scheduler),
        }
    }

    /// The cpus that are left to the network, if any.
    pub(crate) fn left_free(&self) -> &[u32] {
        &self.left_free
    }

    /// Makes the calling thread a background thread, at the place that is best now.
    pub(crate) fn settle(&self) {
        // On Linux a thread has a priority of its own. Refused or not there: then at the usual one.
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::debug!(%error, "a background thread keeps its priority");
        }
        one_thread_each();
        if !self.left_free.is_empty() {
            cores::settle(&self.left_free);
        } else if let Some(scheduler) = self.scheduler.upgrade()
            && let Some(executor) = scheduler.executor()
        {
            cores::settle(&coldest(executor));
        }
    }
}

/// The cpus of the domain that pulls the least from memory; none if there is only one domain.
fn coldest(executor: &chiplet::Executor) -> Vec<u32> {
    let domains = executor.topology().domains();
    if domains.len() < 2 || !executor.topology().is_this_machine() {
        return Vec::new();
    }
    let mut traffic = vec![0.0; domains.len()];
    for table in executor.snapshot().tables {
        for home in table.homes.iter() {
            if let Some(sum) = traffic.get_mut(home.domain.0 as usize) {
                *sum += table.traffic.slow * home.share();
            }
        }
    }
    let coldest = (0..domains.len()).min_by(|&a, &b| traffic[a].total_cmp(&traffic[b]));
    coldest.map_or_else(Vec::new, |domain| domains[domain].cpus())
}

/// Faiss trains with as many OpenMP threads as there are cpus; this thread's loops shall have one.
#[cfg(feature = "ivf")]
#[expect(
    unsafe_code,
    reason = "OpenMP has no binding that links the Faiss build's own runtime"
)]
fn one_thread_each() {
    unsafe extern "C" {
        fn omp_set_num_threads(threads: std::ffi::c_int);
    }
    // SAFETY: the function is OpenMP's (the runtime that Faiss is linked with), takes one int, and sets a variable of
    // the calling thread.
    unsafe { omp_set_num_threads(1) }
}

/// OpenBLAS, if that is the BLAS here, has threads of its own, which started with the process: neither the priority nor
/// the place of a background thread is theirs. And they are not for a process that may exit while they compute:
/// OpenBLAS tells them to stop and joins them, and the one that computes forgets that it was told (seen with 0.3.21).
#[cfg(feature = "ivf")]
#[expect(
    unsafe_code,
    reason = "whether the BLAS is OpenBLAS is known at run time only"
)]
fn no_helpers() {
    // SAFETY: the name ends in a zero; whatever is found stays loaded, as the process is linked with it.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"openblas_set_num_threads".as_ptr()) };
    if found.is_null() {
        return;
    }
    // SAFETY: OpenBLAS' function of this name takes an int and returns nothing.
    let set_threads: extern "C" fn(std::ffi::c_int) = unsafe { std::mem::transmute(found) };
    set_threads(1);
}

#[cfg(not(feature = "ivf"))]
fn one_thread_each() {}

#[cfg(not(feature = "ivf"))]
fn no_helpers() {}
