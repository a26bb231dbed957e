//! One group's files, read and written below a root.
//!
//! A file is opened only if it and the folders on the way are no links, and never made. A write is one call of the
//! system, which the kernel takes as a whole. In a folder that stands for control groups a process that is killed may
//! leave a file empty, which the kernel never does: there an empty set is a line break.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;

use chiplet_topology::{Tree, parse_list};

use super::error::ApplyError;
use crate::group::GroupPath;
use crate::host;
use crate::journal::CpusetFile;
use crate::step::step;

/// A group's folder.
pub(super) struct Files<'a> {
    tree: &'a Tree,
    group: &'a GroupPath,
}

impl<'a> Files<'a> {
    /// `None` if the group is not there.
    pub(super) fn of(tree: &'a Tree, group: &'a GroupPath) -> Option<Self> {
        host::exists(tree, group).then_some(Self { tree, group })
    }

    fn name(&self, file: &str) -> String {
        host::file(self.group, file)
    }

    pub(super) fn path(&self, file: CpusetFile) -> PathBuf {
        self.tree.path(&self.name(file.name()))
    }

    /// What a file holds.
    pub(super) fn read(&self, file: CpusetFile) -> Result<String, ApplyError> {
        let found = self.path(file).symlink_metadata();
        let is_file = found.is_ok_and(|found| found.is_file());
        let text = is_file.then(|| self.tree.text(&self.name(file.name())));
        text.flatten().ok_or_else(|| ApplyError::NoCpuset {
            group: self.group.clone(),
            file: file.name(),
        })
    }

    /// Whether a file holds this, to the letter.
    pub(super) fn holds(&self, file: CpusetFile, text: &str) -> bool {
        self.read(file).is_ok_and(|holds| holds == text)
    }

    /// Whether this process may write a file. Nothing is written.
    pub(super) fn may_write(&self, file: CpusetFile) -> Result<(), ApplyError> {
        let path = self.path(file);
        match self.open(file, false) {
            Ok(_) => Ok(()),
            Err(error) => Err(match error.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    ApplyError::NotPermitted { path }
                }
                _ => ApplyError::Io {
                    path,
                    source: error,
                },
            }),
        }
    }

    /// Writes a set. A group in which processes run cannot get an empty one any more, once it has had another
    /// (`ENOSPC`, Linux `kernel/cgroup/cpuset.c`, `validate_change`). It gets all that there can ever be, which means
    /// the same: what the group above may use.
    pub(super) fn write(&self, file: CpusetFile, text: &str) -> io::Result<()> {
        match self.write_as_it_is(file, text) {
            Err(error) if error.kind() == ErrorKind::StorageFull && text.trim().is_empty() => {
                match self.everything(file) {
                    Some(all) => self.write_as_it_is(file, &all),
                    None => Err(error),
                }
            }
            result => result,
        }
    }

    /// Whether a file that held `was` holds that again, or what stands for it where that is refused.
    pub(super) fn is_back(&self, file: CpusetFile, was: &str, holds: &str) -> bool {
        let is_all = || self.everything(file).is_some_and(|all| same(&all, holds));
        holds == was || (was.trim().is_empty() && is_all())
    }

    /// All cpus, or all nodes, that there can ever be.
    fn everything(&self, file: CpusetFile) -> Option<String> {
        let kind = match file {
            CpusetFile::Cpus => "cpu",
            CpusetFile::Mems => "node",
        };
        self.tree
            .text(&format!("sys/devices/system/{kind}/possible"))
    }

    fn write_as_it_is(&self, file: CpusetFile, text: &str) -> io::Result<()> {
        step();
        let mut opened = self.open(file, true)?;
        step();
        let written = opened.write(text.as_bytes())?;
        step();
        match written == text.len() {
            true => Ok(()),
            false => Err(io::Error::new(ErrorKind::WriteZero, "written in part")),
        }
    }

    fn open(&self, file: CpusetFile, empty: bool) -> io::Result<File> {
        let path = self.path(file);
        if !path.symlink_metadata()?.is_file() {
            return Err(io::Error::other("this is not a file"));
        }
        let mut options = OpenOptions::new();
        options.write(true).truncate(empty);
        options.open(path)
    }

    /// Tells the group from a later one of the same name: the boot, and the number of the group's folder, which the
    /// kernel does not give twice.
    pub(super) fn birth(&self) -> String {
        birth(self.tree, self.group)
    }
}

/// The same of the group that is mounted: in a container that is not the root of the machine.
pub(super) fn view(tree: &Tree) -> String {
    birth(tree, &GroupPath::root())
}

/// Whether two views are of one boot, and names of groups mean different groups in them. One that was not noted is like
/// any other.
pub(super) fn differ(one: &str, other: &str) -> bool {
    let parts = one.split_once(':').zip(other.split_once(':'));
    parts.is_some_and(|((boot, root), (other_boot, other_root))| {
        boot == other_boot && root != other_root
    })
}

fn birth(tree: &Tree, group: &GroupPath) -> String {
    let boot = tree.text("proc/sys/kernel/random/boot_id");
    let boot = boot.unwrap_or_default();
    let folder = tree.path(&host::file(group, ""));
    format!("{}:{}", boot.trim(), inode(&folder))
}

#[cfg(unix)]
fn inode(folder: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    folder.metadata().map_or(0, |found| found.ino())
}

#[cfg(not(unix))]
fn inode(_: &std::path::Path) -> u64 {
    0
}

/// Whether two texts name the same set: the kernel writes `0-1` for what was written as `0,1`.
pub(super) fn same(one: &str, other: &str) -> bool {
    match (parse_list(one), parse_list(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
