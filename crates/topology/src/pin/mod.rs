//! Pinning threads to cpus, and saying what was really granted.
//!
//! On Linux a thread's mask is set and read back, so that the answer is the kernel's and not a hope: a
//! cpuset may take cpus away from what was asked for. Elsewhere a thread can at best be tied to one
//! cpu, and nothing can be read back. Failing to pin is a value to report, never a panic: a worker that
//! floats is slower, not wrong.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "other.rs")]
mod system;

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
    /// A cpu number that no system has.
    #[error("cpu {cpu} is beyond {max}, the largest number that is believed")]
    TooLarge {
        /// The cpu that was asked for.
        cpu: u32,
        /// The largest that is believed.
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
/// [`PinError::NoCpus`] for an empty slice, [`PinError::TooLarge`] for a number over the
/// largest that is believed (65535), [`PinError::Refused`] if none of the cpus may be used or
/// the system cannot pin.
pub fn pin_current_thread(cpus: &[u32]) -> Result<Vec<u32>, PinError> {
    if cpus.is_empty() {
        return Err(PinError::NoCpus);
    }
    system::pin(None, cpus)
}

/// Runs `code` with the cpu affinity of the process's main thread, and gives the calling thread its own back.
///
/// The system hands a thread's affinity down to the threads and processes that it starts. So whatever a pinned thread
/// starts stays on its cpus for good, unless it is started here. Do nothing else in `code`: an executor ties its
/// workers again within a second. Where affinity is not handed down (all but Linux), it only runs `code`.
///
/// ```
/// use std::process::Command;
/// use chiplet_topology::pin::unpinned;
/// let child = unpinned(|| Command::new("true").spawn())??;
/// # { child }.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`PinError`] if the system does not tell or set affinities; `code` has not run then.
pub fn unpinned<R>(code: impl FnOnce() -> R) -> Result<R, PinError> {
    struct Pinned(Vec<u32>);
    impl Drop for Pinned {
        fn drop(&mut self) {
            // What was granted once may be refused only since the cpus have gone: then the thread floats.
            let _ = pin_current_thread(&self.0);
        }
    }
    let Some(main) = system::main_thread() else {
        return Ok(code());
    };
    let _pinned = Pinned(current_affinity());
    pin_current_thread(&Thread(main).affinity().unwrap_or_default())?;
    Ok(code())
}

/// The cpus that the calling thread may run on, ascending; empty if the system does not tell.
pub fn current_affinity() -> Vec<u32> {
    affinity_set().unwrap_or_default().into_iter().collect()
}

/// The cpu that the calling thread is on just now; `None` if the system does not tell (all but Linux).
pub fn current_cpu() -> Option<u32> {
    system::current_cpu()
}

/// The calling thread's mask, or `None` if the system does not tell.
pub(crate) fn affinity_set() -> Option<CpuSet> {
    system::affinity(None)
}

/// Whether the system answers a thread that asks for its mask by the system call, as hwloc does.
#[cfg(feature = "hwloc")]
pub(crate) fn tells_masks() -> bool {
    system::tells_masks()
}

/// A thread of this process that others can pin while it runs. It does not keep the thread alive. Use it only while the
/// thread is known to live: the system reuses the numbers of threads that ended.
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
