//! The shipped executor on emulated caches: `make caches`. `docs/emulated-caches.md` says what is modelled.

pub mod emulator;
pub mod marker;
pub mod model;
pub mod pace;
pub mod record;
pub mod seen;
pub mod spread;
pub mod tables;
