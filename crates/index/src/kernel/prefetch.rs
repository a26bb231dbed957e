//! A hint that some bytes will be read.

use std::sync::OnceLock;

/// Bytes of a cache line, on every processor that this is for.
const LINE: usize = 64;

/// Hints that `lines` cache lines of `bytes`, from byte `at` on, will be read soon. Does nothing past the end, or where the
/// processor has no such hint.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], at: usize, lines: usize) {
    if let Some(first) = bytes.get(at) {
        prefetch_at(first, lines);
    }
}

/// Hints that `lines` cache lines will be read soon, the first one being that of `first`.
#[inline(always)]
pub(crate) fn prefetch_at<T>(first: &T, lines: usize) {
    if !enabled() {
        return;
    }
    let start = std::ptr::from_ref(first).cast::<u8>();
    for line in 0..lines {
        let line = start.wrapping_add(line * LINE);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has SSE, and a prefetch of any address reads nothing.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// Whether hints are given: yes, unless the environment variable `CHIPLET_PREFETCH` is `off`, to measure what they bring.
#[inline(always)]
fn enabled() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| std::env::var_os("CHIPLET_PREFETCH").is_none_or(|asked| asked != "off"))
}
