//! `chiplet-advisor advise --trial`: unbound and bound in turn, measured, kept or rolled back.
//!
//! Load drifts, so each bound window lies between two unbound ones and is compared with their mean (A B A B A). It is
//! kept if every bound window is better and the mean gain is the threshold or more. Each binding is noted in the
//! journal before it is made, with the group's features and the predicted gain; the measured gain is noted last. So the
//! journal becomes what a model can be trained on.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use chiplet_advise::{Actuator, AdviceConfig, Change, Features, GroupPath, Host, Journal, Node};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::metric::{Better, Metric};
use super::options::{Machine, Noted};
use super::undo::undo;
use super::watch::Watch;
use crate::stop;

/// What a trial is told.
pub(super) struct Trial<'a> {
    pub(super) machine: &'a Machine,
    pub(super) noted: &'a Noted,
    pub(super) group: &'a GroupPath,
    pub(super) node: Option<u32>,
    pub(super) metric: Metric,
    pub(super) better: Better,
    pub(super) pairs: u32,
    pub(super) window: Duration,
    pub(super) settle: Duration,
    /// The gain below which the binding is not kept.
    pub(super) threshold: f64,
}

/// A bound window, and the mean of the unbound ones before and after it.
#[derive(Clone, Copy, Debug, Serialize)]
struct Pair {
    unbound: f64,
    bound: f64,
    gain: f64,
}

/// How a trial ended.
#[derive(Serialize)]
pub(super) struct Tried {
    group: GroupPath,
    node: u32,
    metric: String,
    pairs: Vec<Pair>,
    /// On the mean over the pairs.
    gain: f64,
    /// By the law; `None` where it cannot predict.
    predicted: Option<f64>,
    kept: bool,
    /// The journal's number of the last binding.
    change: u64,
}

/// What is known of the group before it is bound.
struct Before {
    features: Option<Features>,
    predicted: Option<f64>,
}

/// A trial under way.
struct Running<'a> {
    trial: &'a Trial<'a>,
    host: Host,
    node: Node,
    actuator: Actuator,
    journal: Journal,
    bar: ProgressBar,
}

impl Trial<'_> {
    pub(super) fn run(&self) -> anyhow::Result<Tried> {
        let host = self.machine.host()?;
        let node = self.node_of(&host)?;
        self.metric.check(&host, self.group, self.window)?;
        let mut journal = self.noted.open(self.machine)?;
        if let Some(open) = journal
            .history()
            .open()
            .find(|record| record.planned.group == *self.group)
        {
            bail!(
                "change {} of {} is still in force: chiplet-advisor balance --rollback --cgroup {} undoes it",
                open.number,
                self.group,
                self.group.quoted()
            );
        }
        let actuator = Actuator::new(&self.machine.sysfs)?.only(vec![self.group.clone()]);
        // Found out now, not after the first windows.
        let dry = Change::bind(self.group.clone(), &node);
        actuator.apply(&mut journal, &dry, SystemTime::now())?;
        let actuator = actuator.dry(false);
        stop::heed(
            "ended in the middle of a trial: chiplet-advisor balance --rollback undoes the binding",
        )?;
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .expect("the template is valid");
        let bar = ProgressBar::new_spinner().with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        let mut running = Running {
            trial: self,
            host,
            node,
            actuator,
            journal,
            bar,
        };
        let tried = running.pairs();
        running.bar.finish_and_clear();
        tried
    }

    /// Where the most of its memory lies, or what was named.
    fn node_of(&self, host: &Host) -> anyhow::Result<Node> {
        let look = host.look(self.group)?;
        let nodes: Vec<&Node> = host
            .nodes()
            .iter()
            .filter(|node| !node.cpus.is_empty())
            .collect();
        ensure!(
            nodes.len() > 1,
            "this machine has one NUMA node with cpus: there is nothing to try"
        );
        let node = match self.node {
            Some(node) => nodes
                .into_iter()
                .find(|of| of.node == node)
                .with_context(|| {
                    format!(
                        "--to {node}: there is no such node with cpus (chiplet topology shows them)"
                    )
                })?,
            None => {
                let memory = look.memory.as_ref().filter(|memory| memory.mapped() > 0);
                let memory = memory.context(
                    "it is not known on which node its memory lies (memory.numa_stat): name a node by --to N",
                )?;
                let most = nodes
                    .into_iter()
                    .max_by_key(|node| memory.mapped_on(node.node));
                most.expect("there are two")
            }
        };
        ensure!(
            look.cpus.iter().any(|cpu| !node.cpus.contains(cpu)),
            "{} runs on no cpu off node {}: there is nothing to try; name another node by --to N",
            self.group,
            node.node
        );
        Ok(node.clone())
    }
}

impl Running<'_> {
    fn pairs(&mut self) -> anyhow::Result<Tried> {
        let trial = self.trial;
        let before = self.look_at_it()?;
        let (mut pairs, mut change) = (Vec::new(), 0);
        let mut unbound = self.measure(1, "unbound")?;
        for pair in 1..=trial.pairs {
            let bound = self.bind(&before).and_then(|number| {
                change = number;
                self.measure(pair, "bound")
            });
            // Whatever came of the window: nothing of it stays without having been judged.
            let undone = self.unbind();
            let bound = bound?;
            undone?;
            let after = self.measure(pair, "unbound again")?;
            let around = (unbound + after) / 2.0;
            pairs.push(Pair {
                unbound: around,
                bound,
                gain: trial.better.gain(around, bound),
            });
            unbound = after;
        }
        let gain = pairs.iter().map(|pair| pair.gain).sum::<f64>() / pairs.len() as f64;
        let kept = gain >= trial.threshold && pairs.iter().all(|pair| pair.gain > 0.0);
        if kept {
            change = self.bind(&before).or_else(|error| self.let_go(error))?;
        }
        if let Err(error) = self.journal.measured(change, gain, SystemTime::now()) {
            return self.let_go(error.into());
        }
        Ok(Tried {
            group: trial.group.clone(),
            node: self.node.node,
            metric: trial.metric.name().to_owned(),
            pairs,
            gain,
            predicted: before.predicted,
            kept,
            change,
        })
    }

    /// What could not be noted is not kept.
    fn let_go<T>(&mut self, error: anyhow::Error) -> anyhow::Result<T> {
        match self.unbind() {
            Ok(()) => Err(error),
            Err(left) => Err(error.context(format!("{left:#}"))),
        }
    }

    /// Its features as it is, and what the law makes of them.
    fn look_at_it(&self) -> anyhow::Result<Before> {
        let group = self.trial.group;
        self.bar.set_message(format!("{group}: looking at it"));
        let watch = Watch::new(&self.host, self.trial.machine);
        let seen = watch.window(&self.host, std::slice::from_ref(group), self.trial.window)?;
        let seen = seen.context("stopped; nothing was changed")?;
        let instances = [(group.clone(), String::new())];
        let observed = seen
            .survey
            .observed(&instances, &seen.known, &AdviceConfig::new());
        let predicted = observed
            .instances
            .first()
            .and_then(|it| it.gains.get(&self.node.node).copied());
        let subject = seen.survey.subject(group, &seen.known);
        Ok(Before {
            features: subject.map(|subject| subject.features),
            predicted,
        })
    }

    fn measure(&self, pair: u32, how: &str) -> anyhow::Result<f64> {
        let trial = self.trial;
        self.bar.set_message(format!(
            "{}: pair {pair} of {}, {how},",
            trial.group, trial.pairs
        ));
        let rest = |length| match stop::rest(length) {
            true => Ok(()),
            false => bail!("stopped; {} is as it was", trial.group),
        };
        rest(trial.settle)?;
        let cpus = || anyhow::Ok(self.host.look(trial.group)?.cpus);
        let at_first = cpus()?;
        let begun = trial.metric.begin(&self.host, trial.group)?;
        rest(trial.window)?;
        let value = trial.metric.end(begun, trial.window)?;
        rest(Duration::ZERO)?;
        ensure!(
            cpus()? == at_first,
            "somebody else has changed the cpus of {} within a window",
            trial.group
        );
        Ok(value)
    }

    fn bind(&mut self, before: &Before) -> anyhow::Result<u64> {
        let mut change = Change::bind(self.trial.group.clone(), &self.node);
        change.features = before.features;
        change.predicted = before.predicted;
        let applied = self
            .actuator
            .apply(&mut self.journal, &change, SystemTime::now())?;
        applied.number.with_context(|| {
            format!(
                "{} has been bound by somebody else meanwhile",
                self.trial.group
            )
        })
    }

    fn unbind(&mut self) -> anyhow::Result<()> {
        let group = self.trial.group;
        let is_bound = self
            .journal
            .history()
            .open()
            .any(|record| record.planned.group == *group);
        let written = undo(&self.actuator, &mut self.journal, group)?;
        ensure!(
            !is_bound || !written.is_empty(),
            "somebody else has taken the binding of {group} back within the trial"
        );
        Ok(())
    }
}

impl Tried {
    pub(super) fn text(&self) -> String {
        let Self {
            group,
            node,
            metric,
            gain,
            kept,
            ..
        } = self;
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let mut out = format!(
            "{group} on node {node}, by {metric}\n   pair    unbound      bound      gain\n"
        );
        for (number, pair) in (1..).zip(&self.pairs) {
            let (unbound, bound) = (pair.unbound, pair.bound);
            let _ = writeln!(
                out,
                "{number:>7} {unbound:>10.4} {bound:>10.4} {:>9}",
                percent(pair.gain)
            );
        }
        let predicted = self.predicted.map_or("not predicted".to_owned(), |share| {
            format!("predicted {}", percent(share))
        });
        let gain = percent(*gain);
        let _ = match kept {
            true => writeln!(
                out,
                "kept: a gain of {gain}, {predicted}; change {} (chiplet-advisor balance --rollback --cgroup {} undoes it)",
                self.change,
                group.quoted()
            ),
            false => writeln!(out, "rolled back: a gain of {gain}, {predicted}"),
        };
        out
    }
}
