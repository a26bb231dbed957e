//! Why there is no memory.

use std::fmt;
use std::io;

/// Why a region could not be made or filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// More than any process can address.
    #[error("{bytes} bytes are more than a process can address; check how the size was computed")]
    TooLarge {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The system has no such memory left for this process.
    #[error(
        "the system refused {bytes} bytes of memory: {source}; keep fewer or smaller tables, or raise the limit that is reached: \
        the container's memory, `ulimit -v`, or `sysctl vm.max_map_count` with tens of thousands of tables"
    )]
    Refused {
        /// Bytes asked for.
        bytes: usize,
        /// What the system said.
        source: OsError,
    },
    /// Too few reserved huge pages are free.
    #[error(
        "no {pages} huge pages of 2 MiB are free for {bytes} bytes: {source}; reserve more of them with \
        `sysctl vm.nr_hugepages=N`, N being all that this machine is to have, or choose Pages::Transparent, which needs none"
    )]
    HugePages {
        /// Bytes asked for.
        bytes: usize,
        /// Huge pages that they need.
        pages: usize,
        /// What the system said.
        source: OsError,
    },
    /// The system does not let memory be bound to these NUMA nodes.
    #[error(
        "memory cannot be bound to the NUMA nodes {nodes:?}: {source}; `chiplet topology` shows those of this machine"
    )]
    Bind {
        /// The nodes.
        nodes: Vec<u32>,
        /// What the system said.
        source: OsError,
    },
    /// A file ends before the part that was to be mapped does.
    #[error(
        "the file has {length} bytes, bytes {offset} to {offset}+{bytes} were asked for; it was cut off, or is another one"
    )]
    ShortFile {
        /// Where the part begins.
        offset: u64,
        /// Bytes of the part.
        bytes: usize,
        /// Bytes of the file.
        length: u64,
    },
    /// The file cannot be mapped.
    #[error(
        "cannot map {bytes} bytes of the file: {source}; if its file system cannot map files, read it instead"
    )]
    Map {
        /// Bytes of the part.
        bytes: usize,
        /// What the system said.
        source: OsError,
    },
    /// The system ran out of memory, or the file became shorter, while pages were fetched ahead.
    #[error(
        "only {done} of {bytes} bytes could be made resident: {source}; there is too little memory for this region, or its \
        file was cut off meanwhile"
    )]
    Populate {
        /// Bytes that are resident.
        done: usize,
        /// Bytes of the region.
        bytes: usize,
        /// What the system said.
        source: OsError,
    },
}

/// An error of the operating system, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsError {
    code: Option<i32>,
}

impl OsError {
    /// Out of memory, as an allocator says it: without a number.
    #[must_use]
    pub const fn out_of_memory() -> Self {
        Self { code: None }
    }

    /// The system's number for it, `errno` on Unix; `None` if it was no system call that failed.
    #[must_use]
    pub const fn code(self) -> Option<i32> {
        self.code
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from(*self).fmt(f)
    }
}

impl std::error::Error for OsError {}

impl From<OsError> for io::Error {
    fn from(error: OsError) -> Self {
        match error.code {
            Some(code) => Self::from_raw_os_error(code),
            None => io::ErrorKind::OutOfMemory.into(),
        }
    }
}

impl From<io::Error> for OsError {
    fn from(error: io::Error) -> Self {
        Self {
            code: error.raw_os_error(),
        }
    }
}
