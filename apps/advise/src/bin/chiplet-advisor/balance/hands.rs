//! An action carried out, and taken back as a whole where a part of it is refused.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use chiplet_advise::{
    Action, Actuator, ApplyError, Change, CpusetFile, Features, GroupPath, Host, Journal, Observed,
};
use chiplet_topology::parse_list;
use jiff::Timestamp;

use crate::advise::undo::{Refused, undo};

/// What writes.
pub(super) struct Hands {
    pub(super) actuator: Actuator,
    pub(super) journal: Journal,
    /// Not a dry run.
    pub(super) apply: bool,
}

impl Hands {
    /// Announces an action and carries it out. `false` if the system refused, and then all of it is taken back.
    pub(super) fn act(
        &mut self,
        host: &Host,
        action: &Action,
        observed: &Observed,
        features: &BTreeMap<GroupPath, Features>,
    ) -> anyhow::Result<bool> {
        let would = if self.apply { "" } else { "would " };
        let done = match action {
            Action::Unbind {
                group,
                service,
                node,
            } => {
                announce(&format!(
                    "{would}unbind {group} ({service}) from node {node}, which is too busy"
                ))?;
                match self.was_wider(host, group, *node) {
                    // As it was before it was bound, to the letter.
                    true => self.take_back(group),
                    false => {
                        let mut change = Change::unbind(group.clone(), *node);
                        change.service = Some(service.clone());
                        change.features = features.get(group).copied();
                        self.make(&change)
                    }
                }
            }
            Action::Bind { service, to, gain } => {
                // All of it before the first write: who stops reading in between does not leave half of it done.
                announce(&format!(
                    "{would}bind {} of {service}: saves about {:.1} % of their cycles",
                    match to.len() {
                        1 => "the one instance".to_owned(),
                        count => format!("all {count} instances"),
                    },
                    gain * 100.0
                ))?;
                for (group, node) in to {
                    announce(&format!("  {group} to node {node}"))?;
                }
                self.bind_all(host, service, to, observed, features)
            }
            other => bail!("this version does not know how to carry out {other:?}"),
        };
        match done {
            Ok(()) => Ok(true),
            // Nothing can be noted any more, so nothing more may be done.
            Err(Refused::Apply(error @ (ApplyError::Journal(_) | ApplyError::NotNoted { .. }))) => {
                Err(error.into())
            }
            Err(error) => {
                announce(&format!("  refused: {error}"))?;
                Ok(false)
            }
        }
    }

    /// All instances alike: if one is refused, those that were bound are let go.
    fn bind_all(
        &mut self,
        host: &Host,
        service: &str,
        to: &[(GroupPath, u32)],
        observed: &Observed,
        features: &BTreeMap<GroupPath, Features>,
    ) -> Result<(), Refused> {
        let nodes = host.nodes_now().map_err(ApplyError::from)?;
        for (number, (group, node)) in to.iter().enumerate() {
            let of = nodes.iter().find(|of| of.node == *node);
            let result = match of {
                Some(of) => {
                    let mut change = Change::bind(group.clone(), of);
                    change.service = Some(service.to_owned());
                    change.features = features.get(group).copied();
                    let instance = observed.instances.iter().find(|it| it.group == *group);
                    change.predicted = instance.and_then(|it| it.gains.get(node).copied());
                    self.make(&change)
                }
                None => Err(Refused::Apply(ApplyError::NoCpus {
                    group: group.clone(),
                    node: *node,
                })),
            };
            if let Err(error) = result {
                // That one too: it may have been written before what failed.
                for (group, _) in &to[..=number] {
                    let _ = self.take_back(group);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether taking back what the journal has of a group lets it off the node.
    fn was_wider(&self, host: &Host, group: &GroupPath, node: u32) -> bool {
        let mut ours = self.journal.history().open();
        let first = ours.find(|record| record.planned.group == *group);
        let was = first.and_then(|record| {
            let mut writes = record.planned.writes.iter();
            Some(&writes.find(|write| write.file == CpusetFile::Cpus)?.was)
        });
        let Some(was) = was else { return false };
        let cpus = parse_list(was.trim()).unwrap_or_default();
        let nodes = host.nodes();
        let confines = nodes
            .iter()
            .any(|of| of.node == node && cpus.is_subset(&of.cpus));
        cpus.is_empty() || !confines
    }

    fn make(&mut self, change: &Change) -> Result<(), Refused> {
        let applied = self
            .actuator
            .apply(&mut self.journal, change, SystemTime::now())?;
        if !self.apply {
            for write in applied.writes {
                let _ = announce(&format!(
                    "    {}: {:?} -> {:?}",
                    write.file.name(),
                    write.was.trim(),
                    write.text.trim()
                ));
            }
        }
        Ok(())
    }

    fn take_back(&mut self, group: &GroupPath) -> Result<(), Refused> {
        undo(&self.actuator, &mut self.journal, group).map(|_| ())
    }
}

/// What is done is told as it happens, with the time.
fn announce(text: &str) -> anyhow::Result<()> {
    let now = Timestamp::now().strftime("%H:%M:%S");
    writeln!(std::io::stdout(), "{now} {text}")
        .context("nobody reads what is announced, so nothing more is done")
}
