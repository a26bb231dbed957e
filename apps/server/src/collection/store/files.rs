//! The collections' files by name: whose each is, and how one comes and goes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(in crate::collection) const EXTENSION: &str = "redb";
/// File names have at most this many bytes on the file systems in use.
const LONGEST_FILE_NAME: usize = 255;

/// The collection that a file belongs to, if it is one.
pub(crate) fn name_of(path: &Path) -> Option<String> {
    (path.extension()? == EXTENSION)
        .then(|| path.file_stem()?.to_str().and_then(unescape))
        .flatten()
}

/// The file of a collection; `None` if its name is too long for one.
pub(crate) fn path_of(folder: &Path, name: &str) -> Option<PathBuf> {
    let file = format!("{}.{EXTENSION}", escape(name));
    (file.len() <= LONGEST_FILE_NAME).then(|| folder.join(file))
}

/// Bytes other than letters, digits, `-` and `_` as `%xx`.
fn escape(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => escaped.push(byte.into()),
            other => escaped.push_str(&format!("%{other:02x}")),
        }
    }
    escaped
}

fn unescape(escaped: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    let name = String::from_utf8(bytes).ok()?;
    (escape(&name) == escaped).then_some(name)
}

/// Deletes a collection's file, whatever it holds.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        // Somebody has removed it by hand.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    sync_folder(path)
}

/// Removes what creations that never finished left behind, and nothing else.
pub(crate) fn remove_drafts(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if is_draft(&path) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

const DRAFT: &str = "chiplet-draft-";

/// Where a collection's file is made: a name that nobody else gives a file.
pub(super) fn draft_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let number = xxh3_64_with_seed(name.as_encoded_bytes(), 0);
    path.with_file_name(format!("{DRAFT}{number:016x}"))
}

fn is_draft(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix(DRAFT));
    number.is_some_and(|number| {
        number.len() == 16
            && number
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Gives a file a name that no other has.
pub(super) fn move_to_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Some file systems cannot say so.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            moved => return Ok(moved?),
        }
    }
    // A link never takes another's place either.
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// Makes a created or removed name durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
