//! Why a table could not be written to a file or read from one.

use std::io;
use std::path::PathBuf;

use chiplet_memory::MemoryError;

/// Why a table could not be saved, loaded or mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused something. A save that fails leaves the file that was there before.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A file of something else.
    #[error("{} is no table of chiplet's: its first bytes are others; check the path", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file of a later version of this library.
    #[error(
        "{} is of format version {version}, this chiplet reads versions up to {supported}; update chiplet, or build the table \
        again and save it with this one", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        version: u32,
        /// The newest version that is understood.
        supported: u32,
    },
    /// The file ends too early.
    #[error("{} ends after {length} of {expected} bytes: it was cut off; copy it again, or build and save the table again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that it has.
        length: u64,
        /// Bytes that it must have, as far as it says.
        expected: u64,
    },
    /// The file is not as it was written.
    #[error("{} is damaged: {reason}; copy it again, or build and save the table again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What gave it away.
        reason: String,
    },
    /// The file holds a table of another kind.
    #[error("{} holds a table of kind {found:?}, not {wanted:?}; load it as what it is", path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// There is no memory for the table, or its file cannot be mapped.
    #[error("no memory for {}: {source}", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: MemoryError,
    },
    /// The table is of a kind that has no file.
    #[error("the table cannot be saved to {}: {reason}", path.display())]
    NotSaved {
        /// Where it was to be written.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// The table's settings cannot be written to a file.
    #[error("the table's settings cannot be kept in a file: {reason}")]
    Description {
        /// Why not.
        reason: String,
    },
    /// This machine stores numbers the other way round.
    #[error(
        "files of tables are little-endian, this machine is big-endian and would have to convert them; build the table here instead"
    )]
    BigEndian,
}
