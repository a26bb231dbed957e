//! Tests that change their process or measure it: its limit and mask of files, its memory, its subscriber of spans.
//! They run one at a time.

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "otel")]
mod export;
mod files;
#[cfg(unix)]
mod private;

use parking_lot::Mutex;

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());
