//! A file whose failed flush is not forgotten.
//!
//! When `fsync` fails, Linux may drop the pages that it could not write and report the next `fsync` as good. So after
//! one that failed nothing is written to the file any more, not even in closing it: what is in it is for the next start
//! to read and repair.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

/// How a file's flushes went.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    failed: AtomicBool,
    /// For tests: the next flush fails.
    #[cfg(test)]
    pub(super) fail: AtomicBool,
    /// For tests: the disk is full.
    #[cfg(test)]
    pub(super) full: AtomicBool,
    /// For tests: how many times the file was opened.
    #[cfg(test)]
    pub(super) opened: std::sync::atomic::AtomicU64,
}

impl Flushes {
    pub(super) fn have_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    fn check(&self) -> io::Result<()> {
        match self.have_failed() {
            true => Err(io::Error::other("an earlier flush has failed")),
            false => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Disk {
    file: FileBackend,
    flushes: Arc<Flushes>,
}

impl Disk {
    pub(super) fn new(file: File, flushes: &Arc<Flushes>) -> Result<Self, DatabaseError> {
        Ok(Self {
            file: FileBackend::new(file)?,
            flushes: Arc::clone(flushes),
        })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.flushes.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.flushes.check()?;
        #[cfg(test)]
        if self.flushes.fail.load(Ordering::Relaxed) {
            self.flushes.failed.store(true, Ordering::Release);
            return Err(io::Error::other("as the test wants it"));
        }
        let flushed = self.file.sync_data();
        if flushed.is_err() {
            self.flushes.failed.store(true, Ordering::Release);
        }
        flushed
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.flushes.check()?;
        #[cfg(test)]
        if self.flushes.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
