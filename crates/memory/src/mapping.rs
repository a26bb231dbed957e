//! Memory from `mmap`.
//!
//! A [`Mapping`] owns its pages from `mmap` to `munmap`: nobody else knows their address, and they are never remapped,
//! shrunk or made inaccessible while it lives. Every block below relies on that, and on no more.
#![allow(
    unsafe_code,
    reason = "mmap hands out raw memory, and slices of it can only be made from pointers"
)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

use crate::error::{MemoryError, OsError};
use crate::layout::Layout;
use crate::pages::Pages;

/// Bytes that are made resident by one system call: short enough to report progress and to let others at the process's
/// address space, long enough that a call's cost is nothing beside zeroing them.
const STEP: usize = 32 << 20;

pub(crate) struct Mapping {
    /// First byte of the mapped pages.
    pages: NonNull<u8>,
    /// Bytes of the mapped pages, a multiple of the page size.
    mapped: usize,
    /// Where the region begins in them.
    start: usize,
    /// Bytes of the region: `start + bytes <= mapped`.
    bytes: usize,
    /// Mapped from a file, read-only.
    of_file: bool,
}

// SAFETY: the mapping owns its pages, which any thread may read, write and unmap. Writing takes `&mut`.
unsafe impl Send for Mapping {}
// SAFETY: as above; through `&` it is only read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of its own, `layout` being for `bytes` bytes.
    pub(crate) fn anonymous(
        bytes: usize,
        layout: Layout,
        pages: Pages,
    ) -> Result<Self, MemoryError> {
        debug_assert!(bytes <= layout.bytes);
        let huge_tlb = layout.huge && pages == Pages::HugeTlb;
        let mut flags = MapFlags::PRIVATE;
        if huge_tlb {
            flags |= MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        }
        // The kernel aligns reserved huge pages itself, and all mappings to a page.
        let slack = match layout.align {
            align if huge_tlb || align <= page_size() => 0,
            align => align,
        };
        let refused = |error: Errno| {
            let source = os(error);
            if huge_tlb {
                let pages = layout.bytes / layout.align;
                MemoryError::HugePages {
                    bytes,
                    pages,
                    source,
                }
            } else {
                MemoryError::Refused { bytes, source }
            }
        };
        let asked = layout.bytes.checked_add(slack);
        let asked = asked.ok_or(MemoryError::TooLarge { bytes })?;
        // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
        let first = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                asked,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        };
        let first = owned(first.map_err(refused)?);
        let before = first.align_offset(layout.align.max(1)).min(slack);
        // SAFETY: `before <= slack`, so that `layout.bytes` of what was mapped follow.
        let kept = unsafe { first.add(before) };
        if slack > 0 {
            // SAFETY: both ends lie in what was just mapped, outside of what is kept, and nobody has seen them.
            unsafe { trim(first, before) };
            // SAFETY: as above; `before + layout.bytes + (slack - before) == asked`.
            unsafe { trim(kept.add(layout.bytes), slack - before) };
        }
        let mapping = Self {
            pages: kept,
            mapped: layout.bytes,
            start: 0,
            bytes,
            of_file: false,
        };
        match pages {
            Pages::Transparent => mapping.advise(Advice::LinuxHugepage),
            Pages::Small => mapping.advise(Advice::LinuxNoHugepage),
            Pages::HugeTlb => {}
        }
        Ok(mapping)
    }

    /// Bytes `offset..offset + bytes` of `file`, which has as many.
    pub(crate) fn file(file: &File, offset: u64, bytes: usize) -> Result<Self, MemoryError> {
        let start = (offset % page_size() as u64) as usize;
        let mapped = start
            .checked_add(bytes)
            .map(|end| end.div_ceil(page_size()));
        let mapped = mapped.and_then(|pages| pages.checked_mul(page_size()));
        let mapped = mapped.filter(|&mapped| mapped <= isize::MAX as usize);
        let mapped = mapped.ok_or(MemoryError::TooLarge { bytes })?;
        // SAFETY: the kernel chooses the address. That the file keeps its content while it is mapped is what
        // `Region::map` asks of its caller.
        let first = unsafe {
            mmap(
                ptr::null_mut(),
                mapped,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                offset - start as u64,
            )
        };
        let first = first.map_err(|error| MemoryError::Map {
            bytes,
            source: os(error),
        })?;
        Ok(Self {
            pages: owned(first),
            mapped,
            start,
            bytes,
            of_file: true,
        })
    }

    /// Of all pages.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.pages.addr().get();
        start..start + self.mapped
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `start + bytes <= mapped <= isize::MAX` readable bytes of this mapping, initialised by the kernel
        // (zeros or the file), alive as long as `self`. Own memory is written only through `as_mut_slice`, whose `&mut`
        // excludes this slice; a file is not written by `Region::map`'s contract.
        unsafe { slice::from_raw_parts(self.pages.add(self.start).as_ptr(), self.bytes) }
    }

    /// `None` for a file.
    pub(crate) fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        if self.of_file {
            return None;
        }
        // SAFETY: as in `as_slice`; the pages are writable, and `&mut self` makes this the only slice.
        Some(unsafe { slice::from_raw_parts_mut(self.pages.add(self.start).as_ptr(), self.bytes) })
    }

    /// Makes the pages resident, step by step, and returns how many bytes of the region are.
    pub(crate) fn populate(
        &self,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<usize, MemoryError> {
        let advice = if self.of_file {
            Advice::LinuxPopulateRead
        } else {
            Advice::LinuxPopulateWrite
        };
        let mut at = 0;
        while at < self.mapped {
            let step = STEP.min(self.mapped - at);
            // What is reported counts from the region's first byte.
            let done = |at: usize| at.saturating_sub(self.start).min(self.bytes);
            // SAFETY: the range lies in this mapping and begins at a page. The advice changes no content.
            match unsafe { madvise(self.pages.add(at).as_ptr().cast(), step, advice) } {
                Ok(()) => at += step,
                Err(Errno::INTR) => continue,
                // Linux before 5.14 does not know the advice.
                Err(Errno::INVAL) if at == 0 => return Ok(self.touch(progress)),
                Err(error) => {
                    return Err(MemoryError::Populate {
                        done: done(at),
                        bytes: self.bytes,
                        source: os(error),
                    });
                }
            }
            progress(done(at), self.bytes);
        }
        Ok(self.bytes)
    }

    /// Reads a file in, page by page. Own memory cannot be had by reading it, and its owner is about to write it
    /// anyway.
    fn touch(&self, mut progress: impl FnMut(usize, usize)) -> usize {
        if !self.of_file {
            return 0;
        }
        let mut done = 0;
        for step in self.as_slice().chunks(STEP) {
            for page in step.chunks(page_size()) {
                std::hint::black_box(page[0]);
            }
            done += step.len();
            progress(done, self.bytes);
        }
        done
    }

    /// A wish: a kernel without huge pages refuses it, and `granted` says what it gave.
    fn advise(&self, advice: Advice) {
        // SAFETY: all of this mapping, from a page on; neither advice changes content or access.
        let _ = unsafe { madvise(self.pages.as_ptr().cast(), self.mapped, advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the pages are this mapping's, and with it the last slice of them is gone.
        let result = unsafe { munmap(self.pages.as_ptr().cast(), self.mapped) };
        debug_assert!(result.is_ok(), "munmap: {result:?}");
    }
}

/// Unmaps `bytes` bytes at `start`, some of a mapping's end that is of no use. If the kernel refuses (it may where that
/// needs one more area than `vm.max_map_count`), they stay as address space that holds no memory.
///
/// # Safety
/// The range is page-aligned and the caller's, and nothing refers to it.
unsafe fn trim(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's contract.
        let _ = unsafe { munmap(start.as_ptr().cast(), bytes) };
    }
}

fn owned(address: *mut c_void) -> NonNull<u8> {
    NonNull::new(address.cast()).expect("the kernel maps nothing at address 0 unless asked")
}

fn os(error: Errno) -> OsError {
    io::Error::from(error).into()
}
