//! Memory that a table owns: [`Region`]s with huge pages, filled in place or mapped from a file.
//!
//! A table of tens of megabytes in 4 KiB pages needs more page-table entries than a core caches, so searches miss in
//! the TLB. A region asks for huge pages, maps files, and says what the kernel gave.
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
//! | bytes | memory | aligned to |
//! |---|---|---|
//! | under 64 KiB | the heap | [`ALIGNMENT`], 64 bytes |
//! | under 1 MiB | whole pages, whatever [`Pages`] says | a page |
//! | 1 MiB and more | as [`Pages`] says; a last part of at least 1 MiB gets a huge page | 2 MiB, a page with [`Pages::Small`] |
//! | part of a file | the system's file cache | as the offset in the file is, up to a page |
//!
//! So a region never costs twice what it holds, except with [`Pages::HugeTlb`]. Elsewhere than on Linux every region is
//! on the heap, and a file is read instead of mapped.
//!
//! The kernel puts a page on the NUMA node of the core that first uses it. [`MemoryPolicy::on`] names another node
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

/// The alignment in bytes of every region in own memory, and of every part of a file that begins at a multiple of it: a
/// cache line of x86-64 and of most ARM processors, and the widest vector register.
pub const ALIGNMENT: usize = 64;
