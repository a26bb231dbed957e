//! The loop: watch, decide, do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use chiplet_advise::{
    Action, Actuator, Advice, AdviceConfig, BalanceConfig, Features, GroupPath, History, Host,
    Journal, Observed, Past, Policy, assess,
};
use chiplet_policy::Time;
use parking_lot::Mutex;

use super::hands::Hands;
use super::services::{self, Service};
use super::status::Status;
use crate::advise::options::{Machine, Noted};
use crate::advise::watch::{Seen, Watch};
use crate::stop::{self, say};

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
    hands: Hands,
    /// Of a dry run: changes of earlier ones.
    in_force: usize,
    /// When it began: goes on evenly, and counts from 1970 as the journal does.
    clock: (SystemTime, Instant),
    pub(super) status: Arc<Mutex<Status>>,
    /// Of a dry run, whose journal is nowhere else.
    _scratch: Option<tempfile::TempDir>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(plan: Plan<'a>) -> anyhow::Result<Self> {
        let host = plan.machine.host()?;
        let (journal, scratch) = match plan.apply {
            true => (plan.noted.open(plan.machine)?, None),
            false => {
                let folder = tempfile::tempdir()?;
                (Journal::open(folder.path().join("journal"))?, Some(folder))
            }
        };
        let watch = Watch::new(&host, plan.machine);
        for note in &watch.notes {
            say(note);
        }
        let past = read_past(&past_file(plan.noted));
        let history = History::read(&plan.noted.journal)?;
        let mut policy = Policy::with_past(plan.config, past);
        let clock = (SystemTime::now(), Instant::now());
        for record in history.records() {
            let at = Time::from_nanos(record.unix_ms.saturating_mul(1_000_000));
            // A clock that was set back since must not make it rest for longer.
            policy.remember(record.planned.group.clone(), at.min(now(clock)));
        }
        Ok(Self {
            policy,
            in_force: match plan.apply {
                true => 0,
                false => history.open().count(),
            },
            hands: Hands {
                actuator: Actuator::new(&plan.machine.sysfs)?.dry(!plan.apply),
                journal,
                apply: plan.apply,
            },
            host,
            watch,
            clock,
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
                    round += 1;
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
            self.round(&seen, &instances, &mut told)?;
        }
        Ok(self.summary())
    }

    fn round(
        &mut self,
        seen: &Seen,
        instances: &[(GroupPath, String)],
        told: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let survey = &seen.survey;
        let begun = Instant::now();
        let observed = survey.observed(instances, &seen.known, &AdviceConfig::new());
        let action = self.policy.round(now(self.clock), &observed);
        let decided = begun.elapsed();
        let features: BTreeMap<GroupPath, Features> = (instances.iter())
            .filter_map(|(group, _)| {
                let subject = survey.subject(group, &seen.known)?;
                Some((group.clone(), subject.features))
            })
            .collect();
        let done = match &action {
            Some(action) => Some(self.hands.act(&self.host, action, &observed, &features)?),
            None => {
                why_not(seen, instances, &observed, told);
                None
            }
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
            status.open = self.open();
            status.observed = observed;
            status.features = features;
        }
        if self.plan.apply
            && let Err(error) = write_past(&past_file(self.plan.noted), self.policy.past())
        {
            tell(
                told,
                format!("{error:#}; after a restart the past is not known"),
            );
        }
        Ok(())
    }

    /// Changes in force.
    fn open(&self) -> usize {
        self.in_force + self.hands.journal.history().open().count()
    }

    fn summary(&self) -> String {
        let status = self.status.lock();
        let open = self.open();
        let mut out = format!(
            "rounds: {}, the slowest decided in {:.2} ms; watching took {:.2} % of a hyperthread\n",
            status.rounds,
            status.slowest.as_secs_f64() * 1e3,
            100.0 * status.watching.as_secs_f64() / status.watched.as_secs_f64().max(1e-9)
        );
        if self.plan.apply && open > 0 {
            out += &format!(
                "changes in force: {open} (chiplet-advisor balance --rollback undoes them)\n"
            );
        }
        out
    }
}

/// The time since 1970 by a clock that goes on evenly from when it was made.
fn now((unix, begun): (SystemTime, Instant)) -> Time {
    let since = unix.duration_since(UNIX_EPOCH).unwrap_or_default() + begun.elapsed();
    Time::from_nanos(since.as_nanos() as u64)
}

/// Tells once of each service why it is not bound.
fn why_not(
    seen: &Seen,
    instances: &[(GroupPath, String)],
    observed: &Observed,
    told: &mut Vec<String>,
) {
    let survey = &seen.survey;
    let mut services = BTreeSet::new();
    for (group, service) in instances {
        let instance = observed.instances.iter().find(|it| it.group == *group);
        if instance.is_none_or(|it| it.bound.is_some()) || !services.insert(service) {
            continue;
        }
        let Some(subject) = survey.subject(group, &seen.known) else {
            continue;
        };
        let rooms = survey.rooms(group, &seen.known);
        let why = match assess(&subject, &rooms, &AdviceConfig::new()).advice {
            Advice::Bind { node, .. } => format!(
                "it would gain on node {node}, and waits: an instance has just been moved or has no quota left there, or \
                 a node would be too busy"
            ),
            advice => advice.to_string(),
        };
        // Figures change from round to round; what is told once is the reason before them.
        let reason = why.split(['(', ';']).next().unwrap_or_default();
        let key = format!(
            "{service} is not bound: {}",
            reason.split("about").next().unwrap_or(reason)
        );
        if !told.contains(&key) && told.len() < MOST_TOLD {
            say(&format!("{service} is not bound: {why}"));
            told.push(key);
        }
    }
}

/// Different things that are told once each.
const MOST_TOLD: usize = 1_000;

/// What is the same each round is told once.
fn tell(told: &mut Vec<String>, text: String) {
    if !told.contains(&text) && told.len() < MOST_TOLD {
        say(&text);
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
        say(&format!(
            "{} is damaged and begun anew: {error}",
            file.display()
        ));
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
