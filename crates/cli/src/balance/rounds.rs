//! The loop: watch, decide, announce, do.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};
use chiplet_advise::{
    Action, Actuator, AdviceConfig, Applied, ApplyError, BalanceConfig, Change, Features,
    GroupPath, Host, Journal, Past, Policy, Which,
};
use chiplet_policy::Time;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::services::{self, Service};
use super::status::Status;
use crate::advise::options::{Machine, Noted};
use crate::advise::watch::{Seen, Watch};
use crate::stop;

/// What the loop is told.
pub(super) struct Plan<'a> {
    pub(super) machine: &'a Machine,
    pub(super) noted: &'a Noted,
    pub(super) services: &'a [Service],
    pub(super) config: BalanceConfig,
    pub(super) apply: bool,
    pub(super) every: Duration,
    pub(super) rounds: Option<u64>,
}

/// The loop under way.
pub(super) struct Rounds<'a> {
    plan: Plan<'a>,
    host: Host,
    watch: Watch,
    policy: Policy,
    journal: Journal,
    actuator: Actuator,
    begun: Instant,
    pub(super) status: Arc<Mutex<Status>>,
    /// Of a dry run, whose journal is nowhere else.
    _scratch: Option<tempfile::TempDir>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(plan: Plan<'a>) -> anyhow::Result<Self> {
        let host = plan.machine.host()?;
        let (journal, scratch) = match plan.apply {
            true => (plan.noted.open()?, None),
            false => {
                let folder = tempfile::tempdir()?;
                (Journal::open(folder.path().join("journal"))?, Some(folder))
            }
        };
        let watch = Watch::new(&host, plan.machine);
        for note in &watch.notes {
            eprintln!("chiplet: {note}");
        }
        let past = match plan.apply {
            true => read_past(&past_file(plan.noted)),
            false => Past::default(),
        };
        Ok(Self {
            policy: Policy::with_past(plan.config, past),
            actuator: Actuator::new(&plan.machine.sysfs)?.dry(!plan.apply),
            host,
            watch,
            journal,
            begun: Instant::now(),
            status: Arc::default(),
            _scratch: scratch,
            plan,
        })
    }

    /// Until it is asked to stop, or has made so many rounds.
    pub(super) fn run(&mut self) -> anyhow::Result<String> {
        let mut told = Vec::new();
        let mut round = 0;
        while !stop::asked() && self.plan.rounds.is_none_or(|rounds| round < rounds) {
            let instances = services::instances(&self.host, self.plan.services);
            let groups: Vec<GroupPath> = instances.iter().map(|(group, _)| group.clone()).collect();
            let seen = match self.watch.window(&self.host, &groups, self.plan.every) {
                Ok(Some(seen)) => seen,
                Ok(None) => break,
                Err(error) => {
                    // A cpu that goes offline may leave the system's files in two minds for a moment.
                    tell(&mut told, format!("this round is left out: {error:#}"));
                    if !stop::rest(self.plan.every) {
                        break;
                    }
                    continue;
                }
            };
            round += 1;
            for note in &seen.notes {
                tell(&mut told, note.clone());
            }
            if instances.is_empty() {
                tell(
                    &mut told,
                    "no group matches --service; waiting for one".to_owned(),
                );
            }
            self.round(&seen, &instances)?;
        }
        Ok(self.summary())
    }

    fn round(&mut self, seen: &Seen, instances: &[(GroupPath, String)]) -> anyhow::Result<()> {
        let survey = seen.survey();
        let begun = Instant::now();
        let observed = survey.observed(instances, &seen.known, &AdviceConfig::new());
        let now = Time::from_nanos(self.begun.elapsed().as_nanos() as u64);
        let action = self.policy.round(now, &observed);
        let decided = begun.elapsed();
        let features: BTreeMap<GroupPath, Features> = (instances.iter())
            .filter_map(|(group, _)| {
                let subject = survey.subject(group, &seen.known)?;
                Some((group.clone(), subject.features))
            })
            .collect();
        let done = match &action {
            Some(action) => Some(self.act(action, &features)?),
            None => None,
        };
        {
            let mut status = self.status.lock();
            status.rounds += 1;
            match (&action, done) {
                (Some(Action::Bind { .. }), Some(true)) => status.bound += 1,
                (Some(_), Some(true)) => status.unbound += 1,
                (Some(_), Some(false)) => status.failed += 1,
                _ => {}
            }
            status.decided = decided;
            status.slowest = status.slowest.max(decided);
            status.watching += seen.cost;
            status.watched += seen.length;
            status.open = self.journal.history().open().count();
            status.observed = observed;
            status.features = features;
        }
        if self.plan.apply {
            write_past(&past_file(self.plan.noted), self.policy.past())?;
        }
        Ok(())
    }

    /// Announces an action and carries it out. `false` if the system refused, and then all of it is taken back.
    fn act(
        &mut self,
        action: &Action,
        features: &BTreeMap<GroupPath, Features>,
    ) -> anyhow::Result<bool> {
        let would = if self.plan.apply { "" } else { "would " };
        let nodes = self.host.nodes_now()?;
        let done = match action {
            Action::Unbind {
                group,
                service,
                node,
            } => {
                announce(&format!(
                    "{would}unbind {group} ({service}) from node {node}, which is too busy"
                ))?;
                let ours = self
                    .journal
                    .history()
                    .open()
                    .any(|record| record.planned.group == *group);
                match ours {
                    // As it was before it was bound, to the letter.
                    true => self.take_back(group),
                    false => {
                        let mut change = Change::unbind(group.clone(), *node);
                        change.service = Some(service.clone());
                        change.features = features.get(group).copied();
                        self.apply(&change)
                    }
                }
            }
            Action::Bind { service, to, gain } => {
                let gain = *gain;
                announce(&format!(
                    "{would}bind {} of {service}: saves about {:.1} % of their cycles",
                    if to.len() == 1 {
                        "the one instance".to_owned()
                    } else {
                        format!("all {} instances", to.len())
                    },
                    gain * 100.0
                ))?;
                let mut result = Ok(());
                for (number, (group, node)) in to.iter().enumerate() {
                    announce(&format!("  {group} to node {node}"))?;
                    let node = nodes.iter().find(|of| of.node == *node);
                    result = match node {
                        Some(node) => {
                            let mut change = Change::bind(group.clone(), node);
                            change.service = Some(service.clone());
                            change.features = features.get(group).copied();
                            change.predicted = Some(gain);
                            self.apply(&change)
                        }
                        None => Err(ApplyError::NoCpus {
                            group: group.clone(),
                            node: to[number].1,
                        }),
                    };
                    if result.is_err() {
                        // All instances alike: those that were bound are let go.
                        for (group, _) in &to[..number] {
                            let _ = self.take_back(group);
                        }
                        break;
                    }
                }
                result
            }
            other => bail!("this version does not know how to carry out {other:?}"),
        };
        match done {
            Ok(()) => Ok(true),
            // Nothing can be noted any more, so nothing more may be done.
            Err(error @ ApplyError::Journal(_)) => Err(error.into()),
            Err(error) => {
                announce(&format!("  refused: {error}"))?;
                Ok(false)
            }
        }
    }

    fn apply(&mut self, change: &Change) -> Result<(), ApplyError> {
        let Applied { writes, .. } =
            self.actuator
                .apply(&mut self.journal, change, SystemTime::now())?;
        if !self.plan.apply {
            for write in writes {
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

    fn take_back(&mut self, group: &GroupPath) -> Result<(), ApplyError> {
        let which = Which::Group(group.clone());
        for restoration in self
            .actuator
            .rollback(&mut self.journal, &which, SystemTime::now())?
        {
            restoration.result?;
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let status = self.status.lock();
        let open = self.journal.history().open().count();
        let mut out = format!(
            "rounds: {}, the slowest decided in {:.2} ms; watching took {:.2} % of a hyperthread\n",
            status.rounds,
            status.slowest.as_secs_f64() * 1e3,
            100.0 * status.watching.as_secs_f64() / status.watched.as_secs_f64().max(1e-9)
        );
        if self.plan.apply && open > 0 {
            out += &format!("changes in force: {open} (chiplet balance --rollback undoes them)\n");
        }
        out
    }
}

/// What is done is told as it happens, with the time.
fn announce(text: &str) -> anyhow::Result<()> {
    let now = Timestamp::now().strftime("%H:%M:%S");
    writeln!(std::io::stdout(), "{now} {text}")
        .context("nobody reads what is announced, so nothing more is done")
}

/// What is the same each round is told once.
fn tell(told: &mut Vec<String>, text: String) {
    if !told.contains(&text) && told.len() < 100 {
        eprintln!("chiplet: {text}");
        told.push(text);
    }
}

/// How busy nodes have been: beside the journal.
fn past_file(noted: &Noted) -> PathBuf {
    let mut name = noted.journal.as_os_str().to_owned();
    name.push(".past");
    name.into()
}

/// One that is not there, or is damaged, is begun anew: a day later it is known again.
fn read_past(file: &PathBuf) -> Past {
    let Ok(text) = std::fs::read_to_string(file) else {
        return Past::default();
    };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        eprintln!(
            "chiplet: {} is damaged and begun anew: {error}",
            file.display()
        );
        Past::default()
    })
}

fn write_past(file: &PathBuf, past: &Past) -> anyhow::Result<()> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(std::path::Path::new("."));
    let written = || -> anyhow::Result<()> {
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut new, past)?;
        new.persist(file)?;
        Ok(())
    };
    written().with_context(|| format!("{} cannot be written", file.display()))
}
