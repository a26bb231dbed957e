//! chiplet on a real kernel that shows several L3 domains: Linux under QEMU, software emulation, no KVM.
//!
//! The test program is both sides. Run as a test, it packs itself and its shared libraries into an initramfs, boots a
//! kernel with it and reads the serial line (`host.rs`). Run by that kernel as its first process, it checks detection,
//! pinning, placement and what happens when cpus are taken away (`guest.rs`).
//!
//! `cargo test --test vm` boots 2 x 8 cores, `cargo test --test vm -- large` 12 x 8. Without QEMU or a kernel
//! (`scripts/vm-kernel.sh`) it says so and does nothing.

#[cfg(target_os = "linux")]
mod guest;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod serving;

#[cfg(target_os = "linux")]
fn main() {
    if std::process::id() == 1 {
        guest::main();
    } else {
        host::main();
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("vm: skipped: it boots this very program, which has to be one for Linux");
}
