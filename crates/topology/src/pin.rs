//! Pinning threads to cpus, and saying what was really granted.
//!
//! On Linux a thread's mask is set and read back, so that the answer is the kernel's and not a hope: a
//! cpuset may take cpus away from what was asked for. Elsewhere a thread can at best be tied to one
//! cpu, and nothing can be read back. Failing to pin is a value to report, never a panic: a worker that
//! floats is slower, not wrong.

use crate::cpuset::{CpuSet, cpu_ranges};
use std::fmt;
use std::str::FromStr;

/// What a worker is tied to.
///
/// ```
/// use chiplet_topology::pin::Pin;
/// assert_eq!(Pin::default(), Pin::Domain);
/// assert_eq!("core".parse::<Pin>()?, Pin::Core);
/// # Ok::<(), chiplet_topology::pin::PinError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pin {
    /// All cpus of its domain: the system may move it, but not away from its cache.
    #[default]
    Domain,
    /// The cpus of one core.
    Core,
    /// Nothing.
    None,
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Domain => "domain",
            Self::Core => "core",
            Self::None => "none",
        })
    }
}

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        match text {
            "domain" => Ok(Self::Domain),
            "core" => Ok(Self::Core),
            "none" => Ok(Self::None),
            other => Err(PinError::UnknownMode(other.to_owned())),
        }
    }
}

/// Why a thread was not pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// No cpu was named.
    #[error("a thread cannot be pinned to no cpu at all")]
    NoCpus,
    /// A cpu number that the system's interface cannot express.
    #[error(
        "cpu {cpu} is beyond {max}, the largest that this system can pin to; use Pin::None on this machine"
    )]
    TooLarge {
        /// The cpu that was asked for.
        cpu: u32,
        /// The largest that can be expressed.
        max: u32,
    },
    /// The system refused.
    #[error("the system refused to pin a thread to cpus {cpus}: {reason}")]
    Refused {
        /// The cpus that were asked for, as ranges.
        cpus: String,
        /// What the system said.
        reason: String,
    },
    /// Not `domain`, `core` or `none`.
    #[error("there is no pinning mode \"{0}\": say domain, core or none")]
    UnknownMode(String),
}

/// Ties the calling thread to `cpus` and returns what was granted, ascending.
///
/// On Linux the granted cpus are read back and may be fewer than asked for. Elsewhere the thread is
/// tied to the first of `cpus`, as well as the system can.
///
/// ```
/// use chiplet_topology::pin::{current_affinity, pin_current_thread};
/// // From a thread of its own, so that this one stays as it is.
/// std::thread::spawn(|| {
///     let may_use = current_affinity();
///     match pin_current_thread(&may_use[..1]) {
///         Ok(granted) => println!("pinned to {granted:?}"),
///         Err(error) => eprintln!("floating: {error}"),
///     }
/// })
/// .join()
/// .unwrap();
/// ```
///
/// # Errors
/// [`PinError::NoCpus`] for an empty slice, [`PinError::TooLarge`] for a number over the system's
/// limit (1023 with Linux's fixed-size mask), [`PinError::Refused`] if none of the cpus may be used or
/// the system cannot pin.
pub fn pin_current_thread(cpus: &[u32]) -> Result<Vec<u32>, PinError> {
    if cpus.is_empty() {
        return Err(PinError::NoCpus);
    }
    system::pin(None, cpus)
}

/// The cpus that the calling thread may run on, ascending; empty if the system does not tell.
pub fn current_affinity() -> Vec<u32> {
    affinity_set().unwrap_or_default().into_iter().collect()
}

/// The calling thread's mask, or `None` if the system does not tell.
pub(crate) fn affinity_set() -> Option<CpuSet> {
    system::affinity(None)
}

/// Whether the system answers a thread that asks for its mask, be it that the mask is longer than was asked for.
#[cfg(feature = "hwloc")]
pub(crate) fn tells_masks() -> bool {
    system::tells_masks()
}

/// A thread of this process that others can pin while it runs. It names the thread, and does not keep it: use it only
/// while the thread is known to live, for the system gives numbers anew.
///
/// ```
/// use chiplet_topology::pin::Thread;
/// if let Some(this) = Thread::current() {
///     println!("may run on {:?}", this.affinity());
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread(system::Number);

impl Thread {
    /// The calling thread; `None` where the system cannot pin one thread from another (all but Linux).
    pub fn current() -> Option<Self> {
        system::this_thread().map(Self)
    }

    /// Ties it to `cpus` and returns what was granted, ascending; see [`pin_current_thread`].
    ///
    /// # Errors
    /// As [`pin_current_thread`], and [`PinError::Refused`] if the thread has ended.
    pub fn pin(&self, cpus: &[u32]) -> Result<Vec<u32>, PinError> {
        if cpus.is_empty() {
            return Err(PinError::NoCpus);
        }
        system::pin(Some(self.0), cpus)
    }

    /// The cpus it may run on, ascending; `None` if the system does not tell or the thread has ended.
    pub fn affinity(&self) -> Option<Vec<u32>> {
        system::affinity(Some(self.0)).map(|cpus| cpus.into_iter().collect())
    }
}

fn refused(cpus: &[u32], reason: impl fmt::Display) -> PinError {
    PinError::Refused {
        cpus: cpu_ranges(cpus),
        reason: reason.to_string(),
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::{PinError, refused};
    use crate::cpuset::{self, CpuSet};
    use rustix::thread::{CpuSet as Mask, Pid};

    pub(super) type Number = Pid;

    pub(super) fn this_thread() -> Option<Number> {
        Some(rustix::thread::gettid())
    }

    /// Of this thread, or another of this process.
    pub(super) fn pin(thread: Option<Number>, cpus: &[u32]) -> Result<Vec<u32>, PinError> {
        let max = Mask::MAX_CPU as u32 - 1;
        if let Some(&cpu) = cpus.iter().find(|&&cpu| cpu > max) {
            return Err(PinError::TooLarge { cpu, max });
        }
        let mut mask = Mask::new();
        for &cpu in cpus {
            mask.set(cpu as usize);
        }
        rustix::thread::sched_setaffinity(thread, &mask).map_err(|error| refused(cpus, error))?;
        affinity(thread)
            .map(|granted| granted.into_iter().collect())
            .ok_or_else(|| refused(cpus, "the mask cannot be read back"))
    }

    #[cfg(feature = "hwloc")]
    pub(super) fn tells_masks() -> bool {
        let mask = rustix::thread::sched_getaffinity(None);
        mask.is_ok() || mask == Err(rustix::io::Errno::INVAL)
    }

    /// The mask by the system call, or, on a machine whose masks are longer than the call's fixed size
    /// (it then fails with EINVAL), as `/proc` tells it.
    pub(super) fn affinity(thread: Option<Number>) -> Option<CpuSet> {
        if let Ok(mask) = rustix::thread::sched_getaffinity(thread) {
            return Some(
                (0..Mask::MAX_CPU)
                    .filter(|&cpu| mask.is_set(cpu))
                    .map(|cpu| cpu as u32)
                    .collect(),
            );
        }
        let path = match thread {
            None => "/proc/thread-self/status".to_owned(),
            Some(thread) => format!("/proc/self/task/{}/status", thread.as_raw_nonzero()),
        };
        let status = std::fs::read_to_string(path).ok()?;
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        cpuset::parse_list(list).ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{PinError, refused};
    use crate::cpuset::CpuSet;

    pub(super) type Number = std::convert::Infallible;

    pub(super) fn this_thread() -> Option<Number> {
        None
    }

    pub(super) fn pin(_: Option<Number>, cpus: &[u32]) -> Result<Vec<u32>, PinError> {
        if core_affinity::set_for_current(core_affinity::CoreId {
            id: cpus[0] as usize,
        }) {
            Ok(vec![cpus[0]])
        } else {
            Err(refused(cpus, "this system does not pin threads"))
        }
    }

    #[cfg(feature = "hwloc")]
    pub(super) fn tells_masks() -> bool {
        true
    }

    pub(super) fn affinity(_: Option<Number>) -> Option<CpuSet> {
        Some(
            core_affinity::get_core_ids()?
                .into_iter()
                .map(|core| core.id as u32)
                .collect(),
        )
    }
}
