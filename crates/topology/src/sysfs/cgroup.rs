//! What the control group takes away: its cpuset, its CPU quota and its memory, in cgroup v1 and v2.
//!
//! The process's own group is found as `cgroups(7)` says: the mount of the controller from
//! `/proc/self/mountinfo` (in a saved tree `/proc/mounts`), the group's path from `/proc/self/cgroup`
//! (for the cpuset also `/proc/self/cpuset`). Inside a container the path may be as the host sees it
//! while the mount shows only the part below the container's own group; then the part that the mount
//! does not show is cut off.
//!
//! A cpuset is that of the group itself, or of the nearest group above that has one: the kernel has already intersected
//! it with those above. So are the nodes that it may have memory on. Quotas and limits of memory are not intersected by
//! the kernel's files, so the tightest on the way to the root counts.

use std::path::PathBuf;

use super::tree::Tree;
use crate::cpuset::CpuSet;
use crate::error::TopologyError;
use crate::limits::Quota;

/// Linux's limit for a path, in bytes.
const PATH_MAX: usize = 4096;

/// Mounts that are looked at. A host has one for each controller, and some for its containers.
const MAX_MOUNTS: usize = 256;

/// The cpus that the group may use, or `None` if there is no cpuset.
pub(crate) fn cpuset(tree: &Tree) -> Result<Option<CpuSet>, TopologyError> {
    of_cpuset(tree, "cpus")
}

/// The NUMA nodes that the group may have memory on, or `None` if there is no cpuset.
pub(crate) fn nodes(tree: &Tree) -> Result<Option<CpuSet>, TopologyError> {
    of_cpuset(tree, "mems")
}

/// The folders of the process's own group and of those above it, in the hierarchy that has cpusets, and its version;
/// `None` if there is none.
pub(crate) fn cpuset_groups(tree: &Tree) -> Option<(u32, Vec<PathBuf>)> {
    let mounts = mounts(tree);
    let mount = mounts
        .iter()
        .find(|mount| mount.kind != Kind::Cpuset && mount.controls(tree, "cpuset"))?;
    let groups = mount.groups_upwards(tree, own_group(tree, mount.kind, "cpuset"));
    let version = if mount.kind == Kind::V2 { 2 } else { 1 };
    Some((
        version,
        groups.iter().map(|group| tree.path(group)).collect(),
    ))
}

/// What a cpuset says of `cpus` or of `mems`.
fn of_cpuset(tree: &Tree, what: &str) -> Result<Option<CpuSet>, TopologyError> {
    for mount in mounts(tree)
        .iter()
        .filter(|mount| mount.controls(tree, "cpuset"))
    {
        let file = match mount.kind {
            Kind::V2 => format!("cpuset.{what}.effective"),
            Kind::V1 if mount.has_option("noprefix") => what.to_owned(),
            Kind::V1 => format!("cpuset.{what}"),
            Kind::Cpuset => what.to_owned(),
        };
        let own = tree
            .text("proc/self/cpuset")
            .map(|path| path.trim().to_owned())
            .or_else(|| own_group(tree, mount.kind, "cpuset"));
        for group in mount.groups_upwards(tree, own) {
            // An empty file is a group whose set is not set yet, not one without cpus or nodes.
            if let Some(set) = tree
                .list(&format!("{group}/{file}"))?
                .filter(|set| !set.is_empty())
            {
                return Ok(Some(set));
            }
        }
    }
    Ok(None)
}

/// The tightest CPU quota on the group and those above it. A file that cannot be understood is taken
/// for no quota.
pub(crate) fn quota(tree: &Tree) -> Option<Quota> {
    let mut tightest: Option<Quota> = None;
    for mount in mounts(tree)
        .iter()
        .filter(|mount| mount.kind == Kind::V2 || mount.controls(tree, "cpu"))
    {
        for group in mount.groups_upwards(tree, own_group(tree, mount.kind, "cpu")) {
            let found = match mount.kind {
                Kind::V2 => (tree.text(&format!("{group}/cpu.max")))
                    .and_then(|text| Quota::from_cpu_max(&text)),
                _ => quota_v1(tree, &group),
            };
            tightest = match (tightest, found) {
                (Some(a), Some(b)) => Some(a.tighter(b)),
                (a, b) => a.or(b),
            };
        }
    }
    tightest
}

/// A group's limit of memory and what counts against it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) limit: u64,
    /// 0 if the group does not tell.
    pub(crate) used: u64,
    /// Of what is used, the file cache: 0 if the group does not tell.
    pub(crate) cached: u64,
    /// Of the file cache, what processes have mapped.
    pub(crate) mapped: u64,
}

/// The group and those above it that limit memory. The word `max` is no limit.
pub(crate) fn memory(tree: &Tree) -> Vec<Memory> {
    mounts(tree)
        .iter()
        .filter(|mount| mount.kind == Kind::V2 || mount.controls(tree, "memory"))
        .flat_map(|mount| {
            mount
                .groups_upwards(tree, own_group(tree, mount.kind, "memory"))
                .into_iter()
                .filter_map(|group| memory_of(tree, mount.kind, &group))
        })
        .collect()
}

fn memory_of(tree: &Tree, kind: Kind, group: &str) -> Option<Memory> {
    // v1 tells of the group alone, and with `total_` of those below it too, as v2 does and as the limit counts.
    let (limit, used, total) = match kind {
        Kind::V2 => ("memory.max", "memory.current", ""),
        _ => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    };
    let number = |file: &str| tree.number(&format!("{group}/{file}"));
    let limit = number(limit)?;
    let stat = tree.text(&format!("{group}/memory.stat"));
    let stat = stat.unwrap_or_default();
    let figure = |name: &str| {
        let of = |line: &str| {
            let (key, bytes) = line.split_once(' ')?;
            let ours = key.strip_prefix(total)? == name;
            ours.then(|| bytes.trim().parse::<u64>().ok()).flatten()
        };
        stat.lines().find_map(of).unwrap_or(0)
    };
    let mapped = match kind {
        Kind::V2 => "file_mapped",
        _ => "mapped_file",
    };
    Some(Memory {
        limit,
        used: number(used).unwrap_or(0),
        cached: figure("active_file").saturating_add(figure("inactive_file")),
        mapped: figure(mapped),
    })
}

/// A quota of -1 is none, which `number` reads as no number.
fn quota_v1(tree: &Tree, group: &str) -> Option<Quota> {
    let quota_us = tree.number(&format!("{group}/cpu.cfs_quota_us"))?;
    let period_us = tree
        .number(&format!("{group}/cpu.cfs_period_us"))
        .filter(|&period| period > 0)?;
    Some(Quota {
        quota_us,
        period_us,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    V1,
    V2,
    /// The file system of before control groups; a v1 mount with its file names.
    Cpuset,
}

/// A mounted hierarchy of control groups.
struct Mount {
    kind: Kind,
    /// Where it is mounted.
    point: String,
    /// Which group of the hierarchy is shown there.
    shown: String,
    options: String,
}

impl Mount {
    fn has_option(&self, option: &str) -> bool {
        self.options.split(',').any(|o| o == option)
    }

    fn controls(&self, tree: &Tree, controller: &str) -> bool {
        match self.kind {
            Kind::V1 => self.has_option(controller),
            Kind::V2 => {
                let all = tree
                    .text(&format!("{}/cgroup.controllers", self.point))
                    .unwrap_or_default();
                all.split_whitespace().any(|c| c == controller)
            }
            Kind::Cpuset => controller == "cpuset",
        }
    }

    /// The folders of the group `own` and of all above it up to the mount, the group itself first.
    fn groups_upwards(&self, tree: &Tree, own: Option<String>) -> Vec<String> {
        // Longer paths do not exist, and walking up one takes the square of its length.
        let own = own.filter(|own| own.len() < PATH_MAX).unwrap_or_default();
        let shown = self.shown.trim_end_matches('/');
        let below = match own.strip_prefix(shown) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => &own,
        };
        // A path that climbs out ("/../other": a group outside the namespace) is not below the mount.
        let names: Vec<&str> = below.split('/').filter(|name| !name.is_empty()).collect();
        let names = if names.contains(&"..") {
            Vec::new()
        } else {
            names
        };
        let mut groups: Vec<String> = (0..=names.len())
            .rev()
            .map(|depth| {
                format!(
                    "{}/{}",
                    self.point.trim_end_matches('/'),
                    names[..depth].join("/")
                )
            })
            .map(|group| group.trim_end_matches('/').to_owned())
            .collect();
        groups.retain(|group| tree.has(group));
        groups
    }
}

/// The mounts of control groups, from `mountinfo` or else from `mounts`.
fn mounts(tree: &Tree) -> Vec<Mount> {
    let parse = |kind: &str, point: &str, shown: &str, options: &str| {
        let kind = match kind {
            "cgroup2" => Kind::V2,
            "cgroup" => Kind::V1,
            "cpuset" => Kind::Cpuset,
            _ => return None,
        };
        // No kernel writes "..", which would lead out of a saved tree.
        let point =
            Some(unescape(point)).filter(|point| point.split('/').all(|name| name != ".."))?;
        Some(Mount {
            kind,
            point,
            shown: unescape(shown),
            options: options.to_owned(),
        })
    };
    if let Some(text) = tree.text("proc/self/mountinfo") {
        // id parent major:minor root point options [tags] - type source super-options
        let line = |line: &str| {
            let (front, back) = line.split_once(" - ")?;
            let (front, back): (Vec<_>, Vec<_>) =
                (front.split(' ').collect(), back.split(' ').collect());
            parse(back.first()?, front.get(4)?, front.get(3)?, back.get(2)?)
        };
        return text.lines().filter_map(line).take(MAX_MOUNTS).collect();
    }
    let text = tree
        .text("proc/mounts")
        .or_else(|| tree.text("proc/self/mounts"))
        .unwrap_or_default();
    let line = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        parse(words.get(2)?, words.get(1)?, "/", words.get(3)?)
    };
    text.lines().filter_map(line).take(MAX_MOUNTS).collect()
}

/// The group's path in the hierarchy of a controller: a line `id:controllers:path`, where v2 has the
/// id 0 and no controllers.
fn own_group(tree: &Tree, kind: Kind, controller: &str) -> Option<String> {
    let text = tree.text("proc/self/cgroup")?;
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let ours = match kind {
            Kind::V2 => controllers.is_empty(),
            Kind::V1 | Kind::Cpuset => controllers.split(',').any(|c| c == controller),
        };
        ours.then(|| path.to_owned())
    })
}

/// Undoes the kernel's octal escapes of blanks in mount points.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\134", "\\")
}
