//! Tests of the advisor, in one program: `cargo test --test it balance::` runs those of a file.

mod advice;
mod balance;
#[cfg(target_os = "linux")]
mod changes;
#[cfg(target_os = "linux")]
mod hostile;
#[path = "../common/inputs.rs"]
mod inputs;
#[cfg(target_os = "linux")]
mod killed;
mod machines;
mod peak_day;

use inputs::common;
