//! Tables to and from files.

use std::path::Path;
#[cfg(feature = "faiss")]
use std::sync::Arc;

use chiplet_memory::{Granted, MemoryPolicy};

#[cfg(feature = "faiss")]
use super::ffi::Ivf;
use super::store::Store;
use super::{IvfTable, Scans};
use crate::image::{FileError, Image};

impl IvfTable {
    /// Writes the table to `path`, as [`FlatTable::save`](crate::FlatTable::save) does. The file holds all that a
    /// search needs, and Faiss is not needed to read it. A graph over the centroids (`IVF<n>_HNSW<m>`) is left out: the
    /// table in the file looks at all centroids.
    ///
    /// # Errors
    /// [`FileError::Io`]; [`FileError::Damaged`] if the table comes from a damaged file; [`FileError::NotSaved`] for a
    /// table whose lists Faiss scans.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        match &self.scans {
            Scans::Own { store, .. } => store.image().save(path.as_ref()),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => Err(FileError::NotSaved {
                path: path.as_ref().to_owned(),
                reason: "Faiss scans this table's lists; of IVF tables only Flat, SQ8, SQ4, SQfp16, SQbf16, PQ<m>, PQ<m>x4 and \
                         PQ<m>x4fs are saved",
            }),
        }
    }

    /// Reads a table into memory of its own, placed by `memory`, and checks all of it against its checksums.
    ///
    /// # Errors
    /// [`FileError`], for a file that cannot be read, or is damaged or of something else.
    pub fn load(
        path: impl AsRef<Path>,
        memory: impl Into<MemoryPolicy>,
    ) -> Result<Self, FileError> {
        Self::open(Image::load(path.as_ref(), memory)?)
    }

    /// Maps a table's file, which takes milliseconds: a search reads from the file what it needs. Sizes are checked,
    /// checksums are not ([`IvfTable::verify`]); a damaged file gives wrong answers or errors, and nothing worse.
    ///
    /// # Safety
    /// Nobody writes to the file or cuts it off while the table lives. Reading what was cut off ends the process; bytes
    /// that are overwritten change although Rust takes them for constant. `save` is safe: it puts a new file in the
    /// place of the old one, which the table keeps.
    ///
    /// # Errors
    /// As [`IvfTable::load`].
    #[expect(
        unsafe_code,
        reason = "the caller answers for the file, as with any mapping"
    )]
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self, FileError> {
        // SAFETY: the caller's.
        let image = unsafe { Image::map(path.as_ref()) }?;
        Self::open(image)
    }

    /// Checks a mapped table against the checksums in its file. Reads all of it. A table that comes from no file has
    /// none.
    ///
    /// # Errors
    /// [`FileError::Damaged`].
    pub fn verify(&self) -> Result<(), FileError> {
        match &self.scans {
            Scans::Own { store, .. } => store.image().verify(),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => Ok(()),
        }
    }

    /// What the system has given the table's memory up to now; `None` if Faiss scans its lists, because Faiss owns
    /// them.
    pub fn granted(&self) -> Option<Granted> {
        match &self.scans {
            Scans::Own { store, .. } => Some(store.image().region().granted()),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => None,
        }
    }

    /// With a graph over the centroids that finds the lists to visit.
    #[cfg(feature = "faiss")]
    pub(super) fn with_quantizer(mut self, graph: Option<Arc<Ivf>>) -> Self {
        if let Scans::Own { quantizer, .. } = &mut self.scans {
            *quantizer = graph;
        }
        self
    }

    pub(crate) fn open(image: Image) -> Result<Self, FileError> {
        Ok(Self::of(Store::open(image)?))
    }

    /// The table that scans `store`.
    pub(super) fn of(store: Store) -> Self {
        let shape = store.shape();
        Self {
            metric: shape.metric,
            dim: shape.given_dim(),
            rows: shape.rows,
            lists: shape.lists,
            nprobe: shape.nprobe,
            grain: shape.grain,
            scans: Scans::Own {
                store,
                #[cfg(feature = "faiss")]
                quantizer: None,
            },
        }
    }
}
