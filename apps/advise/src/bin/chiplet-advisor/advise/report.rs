//! The advice for groups, as JSON and as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chiplet_advise::{
    Advice, AdviceConfig, Assessment, Because, Features, GroupPath, Host, Reading, Remedy,
    RemoteBy, assess,
};
use serde::Serialize;

use super::latency::Latencies;
use super::watch::Seen;

/// All that is told.
#[derive(Serialize)]
pub(super) struct Report {
    groups: Vec<Group>,
    /// Measured at the start, unless `--lambda` told their ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    latencies: Option<Latencies>,
    /// Processor time that watching took, as a share of one hyperthread.
    watching: f64,
    notes: Vec<String>,
}

/// One group.
#[derive(Serialize)]
struct Group {
    group: GroupPath,
    seconds: f64,
    /// Processors that it kept busy.
    busy: f64,
    /// How many cpus of each node it may run on.
    cpus: BTreeMap<u32, usize>,
    /// Bytes that its processes have mapped, by node.
    memory: BTreeMap<u32, u64>,
    features: Features,
    #[serde(flatten)]
    assessment: Assessment,
    /// How to follow the advice, if it is to bind.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<Remedy>,
}

impl Report {
    /// `None` of a group that has ended in the window: that is noted.
    pub(super) fn new(
        host: &Host,
        seen: &Seen,
        subjects: &[GroupPath],
        latencies: Option<Latencies>,
        mut notes: Vec<String>,
    ) -> Self {
        notes.extend(seen.notes.iter().cloned());
        let mut groups = Vec::new();
        for subject in subjects {
            match group(host, seen, subject) {
                Some(group) => groups.push(group),
                None => notes.push(format!(
                    "{subject} has ended, or was made, within the window: watch one that lasts"
                )),
            }
        }
        Self {
            groups,
            latencies,
            watching: seen.cost.as_secs_f64() / seen.length.as_secs_f64(),
            notes,
        }
    }

    /// Whether there is anything to tell.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for group in &self.groups {
            group.write(&mut out);
            out.push('\n');
        }
        if let Some(Latencies { near_ns, far_ns }) = self.latencies {
            let _ = writeln!(out, "memory: {near_ns:.0} ns near, {far_ns:.0} ns far");
        }
        let _ = writeln!(
            out,
            "watching took {:.2} % of a hyperthread",
            self.watching * 100.0
        );
        out
    }
}

fn group(host: &Host, seen: &Seen, group: &GroupPath) -> Option<Group> {
    let (survey, known) = (&seen.survey, &seen.known);
    let subject = survey.subject(group, known)?;
    let rooms = survey.rooms(group, known);
    let assessment = assess(&subject, &rooms, &AdviceConfig::new());
    let remedy = match assessment.advice {
        Advice::Bind { node, .. } => {
            let own = host.look(group).ok()?.own_cpus;
            let node_of = host.nodes().iter().find(|of| of.node == node);
            let cpus = node_of.map(|of| of.cpus_within(&own));
            cpus.zip(survey.needs(group))
                .map(|(cpus, needs)| Remedy::new(group, node, &cpus, needs))
        }
        _ => None,
    };
    let memory = subject.memory.iter().flat_map(|memory| {
        let nodes = memory.anon.keys().chain(memory.file_mapped.keys());
        nodes.map(|&node| (node, memory.mapped_on(node)))
    });
    Some(Group {
        group: group.clone(),
        seconds: seen.length.as_secs_f64(),
        busy: subject.busy,
        memory: memory.collect(),
        cpus: subject.cpus,
        features: subject.features,
        assessment,
        remedy,
    })
}

impl Group {
    fn write(&self, out: &mut String) {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let by = match self.features.remote_by {
            Some(RemoteBy::Fills) => " (counted fills)",
            Some(RemoteBy::Bandwidth) => " (counted bytes)",
            Some(RemoteBy::Pages) => " (not counted: pages off its cpus' nodes)",
            None => "",
        };
        let features = [
            ("memory bandwidth", "MBW", self.features.mbw, false, ""),
            (
                "stalled on memory",
                "MSR",
                self.features.msr,
                true,
                " of cycles",
            ),
            (
                "mapped pages",
                "NPMR",
                self.features.npmr,
                true,
                " of its memory",
            ),
            ("remote traffic", "RMBR", self.features.rmbr, true, by),
        ];
        let (group, seconds, busy) = (&self.group, self.seconds, self.busy);
        let _ = writeln!(
            out,
            "{group}: {busy:.2} processors busy over {seconds:.0} s"
        );
        for (what, short, reading, is_share, more) in features {
            let _ = match reading {
                Reading::Value(value) if is_share => {
                    writeln!(out, "  {what:<18} {short:<5} {}{more}", percent(value))
                }
                Reading::Value(value) => {
                    writeln!(out, "  {what:<18} {short:<5} {:.2} GB/s", value / 1e9)
                }
                Reading::Missing(why) => writeln!(out, "  {what:<18} {short:<5} unknown: {why}"),
            };
        }
        let nodes: BTreeMap<u32, ()> = self
            .cpus
            .keys()
            .chain(self.memory.keys())
            .map(|&node| (node, ()))
            .collect();
        for node in nodes.into_keys() {
            let (cpus, bytes) = (
                self.cpus.get(&node).copied().unwrap_or(0),
                self.memory.get(&node).copied().unwrap_or(0),
            );
            let _ = writeln!(
                out,
                "  node {node}: may use {cpus} cpus, has {:.1} MB mapped",
                bytes as f64 / 1e6
            );
        }
        let _ = writeln!(out, "  -> {}", self.assessment.advice);
        for short in &self.assessment.short {
            let _ = writeln!(out, "     {short}");
        }
        if let Advice::Nothing {
            because: Because::TooLittle { .. },
        } = self.assessment.advice
        {
            let _ = writeln!(
                out,
                "     (a trial tells for sure: chiplet-advisor advise --trial --cgroup {})",
                group.quoted()
            );
        }
        let Some(remedy) = &self.remedy else { return };
        for command in &remedy.commands {
            let _ = writeln!(out, "     {command}");
        }
        let _ = writeln!(
            out,
            "     to try it first, and to have it noted and undone: chiplet-advisor advise --trial --cgroup {}\n     \
             with its memory, which {}:",
            group.quoted(),
            remedy.warning
        );
        for command in &remedy.with_memory {
            let _ = writeln!(out, "     {command}");
        }
        if group.to_string().contains("kubepods") {
            for line in remedy.pod_spec.lines() {
                let _ = writeln!(out, "     {line}");
            }
        }
    }
}
