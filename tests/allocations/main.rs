//! What tasks, blocks and tables cost the allocator. A program of its own, whose tests run one at a time, as the
//! counters are the whole process's.
#![allow(
    unsafe_code,
    reason = "a global allocator that counts is an unsafe trait"
)]

mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod memory;
mod tasks;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

struct Counting;

/// Allocations made so far.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Bytes that are allocated now.
static HELD: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is handed on to the system's allocator as it came; the default `realloc` and
// `alloc_zeroed` go through `alloc` and `dealloc`, so they count too.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        HELD.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps `dealloc`'s contract, and the block is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());
