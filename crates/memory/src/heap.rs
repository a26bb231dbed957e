//! Zeroed memory of the process's allocator, aligned to cache lines: for small regions, and for systems without `mmap`.

use bytemuck::{Pod, Zeroable};

use crate::ALIGNMENT;
use crate::error::{MemoryError, OsError};

/// Gives a boxed slice its alignment.
#[derive(Clone, Copy, Zeroable, Pod)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

pub(crate) struct Heap {
    lines: Box<[Line]>,
    /// At most what the lines hold.
    bytes: usize,
}

impl Heap {
    pub(crate) fn new(bytes: usize) -> Result<Self, MemoryError> {
        // A layout over isize::MAX is refused by a panic, not by an error.
        if bytes > isize::MAX as usize - ALIGNMENT {
            return Err(MemoryError::TooLarge { bytes });
        }
        let lines = bytemuck::allocation::try_zeroed_slice_box(bytes.div_ceil(ALIGNMENT));
        let lines = lines.map_err(|()| MemoryError::Refused {
            bytes,
            source: OsError::out_of_memory(),
        })?;
        Ok(Self { lines, bytes })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }

    /// Bytes that the allocator was asked for.
    pub(crate) fn reserved(&self) -> usize {
        size_of_val::<[Line]>(&self.lines)
    }
}
