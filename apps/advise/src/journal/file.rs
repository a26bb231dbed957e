//! The journal's file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::entry::{Entry, Event, Planned};
use super::history::History;
use crate::step::step;

/// The longest line that is read: paths, two cpu lists of 65,536 cpus and features stay below it.
const MAX_LINE: u64 = 1 << 20;

/// The longest journal that takes another change: some 100,000 of them.
const FULL_BYTES: u64 = 64 << 20;

/// The longest journal that is read. What is in force can be undone, and noted as undone, after it is full.
const MAX_BYTES: u64 = 2 * FULL_BYTES;

/// Why the journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The system refuses.
    #[error("the journal {}: {source}", path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process writes to it.
    #[error("the journal {} is in use by another process; end that one, or name another journal", path.display())]
    Busy {
        /// The journal.
        path: PathBuf,
    },
    /// A line is damaged that is not the last.
    #[error(
        "line {line} of the journal {} is damaged: {problem}; nothing is changed while it is so, correct the line or take it out",
        path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// It is too long.
    #[error("the journal {} is full (64 MiB): roll back, then move it away", path.display())]
    TooLong {
        /// The journal.
        path: PathBuf,
    },
}

/// A journal that is being written, by one process at a time.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    history: History,
    last: u64,
}

impl Journal {
    /// Opens a journal to go on with it, or makes an empty one. A last line without its end is cut off.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        let failed = |source| JournalError::Io {
            path: path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let mut file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Busy { path }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        sync_folder(&path).map_err(failed)?;
        let (entries, whole) = read(&path, &mut file)?;
        if file.metadata().map_err(failed)?.len() > whole {
            file.set_len(whole).map_err(failed)?;
            file.sync_all().map_err(failed)?;
        }
        let last = entries.iter().map(|entry| entry.number).max();
        Ok(Self {
            last: last.unwrap_or(0),
            history: History::new(entries),
            path,
            file,
        })
    }

    /// All that is in it.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Notes what a change gained: the share by which what was measured became better.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn measured(&mut self, change: u64, gain: f64, at: SystemTime) -> Result<(), JournalError> {
        self.append(Event::Measured { change, gain }, at)?;
        Ok(())
    }

    /// Notes a change that is about to be made, and returns its number.
    pub(crate) fn plan(&mut self, planned: Planned, at: SystemTime) -> Result<u64, JournalError> {
        let failed = |source| JournalError::Io {
            path: self.path.clone(),
            source,
        };
        if self.file.metadata().map_err(failed)?.len() > FULL_BYTES {
            return Err(JournalError::TooLong {
                path: self.path.clone(),
            });
        }
        self.append(Event::Change(planned), at)
    }

    /// Writes a line, and comes back when it is on the disk.
    pub(crate) fn append(&mut self, event: Event, at: SystemTime) -> Result<u64, JournalError> {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let entry = Entry {
            number: self.last.saturating_add(1),
            unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            event,
        };
        let failed = |source| JournalError::Io {
            path: self.path.clone(),
            source,
        };
        let mut line = serde_json::to_string(&entry).map_err(|error| failed(error.into()))?;
        line.push('\n');
        step();
        let end = self.file.metadata().map_err(failed)?.len();
        let written = self.file.write_all(line.as_bytes());
        step();
        let synced = written.and_then(|()| self.file.sync_data());
        if let Err(error) = synced {
            // A line that is not whole must not have others after it.
            let _ = self.file.set_len(end);
            return Err(failed(error));
        }
        step();
        self.last = entry.number;
        self.history.add(entry);
        Ok(self.last)
    }
}

impl Drop for Journal {
    /// A process that this one has just begun may hold the file open for a moment, and with it the lock.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl History {
    /// Reads a journal without writing to it. One that is not there is empty. A last line without its end is passed
    /// over: it may be half written.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        let path = path.as_ref();
        match File::open(path) {
            Ok(mut file) => Ok(Self::new(read(path, &mut file)?.0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(JournalError::Io {
                path: path.to_owned(),
                source,
            }),
        }
    }
}

/// The entries, and how many bytes their lines take.
fn read(path: &Path, file: &mut File) -> Result<(Vec<Entry>, u64), JournalError> {
    let failed = |source| JournalError::Io {
        path: path.to_owned(),
        source,
    };
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(failed(io::Error::other("this is not a file")));
    }
    if about.len() > MAX_BYTES {
        return Err(JournalError::TooLong {
            path: path.to_owned(),
        });
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut reader = BufReader::new(file);
    let (mut entries, mut whole, mut line) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(MAX_LINE);
        let read = bounded.read_until(b'\n', &mut line).map_err(failed)?;
        let damaged = |problem: String| JournalError::Damaged {
            path: path.to_owned(),
            line: entries.len() + 1,
            problem,
        };
        match line.last() {
            Some(b'\n') => {}
            Some(_) if read as u64 == MAX_LINE => return Err(damaged("it is too long".to_owned())),
            _ => return Ok((entries, whole)),
        }
        let entry = serde_json::from_slice(&line).map_err(|error| damaged(error.to_string()))?;
        entries.push(entry);
        whole += read as u64;
    }
}

/// A new file is safe when its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
