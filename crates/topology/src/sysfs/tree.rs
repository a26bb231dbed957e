//! Reading small files below a root, which is `/` or a saved copy of it.
//!
//! Every read is bounded in size and opens only regular files, so that no damaged or hostile tree can
//! make the reader hang or swell.

use crate::cpuset::CpuSetError;
use crate::cpuset::{self, CpuSet, MAX_CPU};
use crate::error::TopologyError;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// More than the `/proc/cpuinfo` of any machine: 8192 cpus at about 1.5 KiB each.
const MAX_CPUINFO_BYTES: u64 = 16 << 20;

/// More than any other file: a list of every other of [`MAX_CPU`] cpus, or the mounts of a busy host. As
/// thousands of names may lead to one file, it is also what each of them may cost.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The root below which everything is read.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Reads below `root`: `/`, or a folder that holds another machine's `sys` and `proc`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The folder that it reads.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of `name` below the root; a leading slash does not leave it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name.trim_start_matches('/'))
    }

    /// Whether there is a file or folder of this name.
    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// A file's text, or `None` if it is not there or cannot be read.
    pub fn text(&self, name: &str) -> Option<String> {
        self.bounded(name, MAX_FILE_BYTES)
    }

    /// `/proc/cpuinfo`.
    pub fn cpuinfo(&self) -> CpuInfo {
        let text = self.bounded("proc/cpuinfo", MAX_CPUINFO_BYTES);
        CpuInfo(text.unwrap_or_default())
    }

    fn bounded(&self, name: &str, most: u64) -> Option<String> {
        let path = self.path(name);
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path)
            .ok()?
            .take(most)
            .read_to_end(&mut bytes)
            .ok()?;
        // Saved trees may hold what the kernel's buffer held, padded with zero bytes.
        let end = bytes
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// A non-negative number; `None` also for the -1 that kernels write for "unknown".
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim().parse().ok()
    }

    /// A size such as `32768K`, in bytes; kernels write kilobytes, with or without the letter.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        let text = text.trim();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].chars().next() {
            None | Some('K' | 'k') => 10,
            Some('M' | 'm') => 20,
            Some('G' | 'g') => 30,
            Some(_) => return None,
        };
        digits.parse::<u64>().ok()?.checked_mul(1 << shift)
    }

    /// A list of cpus or nodes; `None` if the file is not there.
    ///
    /// # Errors
    /// [`TopologyError::Garbage`] if it holds no such list.
    pub fn list(&self, name: &str) -> Result<Option<CpuSet>, TopologyError> {
        self.cpus(name, cpuset::parse_list)
    }

    pub(crate) fn mask(&self, name: &str) -> Result<Option<CpuSet>, TopologyError> {
        self.cpus(name, cpuset::parse_mask)
    }

    fn cpus(
        &self,
        name: &str,
        parse: fn(&str) -> Result<CpuSet, CpuSetError>,
    ) -> Result<Option<CpuSet>, TopologyError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        parse(&text)
            .map(Some)
            .map_err(|problem| TopologyError::Garbage {
                path: self.path(name),
                problem,
            })
    }

    /// The numbers of the entries `<prefix><number>` in a folder, ascending; none if it is not there.
    pub fn numbered(&self, folder: &str, prefix: &str) -> Vec<u32> {
        let Ok(entries) = self.path(folder).read_dir() else {
            return Vec::new();
        };
        let mut numbers: Vec<u32> = entries
            .filter_map(|entry| {
                entry
                    .ok()?
                    .file_name()
                    .to_str()?
                    .strip_prefix(prefix)?
                    .parse()
                    .ok()
            })
            .filter(|&number| number <= MAX_CPU)
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

/// What `/proc/cpuinfo` tells; empty if there is none.
pub struct CpuInfo(String);

impl CpuInfo {
    /// The first processor's value under this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
        Some(value.trim())
    }
}
