//! How the program tells the plugin what it is about to do: a `prctl` that no kernel knows.

/// The option that marks a phase; the kernel answers EINVAL.
pub const OPTION: u64 = 0x6368_6970;

/// What begins, as the second argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Phase {
    /// Caches are modelled, and counted for nothing.
    Warm = 1,
    /// Counting begins.
    Measured = 2,
    /// Counting ends, and modelling.
    Over = 3,
}

impl Phase {
    /// The phase that an argument means.
    #[must_use]
    pub fn of(argument: u64) -> Option<Self> {
        [Self::Warm, Self::Measured, Self::Over]
            .into_iter()
            .find(|&phase| phase as u64 == argument)
    }
}

/// Tells it; without the plugin nothing happens.
#[allow(unsafe_code, reason = "a system call that the plugin sees")]
pub fn tell(phase: Phase) {
    #[cfg(not(target_os = "linux"))]
    let _ = phase;
    #[cfg(target_os = "linux")]
    // SAFETY: the kernel knows no such option, and reads and writes nothing.
    unsafe {
        libc::prctl(OPTION as libc::c_int, phase as libc::c_ulong, 0, 0, 0)
    };
}
