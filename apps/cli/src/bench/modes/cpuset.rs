//! A cpuset for a process, where the system lets this command make one.
//!
//! A group is made beside this process' own one (cgroup v2 has no processes above groups with controllers), in v1 below
//! it. It is removed when its process has ended.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::Context as _;
use chiplet_topology::{cpu_ranges, cpuset_groups};

use super::plan::Node;

/// A control group with cpus and memory of its own.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    /// `cgroup v1` or `cgroup v2`.
    pub(super) version: &'static str,
    /// Where the controller was handed down for this group, which is taken back with it.
    handed_down: Option<PathBuf>,
}

/// How long a group may be in use after its process ended.
const PATIENCE: Duration = Duration::from_secs(2);

impl Group {
    /// A group named `name` with the cpus and the memory of `node`.
    pub(super) fn new(name: &str, node: &Node) -> anyhow::Result<Self> {
        let Above {
            folder,
            version,
            handed_down,
        } = above()?;
        sweep(&folder);
        let path = folder.join(name);
        fs::create_dir(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        let group = Self {
            path,
            version,
            handed_down,
        };
        group.set("cpuset.cpus", &cpu_ranges(&node.cpus))?;
        group.set("cpuset.mems", &node.memory.to_string())?;
        Ok(group)
    }

    /// Moves a process into the group.
    pub(super) fn add(&self, process: u32) -> anyhow::Result<()> {
        self.set("cgroup.procs", &process.to_string())
    }

    fn set(&self, file: &str, value: &str) -> anyhow::Result<()> {
        set(&self.path.join(file), value)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let began = Instant::now();
        while let Err(error) = fs::remove_dir(&self.path) {
            if error.kind() == io::ErrorKind::NotFound {
                break;
            }
            if began.elapsed() > PATIENCE {
                eprintln!("chiplet: {} was left behind: {error}", self.path.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(control) = &self.handed_down {
            // Where others have begun to use it the kernel refuses, and it stays.
            let _ = fs::write(control, "-cpuset");
        }
    }
}

/// What names of groups begin with, before the command's process id.
const NAME: &str = "chiplet-modes-";

/// The name of a group, or of a folder, of this process.
pub(super) fn name(rest: &str) -> String {
    format!("{NAME}{}-{rest}", std::process::id())
}

/// Removes what commands have left in `folder` that were killed.
pub(super) fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let process = process.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            // A group is an empty folder to `remove_dir`; the tables' folder has files.
            let path = entry.path();
            let _ = fs::remove_dir(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
}

fn set(path: &Path, value: &str) -> anyhow::Result<()> {
    fs::write(path, value).with_context(|| format!("{} does not take {value}", path.display()))
}

/// Where groups with a cpuset can be made.
struct Above {
    folder: PathBuf,
    version: &'static str,
    handed_down: Option<PathBuf>,
}

fn above() -> anyhow::Result<Above> {
    let known = cpuset_groups("/").context("no control groups with cpusets are mounted")?;
    let (version, groups) = known;
    let own = groups
        .first()
        .context("this process's own group is not shown")?;
    if version == 1 {
        return Ok(Above {
            folder: own.clone(),
            version: "cgroup v1",
            handed_down: None,
        });
    }
    // Beside the own group; the hierarchy's root may have processes and groups with controllers.
    let folder = groups.get(1).unwrap_or(own).clone();
    let control = folder.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&control).unwrap_or_default();
    let has_it = enabled.split_whitespace().any(|name| name == "cpuset");
    if !has_it {
        set(&control, "+cpuset")?;
    }
    Ok(Above {
        folder,
        version: "cgroup v2",
        handed_down: (!has_it).then_some(control),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_commands_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let own = name("1");
        for name in [
            own.as_str(),
            "chiplet-modes-0-2",
            "chiplet-modes-x",
            "other",
        ] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("chiplet-modes-0-2/0.table"), "").unwrap();
        sweep(folder.path());
        let left = |name: &str| folder.path().join(name).exists();
        assert!(left(&own) && left("chiplet-modes-x") && left("other"));
        assert!(!left("chiplet-modes-0-2"));
    }
}
