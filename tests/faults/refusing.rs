//! An allocator that refuses memory to a thread that asks for that.
#![allow(
    unsafe_code,
    reason = "a global allocator that can refuse is an unsafe trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Refusing;

thread_local! {
    /// Allocations that this thread is granted yet; `None` for all. Needs no memory and no destructor itself.
    static GRANTED: Cell<Option<usize>> = const { Cell::new(None) };
    static REFUSED: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread's next allocation is refused.
fn refuses() -> bool {
    match GRANTED.get() {
        None => false,
        Some(0) => {
            REFUSED.set(REFUSED.get() + 1);
            true
        }
        Some(left) => {
            GRANTED.set(Some(left - 1));
            false
        }
    }
}

// SAFETY: every call is handed on to the system's allocator as it came or answered with null, which `alloc` may always
// do. The default `realloc` and `alloc_zeroed` go through `alloc`, so they are refused too, and a refused `realloc`
// leaves its block as it was. Nothing here allocates or unwinds.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract, and the block is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Runs `code` with its first `granted` allocations on this thread, and no more. Returns what it returns, and how many
/// allocations were refused. Code that cannot go on without one ends the process.
pub fn with_allocations<T>(granted: usize, code: impl FnOnce() -> T) -> (T, usize) {
    REFUSED.set(0);
    GRANTED.set(Some(granted));
    let result = code();
    GRANTED.set(None);
    (result, REFUSED.get())
}
