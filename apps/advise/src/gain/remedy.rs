//! Commands and settings that carry an advice out.
//!
//! The cpus alone are bound, unless it is asked for more: what is allocated from then on comes from their node by
//! itself (first touch). Writing `cpuset.mems` on cgroup v2 migrates every page that lies elsewhere (Linux
//! ee9707e8593d), which takes a second of a whole core for 1.6 GB, so that form stands apart and carries a warning.
//! systemd's `AllowedMemoryNodes=` writes the same file.

use std::collections::BTreeSet;

use chiplet_topology::cpu_ranges;
use serde::Serialize;

use crate::group::{GroupPath, quoted};

/// What a group takes, for a pod's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needs {
    /// Processors: its quota if it has one, else what it keeps busy.
    pub cpus: f64,
    /// Bytes of memory.
    pub memory: u64,
}

/// How to bind a group to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Remedy {
    /// Shell commands that bind its cpus.
    pub commands: Vec<String>,
    /// Shell commands that bind its memory as well; heed the warning.
    pub with_memory: Vec<String>,
    /// What `with_memory` brings about.
    pub warning: String,
    /// A part of a Kubernetes pod's specification, for the next start of it, in YAML.
    pub pod_spec: String,
}

impl Remedy {
    /// For a group that is to run on these cpus, all those of a node.
    ///
    /// ```
    /// use chiplet_advise::{Needs, Remedy};
    /// let group = "/system.slice/search.service".parse()?;
    /// let needs = Needs { cpus: 3.2, memory: 5 << 30 };
    /// let remedy = Remedy::new(&group, 1, &(8..16).collect(), needs);
    /// assert_eq!(
    ///     remedy.commands,
    ///     ["systemctl set-property --runtime search.service AllowedCPUs=8-15"]
    /// );
    /// assert_eq!(
    ///     remedy.with_memory,
    ///     ["systemctl set-property --runtime search.service AllowedCPUs=8-15 AllowedMemoryNodes=1"]
    /// );
    /// # Ok::<(), chiplet_advise::BadGroup>(())
    /// ```
    pub fn new(group: &GroupPath, node: u32, cpus: &BTreeSet<u32>, needs: Needs) -> Self {
        let ranges = cpu_ranges(cpus);
        let (commands, with_memory) = match group.unit() {
            Some(unit) => {
                let whose = if unit.of_user { " --user" } else { "" };
                let name = quoted(unit.name);
                let line =
                    format!("systemctl{whose} set-property --runtime {name} AllowedCPUs={ranges}");
                let memory = format!("{line} AllowedMemoryNodes={node}");
                (vec![line], vec![memory])
            }
            None => {
                let write = |value: &str, file: &str| {
                    let path = format!("/sys/fs/cgroup{}/{file}", slash(group));
                    format!("echo {value} > {}", quoted(&path))
                };
                let line = write(&ranges, "cpuset.cpus");
                let memory = write(&node.to_string(), "cpuset.mems");
                (vec![line.clone()], vec![line, memory])
            }
        };
        Self {
            commands,
            with_memory,
            warning: format!(
                "moves every page of the group that lies off node {node} there, at once and at about 1.6 GB a second \
                 of a core, while its threads wait for them"
            ),
            pod_spec: pod_spec(needs),
        }
    }
}

/// The group with a leading slash; nothing for the root.
fn slash(group: &GroupPath) -> String {
    match group.is_root() {
        true => String::new(),
        false => group.to_string(),
    }
}

/// Guaranteed means: of each container, requests equal limits; and whole cpus, or the kubelet pins none.
fn pod_spec(needs: Needs) -> String {
    let cpus = needs.cpus.ceil().clamp(1.0, 65_536.0) as u32;
    let memory = needs.memory.div_ceil(1 << 30).max(1);
    format!(
        "\
# The kubelet places a pod on one node when it is started, not later. Its configuration needs
#   cpuManagerPolicy: static
#   memoryManagerPolicy: Static            # with reservedMemory for each node
#   topologyManagerPolicy: single-numa-node
#   topologyManagerScope: pod
spec:
  containers:
  - name: NAME
    resources:                             # equal, and whole cpus: QoS class Guaranteed
      requests: {{cpu: \"{cpus}\", memory: {memory}Gi}}
      limits: {{cpu: \"{cpus}\", memory: {memory}Gi}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(group: &str) -> Remedy {
        let needs = Needs {
            cpus: 3.2,
            memory: (5 << 30) + 1,
        };
        Remedy::new(&group.parse().unwrap(), 1, &(4..8).collect(), needs)
    }

    #[test]
    fn a_group_that_is_no_unit_gets_writes_of_its_files() {
        let remedy = remedy("/docker/0123");
        let cpus = "echo 4-7 > /sys/fs/cgroup/docker/0123/cpuset.cpus";
        assert_eq!(remedy.commands, [cpus]);
        let mems = "echo 1 > /sys/fs/cgroup/docker/0123/cpuset.mems";
        assert_eq!(remedy.with_memory, [cpus, mems]);
        assert!(remedy.warning.contains("off node 1"));
    }

    #[test]
    fn names_cannot_break_out_of_the_command() {
        let unit = remedy(r"/system.slice/dev\x2ddisk.service").commands;
        let set = "systemctl set-property --runtime";
        assert_eq!(
            unit,
            [format!(r"{set} 'dev\x2ddisk.service' AllowedCPUs=4-7")]
        );
        let file = remedy("/a';reboot;'").commands;
        assert_eq!(
            file,
            [r"echo 4-7 > '/sys/fs/cgroup/a'\'';reboot;'\''/cpuset.cpus'"]
        );
        let users = remedy("/user.slice/user@1000.service/app.slice/a.service").commands;
        assert!(users[0].starts_with("systemctl --user set-property --runtime a.service "));
    }

    #[test]
    fn a_pod_is_guaranteed_whole_cpus() {
        let spec = remedy("/kubepods/pod1").pod_spec;
        for line in ["requests: ", "limits: "] {
            assert!(
                spec.contains(&format!("{line}{{cpu: \"4\", memory: 6Gi}}")),
                "{spec}"
            );
        }
    }
}
