//! `Region`: a piece of memory that a table owns, or a part of a file.

use std::fmt;
use std::fs::File;
use std::io;
#[cfg(any(not(target_os = "linux"), test))]
use std::io::{Read, Seek, SeekFrom};

use crate::error::{MemoryError, OsError};
use crate::granted::Granted;
use crate::heap::Heap;
#[cfg(target_os = "linux")]
use crate::layout::Layout;
#[cfg(target_os = "linux")]
use crate::mapping::Mapping;
#[cfg(target_os = "linux")]
use crate::node;
use crate::policy::MemoryPolicy;
#[cfg(target_os = "linux")]
use crate::smaps;

/// A region below this is on the heap: a mapping would cost it an area of the kernel's, of which a process has 65,530,
/// and up to a page.
#[cfg(target_os = "linux")]
const TINY: usize = 64 << 10;

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// A piece of memory. It is zeroed and writable, or a part of a file and read-only.
///
/// Its memory goes back to the system when it is dropped.
pub struct Region {
    backing: Backing,
    /// What was asked for; `None` for a file.
    policy: Option<MemoryPolicy>,
}

enum Backing {
    Heap(Heap),
    #[cfg(target_os = "linux")]
    Mapping(Mapping),
}

impl Region {
    /// `bytes` bytes of zeros. The system finds room for them now; memory they take when they are first written, or
    /// when [`Region::populate`] says so.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`], [`MemoryError::Refused`]; [`MemoryError::HugePages`] with
    /// [`Pages::HugeTlb`](crate::Pages::HugeTlb); [`MemoryError::Bind`] with nodes.
    pub fn new(bytes: usize, memory: impl Into<MemoryPolicy>) -> Result<Self, MemoryError> {
        let memory = memory.into();
        Ok(Self {
            backing: Backing::new(bytes, &memory)?,
            policy: Some(memory),
        })
    }

    /// Bytes `offset..offset + bytes` of `file`, read-only, which are fetched when they are first read and shared with
    /// all processes that map them. The file may be closed afterwards.
    ///
    /// ```
    /// use chiplet_memory::Region;
    /// # use std::io::Write;
    /// # let mut file = tempfile::tempfile()?;
    /// # file.write_all(b"the head, and what counts")?;
    /// // SAFETY: nobody else has this file.
    /// let part = unsafe { Region::map(&file, 14, 11) }?;
    /// assert_eq!(part.as_slice(), b"what counts");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// As long as the region lives, nobody may write to the file or cut it off, this process or another. If it is cut
    /// off, reading what it has lost ends the process (`SIGBUS`). If it is overwritten, bytes change that Rust takes
    /// for constant. Replace such a file by renaming a new one to its name, as `save` of chiplet's tables does: the
    /// region keeps the old one.
    ///
    /// # Errors
    /// [`MemoryError::ShortFile`], [`MemoryError::TooLarge`], [`MemoryError::Map`].
    #[expect(
        unsafe_code,
        reason = "the caller answers for the file, as with any mapping"
    )]
    pub unsafe fn map(file: &File, offset: u64, bytes: usize) -> Result<Self, MemoryError> {
        let length = file.metadata().map_err(|error| map_error(bytes, error))?;
        let length = length.len();
        let end = offset.checked_add(bytes as u64);
        if end.is_none_or(|end| end > length) {
            return Err(MemoryError::ShortFile {
                offset,
                bytes,
                length,
            });
        }
        Ok(Self {
            backing: Backing::of_file(file, offset, bytes)?,
            policy: None,
        })
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.backing {
            Backing::Heap(heap) => heap.as_slice(),
            #[cfg(target_os = "linux")]
            Backing::Mapping(mapping) => mapping.as_slice(),
        }
    }

    /// The bytes, to be written; `None` for a file.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        self.policy.as_ref()?;
        match &mut self.backing {
            Backing::Heap(heap) => Some(heap.as_mut_slice()),
            #[cfg(target_os = "linux")]
            Backing::Mapping(mapping) => mapping.as_mut_slice(),
        }
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this is a part of a file.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.policy.is_none()
    }

    /// Where it was to lie; `None` for a file.
    #[must_use]
    pub fn policy(&self) -> Option<&MemoryPolicy> {
        self.policy.as_ref()
    }

    /// Makes all of it resident now rather than at first use: own memory is zeroed, a file is read. `progress` is
    /// called after each 32 MiB with the bytes done and all bytes. Returns the bytes that were done.
    ///
    /// Linux can do this since 5.14. Before, a file is read all the same, and own memory is left to its first use: the
    /// result is 0.
    ///
    /// # Errors
    /// [`MemoryError::Populate`]. What was done stays, and the rest comes at first use, as without this call.
    pub fn populate(&self, mut progress: impl FnMut(usize, usize)) -> Result<usize, MemoryError> {
        match &self.backing {
            Backing::Heap(heap) => {
                // The allocator has zeroed it.
                let bytes = heap.as_slice().len();
                progress(bytes, bytes);
                Ok(bytes)
            }
            #[cfg(target_os = "linux")]
            Backing::Mapping(mapping) => mapping.populate(progress),
        }
    }

    /// A copy in memory of its own: in pages of the same kind, those of [`Pages::default`](crate::Pages) for a file,
    /// and on these NUMA nodes as [`MemoryPolicy::on`] has it.
    ///
    /// Before each piece of at most 1 MiB, `pace` gets the number of its bytes, and may wait. If it returns `false`,
    /// the copy is given up: `None`.
    ///
    /// # Errors
    /// As [`Region::new`].
    pub fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Self>, MemoryError> {
        let pages = self
            .policy
            .as_ref()
            .map_or_else(Default::default, |policy| policy.pages);
        let policy = MemoryPolicy::on(nodes.iter().copied()).pages(pages);
        let mut copy = Self::new(self.len(), policy)?;
        let bytes = copy.as_mut_slice();
        let bytes = bytes.expect("a new region is its own memory");
        for (from, to) in self.as_slice().chunks(PIECE).zip(bytes.chunks_mut(PIECE)) {
            if !pace(from.len() as u64) {
                return Ok(None);
            }
            to.copy_from_slice(from);
        }
        Ok(Some(copy))
    }

    /// The NUMA nodes that hold it, each with how many bytes, by a sample of its pages that are in memory; what is not
    /// yet in memory is on none. Empty if nothing is in memory yet, or the system does not say: it is on the heap
    /// (under 64 KiB), not Linux, or a container that may not ask (`move_pages` needs `CAP_SYS_NICE` under Docker's
    /// default seccomp profile).
    #[must_use]
    pub fn residence(&self) -> Vec<(u32, u64)> {
        match &self.backing {
            Backing::Heap(_) => Vec::new(),
            #[cfg(target_os = "linux")]
            Backing::Mapping(mapping) => node::residence(mapping.addresses()),
        }
    }

    /// Moves its pages that are in memory to a NUMA node and returns how many bytes are there then, counted in whole
    /// pages; 0 on the heap (under 64 KiB) and on other systems than Linux. Fewer than all where the node has no room.
    /// Pages that come later go where its [`MemoryPolicy`] says.
    ///
    /// It is here to be measured (`chiplet topology --copy`); the library moves no memory.
    ///
    /// # Errors
    /// What the system said: there is no such node, it is outside the cpuset, or a container may not move pages
    /// (`CAP_SYS_NICE` under Docker's default seccomp profile). What has moved before stays there.
    #[doc(hidden)]
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables))]
    pub fn migrate(&mut self, node: u32) -> Result<usize, OsError> {
        match &self.backing {
            Backing::Heap(_) => Ok(0),
            #[cfg(target_os = "linux")]
            Backing::Mapping(mapping) => Ok(node::migrate(mapping.addresses(), node)?),
        }
    }

    /// What the kernel has given up to now. It reads `/proc/self/smaps`, which takes milliseconds with many regions:
    /// use it for reports, not for each query.
    #[must_use]
    pub fn granted(&self) -> Granted {
        let pages = self.policy.as_ref().map(|policy| policy.pages);
        match &self.backing {
            // No pages of its own.
            Backing::Heap(heap) => Granted {
                pages,
                reserved: heap.reserved(),
                resident: None,
                huge: None,
            },
            #[cfg(target_os = "linux")]
            Backing::Mapping(mapping) => {
                let measured = smaps::measure(mapping.addresses());
                Granted {
                    pages,
                    reserved: mapping.addresses().len(),
                    resident: measured.map(|measured| measured.resident),
                    huge: measured.map(|measured| measured.huge),
                }
            }
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("bytes", &self.len())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl Backing {
    #[cfg(target_os = "linux")]
    fn new(bytes: usize, policy: &MemoryPolicy) -> Result<Self, MemoryError> {
        if bytes < TINY {
            return Heap::new(bytes).map(Self::Heap);
        }
        let layout = Layout::of(bytes, policy.pages, rustix::param::page_size());
        let layout = layout.ok_or(MemoryError::TooLarge { bytes })?;
        let mapping = Mapping::anonymous(bytes, layout, policy.pages)?;
        node::bind(mapping.addresses(), &policy.nodes).map_err(|source| MemoryError::Bind {
            nodes: policy.nodes.clone(),
            source: source.into(),
        })?;
        Ok(Self::Mapping(mapping))
    }

    #[cfg(not(target_os = "linux"))]
    fn new(bytes: usize, _: &MemoryPolicy) -> Result<Self, MemoryError> {
        Heap::new(bytes).map(Self::Heap)
    }

    #[cfg(target_os = "linux")]
    fn of_file(file: &File, offset: u64, bytes: usize) -> Result<Self, MemoryError> {
        // There are no mappings of 0 bytes.
        if bytes == 0 {
            return Heap::new(0).map(Self::Heap);
        }
        Mapping::file(file, offset, bytes).map(Self::Mapping)
    }

    #[cfg(not(target_os = "linux"))]
    fn of_file(file: &File, offset: u64, bytes: usize) -> Result<Self, MemoryError> {
        read(file, offset, bytes).map(Self::Heap)
    }
}

/// What stands for a mapped file where files cannot be mapped.
#[cfg(any(not(target_os = "linux"), test))]
fn read(mut file: &File, offset: u64, bytes: usize) -> Result<Heap, MemoryError> {
    let mut heap = Heap::new(bytes)?;
    // The position of a file is shared with its owner, who gets it back.
    let mut read = || {
        let position = file.stream_position()?;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(heap.as_mut_slice())?;
        file.seek(SeekFrom::Start(position))
    };
    read().map_err(|error| map_error(bytes, error))?;
    Ok(heap)
}

fn map_error(bytes: usize, error: io::Error) -> MemoryError {
    MemoryError::Map {
        bytes,
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_mapped_is_read_and_keeps_its_position() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        file.seek(SeekFrom::Start(3)).unwrap();
        let part = read(&file, 4, 5).unwrap();
        assert_eq!(part.as_slice(), b"45678");
        assert_eq!(file.stream_position().unwrap(), 3);
        assert!(matches!(
            read(&file, 6, 5),
            Err(MemoryError::Map { bytes: 5, .. })
        ));
    }
}
