//! The shipped executor on emulated caches: `make caches`. `results/lab/2026-11/emulated-caches.md` says what is
//! modelled.

pub mod emulator;
pub mod marker;
pub mod model;
pub mod pace;
pub mod record;
pub mod seen;
pub mod spread;
pub mod tables;
