//! Images to and from files.
//!
//! Saving writes a new file beside the old one, has it on disk, and only then gives it the name: at every moment the
//! name is that of a whole file, and who has mapped the old one keeps it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use chiplet_memory::{MemoryError, MemoryPolicy, Region};
use xxhash_rust::xxh3::xxh3_64;

use super::header::{self, Header, Wrong};
use super::{FileError, Image, draft};

impl Image {
    /// Writes the image to `path`, in place of what may be there.
    ///
    /// # Errors
    /// [`FileError::Io`]; [`FileError::Damaged`] if the image comes from a file and is not what that said.
    pub(crate) fn save(&self, path: &Path) -> Result<(), FileError> {
        check_byte_order()?;
        // A mapped file that is damaged must not get sums that say otherwise.
        self.verify()?;
        let sums: Vec<u64> = self.entries.iter().map(|entry| self.sum(entry)).collect();
        let head = header::encode(&self.kind, &self.meta, &self.entries, &sums);
        let head = head.map_err(|reason| FileError::Description { reason })?;
        replace(path, &[&head, self.region.as_slice()])
    }

    /// Reads the file into memory of its own and checks all of it.
    ///
    /// # Errors
    /// All of [`FileError`] but [`FileError::OtherKind`] and [`FileError::Description`].
    pub(crate) fn load(path: &Path, policy: impl Into<MemoryPolicy>) -> Result<Self, FileError> {
        let mut opened = Opened::open(path)?;
        let region = Region::new(opened.payload, policy);
        let mut region = region.map_err(|source| memory(path, source))?;
        let bytes = region.as_mut_slice();
        let bytes = bytes.expect("a new region is its own memory");
        // The header was the last that was read.
        opened
            .file
            .read_exact(bytes)
            .map_err(|source| io_error(path, "read", source))?;
        let image = opened.into_image(path, region);
        image.verify()?;
        Ok(image)
    }

    /// Maps the file. Only its header is read and checked; the rest comes when it is used, see [`Image::verify`].
    ///
    /// # Safety
    /// As [`Region::map`].
    ///
    /// # Errors
    /// As [`Image::load`].
    #[expect(
        unsafe_code,
        reason = "the caller answers for the file, as with any mapping"
    )]
    pub(crate) unsafe fn map(path: &Path) -> Result<Self, FileError> {
        let opened = Opened::open(path)?;
        // SAFETY: the caller's.
        let region = unsafe { Region::map(&opened.file, opened.start as u64, opened.payload) };
        let region = region.map_err(|source| memory(path, source))?;
        Ok(opened.into_image(path, region))
    }

    /// Checks the content against the sums of the file that it comes from. Reads all of it. An image that comes from no
    /// file has nothing to be checked against.
    ///
    /// # Errors
    /// [`FileError::Damaged`].
    pub(crate) fn verify(&self) -> Result<(), FileError> {
        for entry in &self.entries {
            if entry.sum.is_some_and(|sum| sum != self.sum(entry)) {
                let reason = format!("the checksum of section {:?} is wrong", entry.name);
                return Err(self.damaged(reason));
            }
        }
        let bytes = self.region.as_slice();
        let mut gaps = draft::gaps(&self.entries).flat_map(|gap| &bytes[gap]);
        if gaps.any(|&byte| byte != 0) {
            return Err(self.damaged("there is something between its sections"));
        }
        Ok(())
    }

    fn sum(&self, entry: &super::Entry) -> u64 {
        xxh3_64(self.section::<u8>(entry.section))
    }
}

/// A file whose header is right.
struct Opened {
    file: File,
    header: Header,
    /// Where the payload begins.
    start: usize,
    /// Its bytes.
    payload: usize,
}

impl Opened {
    fn open(path: &Path) -> Result<Self, FileError> {
        check_byte_order()?;
        let refused = |source| io_error(path, "open", source);
        // Opening a pipe would wait for its other end.
        let facts = fs::metadata(path).map_err(refused)?;
        if !facts.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(refused(source));
        }
        let mut file = File::open(path).map_err(refused)?;
        let length = file.metadata().map_err(refused)?.len();
        let wrong = |wrong: Wrong| match wrong {
            Wrong::Foreign => FileError::Foreign {
                path: path.to_owned(),
            },
            Wrong::Newer(version) => FileError::Newer {
                path: path.to_owned(),
                version,
                supported: header::VERSION,
            },
            Wrong::Short(expected) => truncated(path, length, expected as u64),
            Wrong::Damaged(reason) => FileError::Damaged {
                path: path.to_owned(),
                reason,
            },
        };
        // Never more than the file has and a header may.
        let mut head = Vec::new();
        let mut read_to = |head: &mut Vec<u8>, end: usize| {
            let missing = (end - head.len()) as u64;
            let read = (&mut file).take(missing).read_to_end(head);
            read.map_err(|source| io_error(path, "read", source))
        };
        read_to(&mut head, header::PREFIX)?;
        let start = header::payload_start(header::length(&head).map_err(wrong)?);
        read_to(&mut head, start)?;
        let header = header::decode(&head).map_err(wrong)?;
        let payload = draft::total(&header.entries);
        // A file that claims more than there are addresses is short of it.
        let expected = (start as u64).saturating_add(payload as u64);
        if length < expected {
            return Err(truncated(path, length, expected));
        }
        if length > expected {
            return Err(FileError::Damaged {
                path: path.to_owned(),
                reason: format!("{} bytes follow its end", length - expected),
            });
        }
        Ok(Self {
            file,
            header,
            start,
            payload,
        })
    }

    fn into_image(self, path: &Path, region: Region) -> Image {
        Image {
            region,
            kind: self.header.kind,
            meta: self.header.meta,
            entries: self.header.entries,
            origin: Some(path.to_owned()),
        }
    }
}

/// Bytes that a temporary name has besides the file's own: two dots, letters, an ending.
const TEMPORARY: usize = 13;

/// Bytes that a name may have.
const LONGEST_NAME: usize = 255;

/// Writes `parts` to a file that gets the name `path` once it is whole and on disk. A file that is there is replaced,
/// and its mode is kept. A symbolic link stays and what it leads to is replaced. Anything else that is no file is left
/// alone.
fn replace(path: &Path, parts: &[&[u8]]) -> Result<(), FileError> {
    let write = |source| io_error(path, "write", source);
    let followed = match fs::canonicalize(path) {
        Ok(followed) if !followed.is_file() => {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(write(source));
        }
        // Nothing is there, or a link that leads nowhere, which is replaced.
        followed => followed.ok(),
    };
    let path = followed.as_deref().unwrap_or(path);
    let Some(name) = path.file_name() else {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it has no file name");
        return Err(write(source));
    };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        let kind = io::ErrorKind::NotFound;
        return Err(write(io::Error::new(kind, "the folder does not exist")));
    }
    // What may fail comes before the file has its name. Other systems do not open folders.
    #[cfg(unix)]
    let opened =
        File::open(folder).map_err(|source| io_error(path, "make sure of the name of", source))?;
    let name = name.to_string_lossy();
    let end = (0..=LONGEST_NAME - TEMPORARY)
        .rev()
        .find(|&at| name.is_char_boundary(at));
    let name = &name[..end.unwrap_or(0)];
    let prefix = format!(".{name}.");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    let kept = mode(path);
    // A new file is as any program creates one: the process's umask decides who may read it. One that takes another's
    // place is nobody else's until it has that one's mode.
    #[cfg(unix)]
    builder.permissions(PermissionsExt::from_mode(kept.map_or(0o666, |_| 0o600)));
    // Removed again unless it gets its name.
    let mut file = builder.tempfile_in(folder).map_err(write)?;
    for part in parts {
        file.write_all(part).map_err(write)?;
    }
    #[cfg(unix)]
    if let Some(mode) = kept {
        let mode = PermissionsExt::from_mode(mode);
        file.as_file().set_permissions(mode).map_err(write)?;
    }
    file.as_file().sync_all().map_err(write)?;
    file.persist(path).map_err(|error| write(error.error))?;
    // The name is on disk with its folder.
    #[cfg(unix)]
    opened
        .sync_all()
        .map_err(|source| io_error(path, "make sure of the name of", source))?;
    Ok(())
}

/// Who may do what with the file at `path`, if there is one.
#[cfg(unix)]
fn mode(path: &Path) -> Option<u32> {
    let facts = fs::symlink_metadata(path).ok()?;
    facts.is_file().then(|| facts.permissions().mode() & 0o777)
}

fn check_byte_order() -> Result<(), FileError> {
    if cfg!(target_endian = "big") {
        return Err(FileError::BigEndian);
    }
    Ok(())
}

fn io_error(path: &Path, doing: &'static str, source: io::Error) -> FileError {
    FileError::Io {
        path: path.to_owned(),
        doing,
        source,
    }
}

fn truncated(path: &Path, length: u64, expected: u64) -> FileError {
    FileError::Truncated {
        path: path.to_owned(),
        length,
        expected,
    }
}

fn memory(path: &Path, source: MemoryError) -> FileError {
    FileError::Memory {
        path: path.to_owned(),
        source,
    }
}
