//! How the program tells the plugin what it is about to do: it writes to a page whose address both know. The plugin
//! sees that in an emulated process and on an emulated machine, where it sees no system calls.

use std::io;

/// Where the page lies: far from where systems put programs, their libraries and stacks.
const PAGE: u64 = 0x63_6869_7000;
const PAGE_BYTES: u64 = 4096;

/// What begins; its number is the byte of the page that is written.
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
    /// The phase that a write to `address` marks.
    #[must_use]
    #[inline]
    pub fn at(address: u64) -> Option<Self> {
        if !(PAGE..PAGE + PAGE_BYTES).contains(&address) {
            return None;
        }
        [Self::Warm, Self::Measured, Self::Over]
            .into_iter()
            .find(|&phase| PAGE + phase as u64 == address)
    }
}

/// The page. There is one at a time in a process.
pub struct Marker(());

impl Marker {
    /// Maps the page.
    ///
    /// # Errors
    /// If the system refuses, or something else lies there already.
    #[allow(unsafe_code, reason = "memory at a fixed address")]
    pub fn new() -> io::Result<Self> {
        let wanted: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(PAGE as usize);
        let (bytes, access) = (PAGE_BYTES as usize, libc::PROT_READ | libc::PROT_WRITE);
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: without MAP_FIXED the address is a wish: the system replaces nothing that is mapped.
        let mapped = unsafe { libc::mmap(wanted, bytes, access, kind, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if mapped.expose_provenance() != PAGE as usize {
            // SAFETY: the pages that this call has just been given, which nobody knows.
            unsafe { libc::munmap(mapped, bytes) };
            return Err(io::Error::other(format!(
                "the page at {PAGE:#x}, by which the plugin is told of phases, is taken"
            )));
        }
        Ok(Self(()))
    }

    /// Tells the plugin; without it nothing happens.
    #[allow(unsafe_code, reason = "a write that the plugin sees")]
    pub fn tell(&self, phase: Phase) {
        let byte: *mut u8 = std::ptr::with_exposed_provenance_mut((PAGE + phase as u64) as usize);
        // SAFETY: a byte of the page, which stays mapped while this value is there, and which nobody reads.
        unsafe { byte.write_volatile(1) };
    }
}

impl Drop for Marker {
    #[allow(unsafe_code, reason = "memory at a fixed address")]
    fn drop(&mut self) {
        let page: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(PAGE as usize);
        // SAFETY: the page that `new` was given; only `tell` uses it, and that borrows this value.
        unsafe { libc::munmap(page, PAGE_BYTES as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_to_the_page_marks_its_phase_and_no_other_write_marks_any() {
        for phase in [Phase::Warm, Phase::Measured, Phase::Over] {
            assert_eq!(Phase::at(PAGE + phase as u64), Some(phase));
        }
        for address in [PAGE - 1, PAGE, PAGE + 4, PAGE + PAGE_BYTES + 1, 1] {
            assert_eq!(Phase::at(address), None);
        }
    }

    #[test]
    fn there_is_one_page_at_a_time() {
        let marker = Marker::new().unwrap();
        marker.tell(Phase::Warm);
        assert!(Marker::new().is_err(), "it is taken");
        marker.tell(Phase::Over);
        drop(marker);
        assert!(Marker::new().is_ok());
    }
}
