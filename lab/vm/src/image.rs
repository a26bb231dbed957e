//! What the machine boots with: an initramfs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use cpio::NewcBuilder;

const MODE_FOLDER: u32 = 0o040_755;
const MODE_PROGRAM: u32 = 0o100_755;
const MODE_DEVICE: u32 = 0o020_600;

/// An initramfs in a file of its own, which is gone with it.
pub struct Image(PathBuf);

impl Image {
    /// Packs this program as `/init`, and more files, as (inside, outside). The libraries that programs among them are
    /// linked with come along, where they look for them.
    ///
    /// # Errors
    /// If a file cannot be read or the image cannot be written.
    pub fn pack(more: &[(PathBuf, PathBuf)]) -> io::Result<Self> {
        let name = format!("chiplet-vm-{}.cpio", std::process::id());
        let image = Self(std::env::temp_dir().join(name));
        image.write(more)?;
        Ok(image)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, more: &[(PathBuf, PathBuf)]) -> io::Result<()> {
        let program = std::env::current_exe()?;
        let mut files = vec![(PathBuf::from("/init"), program)];
        files.extend_from_slice(more);
        let mut libraries = BTreeSet::new();
        for (_, file) in &files {
            // Of what is no program it says so, and lists nothing.
            let listed = Command::new("ldd").arg(file).output()?;
            for line in String::from_utf8_lossy(&listed.stdout).lines() {
                // "name => /path (address)", or "/path (address)" for the loader.
                let path = line.split_whitespace().find(|word| word.starts_with('/'));
                libraries.extend(path.map(|path| PathBuf::from(path.trim_end_matches(':'))));
            }
        }
        files.extend(libraries.into_iter().map(|path| (path.clone(), path)));
        let mut folders: Vec<PathBuf> = ["/dev", "/proc", "/sys", "/tmp"].map(PathBuf::from).into();
        for (inside, _) in &files {
            folders.extend(inside.ancestors().skip(1).map(Path::to_owned));
        }
        folders.sort();
        folders.dedup();
        folders.retain(|folder| folder != Path::new("/"));

        let mut out = io::BufWriter::new(File::create(&self.0)?);
        let name = |path: &Path| path.to_string_lossy().trim_start_matches('/').to_owned();
        for folder in &folders {
            append(
                &mut out,
                NewcBuilder::new(&name(folder)).mode(MODE_FOLDER),
                &[],
            )?;
        }
        let console = NewcBuilder::new("dev/console")
            .mode(MODE_DEVICE)
            .rdev_major(5)
            .rdev_minor(1);
        append(&mut out, console, &[])?;
        for (inside, outside) in &files {
            let bytes = fs::read(outside)?;
            append(
                &mut out,
                NewcBuilder::new(&name(inside)).mode(MODE_PROGRAM),
                &bytes,
            )?;
        }
        cpio::newc::trailer(&mut out)?;
        out.flush()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn append(out: &mut impl Write, entry: NewcBuilder, bytes: &[u8]) -> io::Result<()> {
    let size = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut entry = entry.write(out, size);
    io::copy(&mut Cursor::new(bytes), &mut entry)?;
    entry.finish()?;
    Ok(())
}
