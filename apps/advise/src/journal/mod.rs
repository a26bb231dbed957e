//! The journal: what was changed, what was there before, and what came of it.
//!
//! | file | holds |
//! |---|---|
//! | `entry.rs` | the entries, one line of JSON each |
//! | `file.rs` | the file: appending, and what a torn last line is |
//! | `history.rs` | the entries put together by change; queries by instance, service and node |
//!
//! 1. Before a change is made, its entry is written and synced: the group, what each file holds, what is to be written.
//! 2. The change is made.
//! 3. That it is done is written and synced; later what it gained, or that it was rolled back.
//!
//! A process that is killed between any two steps leaves an entry whose change may or may not have been made. Both are
//! undone alike, by writing what was there before. A line without its end was never synced, so nothing was done on its
//! account: readers pass over it, and the next writer cuts it off.

mod entry;
mod file;
mod history;

pub(crate) use entry::Event;
pub use entry::{CpusetFile, Kind, Outcome, Planned, Write};
pub use file::{Journal, JournalError};
pub use history::{History, Record, State};
