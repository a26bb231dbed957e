//! A machine that shows several L3 domains: Linux under QEMU, software emulation, no KVM.
//!
//! A program packs itself and its shared libraries into an initramfs ([`Image`]), boots a kernel with it and reads the
//! serial line ([`Boot`]). The kernel runs the same program as its first process ([`init`]).
#![cfg(target_os = "linux")]

mod boot;
mod image;
pub mod init;

pub use self::boot::{Boot, Outcome, Shape, kernel};
pub use self::image::Image;
