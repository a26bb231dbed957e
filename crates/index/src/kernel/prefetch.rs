//! A hint that some bytes will be read. Any address will do, as nothing is read.

use std::sync::OnceLock;

/// Bytes of a cache line, on every processor that this is for.
const LINE: usize = 64;

/// Cache lines that are asked for; the processor's own prefetcher follows what is longer.
const MOST: usize = 16;

/// Hints that `count` bytes from `at` on will be read soon. Does nothing where the processor has no such hint.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T, count: usize) {
    if !enabled() {
        return;
    }
    let start = at.cast::<u8>();
    let count = count.min(MOST * LINE);
    // As many hints wherever the bytes begin: whether rows of 48 bytes lie in one line or in two cannot be guessed, and
    // a wrong guess costs more than asking for a line twice.
    for line in 0..count.div_ceil(LINE) {
        hint(start.wrapping_add(line * LINE));
    }
    hint(start.wrapping_add(count.saturating_sub(1)));
}

#[inline(always)]
fn hint(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE, and a prefetch of any address reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every aarch64 processor has this instruction. It changes nothing but caches, and a prefetch of any
    // address reads nothing and does not fault. Stable Rust has no intrinsic for it.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Whether hints are given: yes, unless the environment variable `CHIPLET_PREFETCH` is `off`, to measure what they
/// bring.
#[inline(always)]
fn enabled() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| std::env::var_os("CHIPLET_PREFETCH").is_none_or(|asked| asked != "off"))
}
