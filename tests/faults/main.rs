//! Faults, injected for real: the kernel refuses threads, pinning and files to a child process, and the allocator
//! refuses memory to the submitting thread. Each ends in an error that says what to do, or in a fallback that the
//! documents name.
//!
//! Each test says what it has verified in a line of its own, which `--nocapture` shows.

#[cfg(target_os = "linux")]
mod child;
#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod forks;
#[cfg(target_os = "linux")]
mod kernel;
mod memory;
#[cfg(target_os = "linux")]
mod pinning;
mod refusing;
#[cfg(target_os = "linux")]
mod threads;
#[cfg(target_os = "linux")]
mod warnings;

fn verified(what: &str) {
    println!("verify: fault: {what} | 1 fault | ");
}
