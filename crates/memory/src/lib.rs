//! Memory that a table owns: [`Region`]s with huge pages, filled in place or mapped from a file.
//!
//! A table of tens of megabytes in 4 KiB pages needs more page-table entries than a core caches, so a search misses in the TLB
//! as often as in the cache. The allocator of the process cannot be told which blocks want huge pages, and it neither maps
//! files nor says what the kernel gave. A region does all three.
//!
//! ```
//! use chiplet_memory::{Pages, Region};
//!
//! let mut region = Region::new(8 << 20, Pages::Transparent)?;
//! region.populate(|done, total| println!("{done} of {total} bytes"))?;
//! let bytes = region.as_mut_slice().expect("a region of its own memory can be written");
//! bytes[..4].copy_from_slice(&1.5f32.to_le_bytes());
//! assert_eq!(region.as_slice()[4..], [0; (8 << 20) - 4]);
//! # Ok::<(), chiplet_memory::MemoryError>(())
//! ```
//!
//! # Where a region lies
//!
//! | bytes | memory | aligned to |
//! |---|---|---|
//! | under 64 KiB | the heap | [`ALIGNMENT`], 64 bytes |
//! | under 1 MiB | whole pages, whatever [`Pages`] says | a page |
//! | 1 MiB and more | as [`Pages`] says; a last part of at least 1 MiB gets a huge page, a smaller one small pages | 2 MiB, a page with [`Pages::Small`] |
//! | part of a file | the system's file cache | as the offset in the file is, up to a page |
//!
//! So a region never costs twice what it holds, except with [`Pages::HugeTlb`], where its last huge page may be nearly
//! empty. Linux does all of this. Elsewhere every region is on the heap, and a file is read instead of mapped.
//!
//! # On which NUMA node
//!
//! The kernel chooses a page's node when the page is first used, near the core that uses it. [`MemoryPolicy::on`] says another one
//! before that. Nothing is moved later: whoever wants memory elsewhere copies it.

mod error;
mod granted;
mod heap;
#[cfg(any(target_os = "linux", test))]
mod layout;
#[cfg(target_os = "linux")]
mod mapping;
#[cfg(target_os = "linux")]
mod node;
mod pages;
mod policy;
mod region;
#[cfg(any(target_os = "linux", test))]
mod smaps;

pub use error::{MemoryError, OsError};
pub use granted::Granted;
pub use pages::Pages;
pub use policy::MemoryPolicy;
pub use region::Region;

/// What every region of its own memory, and every file part at a multiple of it, is aligned to: a cache line of x86-64 and of
/// most ARM processors, and the widest vector register. Bytes.
pub const ALIGNMENT: usize = 64;
