//! Control groups of version 2: which there are, and single files of them.

use std::collections::BTreeSet;

use chiplet_topology::Tree;

use super::error::HostError;
use crate::group::GroupPath;

/// Where systemd, container runtimes and the kubelet mount them, below the root.
const MOUNT: &str = "sys/fs/cgroup";

/// Groups that are listed. A busy node of Kubernetes has some 2,000.
const MAX_GROUPS: usize = 16_384;

/// How deep groups are followed. The kernel's default bound is none; systemd and runtimes stay below ten.
const MAX_DEPTH: usize = 32;

/// Entries of one folder that are looked at: a group has some 100 files beside the groups in it.
const MAX_ENTRIES: usize = 65_536;

/// That cgroup v2 alone is mounted.
pub(crate) fn is_version_2(tree: &Tree) -> Result<(), HostError> {
    // A line `id:controllers:path` for each hierarchy. Version 2 has the id 0; `name=..` has no controllers.
    let of_process = |process: &str| tree.text(&format!("proc/{process}/cgroup"));
    let lines = of_process("self").or_else(|| of_process("1"));
    let lines = lines.unwrap_or_default();
    let bound = lines.lines().filter_map(|line| {
        let controllers = line.split(':').nth(1)?;
        (!controllers.is_empty() && !controllers.starts_with("name=")).then_some(controllers)
    });
    let controllers: Vec<&str> = bound.collect();
    let has = |name: &str| tree.has(&format!("{MOUNT}/{name}"));
    if has("cgroup.controllers") && controllers.is_empty() {
        return Ok(());
    }
    if has("cgroup.controllers") || has("unified/cgroup.controllers") {
        let controllers = match controllers.join(",") {
            none if none.is_empty() => "of /sys/fs/cgroup".to_owned(),
            some => some,
        };
        return Err(HostError::CgroupMixed { controllers });
    }
    let folders = ["cpuset", "cpu", "cpu,cpuacct", "memory", "systemd"];
    match !controllers.is_empty() || folders.iter().any(|name| has(name)) {
        true => Err(HostError::CgroupV1),
        false => Err(HostError::NoCgroups),
    }
}

/// The path of a group's file below the root.
pub(crate) fn file(group: &GroupPath, name: &str) -> String {
    format!("{MOUNT}/{}/{name}", group.relative())
}

/// Whether the group is there: a folder, and no link on the way to it.
pub(crate) fn exists(tree: &Tree, group: &GroupPath) -> bool {
    let mut path = tree.path(MOUNT);
    let names = group.relative().split('/').filter(|name| !name.is_empty());
    let is_folder = |path: &std::path::Path| {
        let found = path.symlink_metadata();
        found.is_ok_and(|found| found.is_dir())
    };
    let mut whole = path.is_dir();
    for name in names {
        path.push(name);
        whole = whole && is_folder(&path);
    }
    whole
}

/// A group and all below it, each after the one that holds it, in the order of their names.
pub(super) fn all_below(tree: &Tree, group: &GroupPath) -> Vec<GroupPath> {
    let mut found = Vec::new();
    let mut waiting = vec![(group.clone(), 0)];
    while let Some((group, depth)) = waiting.pop() {
        if found.len() == MAX_GROUPS {
            break;
        }
        let folder = tree.path(&format!("{MOUNT}/{}", group.relative()));
        let entries = folder.read_dir().into_iter().flatten().flatten();
        let mut names: Vec<GroupPath> = entries
            .take(if depth < MAX_DEPTH { MAX_ENTRIES } else { 0 })
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| group.below(entry.file_name().to_str()?))
            .collect();
        names.sort_unstable_by(|one, other| other.cmp(one));
        waiting.extend(names.into_iter().map(|name| (name, depth + 1)));
        found.push(group);
    }
    found
}

/// The group of a process: the line of version 2 in its file.
pub(super) fn of_process(tree: &Tree, pid: u32) -> Result<GroupPath, HostError> {
    let text = tree.text(&format!("proc/{pid}/cgroup"));
    let path = text.as_deref().and_then(|text| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix("0::")?.parse().ok())
    });
    path.ok_or(HostError::NoSuchProcess { pid })
}

/// A number by its name, from a file of lines such as `usage_usec 1234`.
pub(super) fn figure(text: &str, name: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    let (_, figure) = pairs.find(|(key, _)| *key == name)?;
    figure.trim().parse().ok()
}

/// The numbers in a file of one in each line, such as `cgroup.procs`.
pub(super) fn ids(tree: &Tree, name: &str) -> BTreeSet<u32> {
    let text = tree.text(name).unwrap_or_default();
    let ids = text.lines().filter_map(|line| line.trim().parse().ok());
    ids.collect()
}
