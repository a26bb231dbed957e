//! Forks of this process. A child of `fork` has the memory of its parent, but only the thread that forked: a pool of
//! threads that it takes over answers nothing, and says nothing.

/// Stands for the process that made it: [`Process::is_this`] does not hold in its forks.
///
/// ```
/// let process = chiplet_topology::Process::this();
/// assert!(process.is_this());
/// ```
///
/// It costs a load of a number that no one writes. Forks are seen that the C library makes (`fork`), on Linux;
/// elsewhere, and after a bare `clone`, it holds in the child too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    forks: u32,
}

impl Process {
    /// The calling process.
    #[must_use]
    pub fn this() -> Self {
        Self {
            forks: counter::count(),
        }
    }

    /// Whether this is the process that was asked for, and no fork of it.
    #[must_use]
    #[inline]
    pub fn is_this(self) -> bool {
        self.forks == counter::known()
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the C library tells of forks by a callback")]
mod counter {
    use std::sync::Once;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Forks between the process in which they were first counted and this one.
    static FORKS: AtomicU32 = AtomicU32::new(0);

    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts from the first call on.
    pub(super) fn count() -> u32 {
        static BEGUN: Once = Once::new();
        BEGUN.call_once(|| {
            // SAFETY: the callback runs in the child, where only what is safe in a signal handler may be called: it
            // adds to an atomic. It is in this library, which is never unloaded.
            let refused = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
            // ENOMEM is the only reason; forks go unseen then.
            debug_assert_eq!(refused, 0);
        });
        known()
    }

    #[inline]
    pub(super) fn known() -> u32 {
        FORKS.load(Ordering::Relaxed)
    }
}

#[cfg(not(target_os = "linux"))]
mod counter {
    pub(super) fn count() -> u32 {
        0
    }

    pub(super) fn known() -> u32 {
        0
    }
}
