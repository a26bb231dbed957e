//! `chiplet-advisor advise`: would a group of processes gain from being bound to a NUMA node?
//!
//! | file | holds |
//! |---|---|
//! | `options.rs` | what `advise` and `balance` are told alike |
//! | `watch.rs` | a window over the machine, with what is counted |
//! | `latency.rs` | latencies of near and far memory |
//! | `report.rs` | the advice as text and JSON |
//! | `trial.rs`, `metric.rs` | bound and unbound in turn, and what that is judged by |
//! | `undo.rs` | a change taken back by who made it |
//! | `history.rs` | the journal, read |
//!
//! What decides is the library `chiplet-advise`.

mod history;
mod latency;
mod metric;
pub(crate) mod options;
mod report;
mod trial;
pub(crate) mod undo;
pub(crate) mod watch;

use std::time::Duration;

use anyhow::{bail, ensure};
use chiplet_advise::{GroupPath, Host};
use indicatif::{ProgressBar, ProgressStyle};

use crate::stop;
use metric::{Better, Metric};
use options::{Machine, Noted, seconds};
use trial::Trial;
use watch::Watch;

/// Say whether control groups of processes would gain from a NUMA node, and how to bind them.
///
/// Watches for a minute: memory bandwidth, stalls, remote traffic, pages by node, processor use. Predicts by a law with
/// few terms, which it shows, and says "cannot predict" where a counter is missing. Changes nothing, but for --trial.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The group of this process; may be repeated
    #[arg(long, value_name = "PID", group = "whom")]
    pid: Vec<u32>,

    /// A control group, such as /system.slice/search.service; may be repeated
    #[arg(long, value_name = "GROUP", group = "whom")]
    cgroup: Vec<GroupPath>,

    /// How long to watch; with --trial each window
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    seconds: Duration,

    /// Bind it for a while and let go, in turn, and keep what proves better. Binds cpus, and moves no memory
    #[arg(long, requires = "whom")]
    trial: bool,

    /// With --trial: how many bound windows, each between two unbound ones
    #[arg(long, value_name = "N", default_value = "2", requires = "trial", value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,

    /// With --trial: seconds after each change that do not count
    #[arg(long, value_name = "S", default_value = "10", requires = "trial", value_parser = seconds)]
    settle: Duration,

    /// With --trial: the node; without it the one where most of the group's memory lies
    #[arg(long, value_name = "N", requires = "trial")]
    to: Option<u32>,

    /// With --trial: the gain in percent below which the binding is not kept
    #[arg(long, value_name = "PERCENT", default_value = "3", requires = "trial", value_parser = clap::value_parser!(u32).range(0..=100))]
    threshold: u32,

    /// With --trial: judge by a metric of this Prometheus, http://HOST:PORT, instead of instructions a cycle
    #[arg(long, value_name = "URL", requires_all = ["trial", "query"])]
    prometheus: Option<String>,

    /// With --prometheus: an instant query that gives one number. $window in it becomes the window's length
    #[arg(long, value_name = "PROMQL", requires = "prometheus")]
    query: Option<String>,

    /// With --query: which way its number becomes better
    #[arg(
        long,
        value_name = "WAY",
        default_value = "higher",
        requires = "prometheus"
    )]
    better: Better,

    /// Show what was changed and what it gained: all, or of --cgroup, --service, --node
    #[arg(long, conflicts_with_all = ["trial", "pid"])]
    history: bool,

    /// With --history: the changes of this service
    #[arg(long, value_name = "NAME", requires = "history")]
    service: Option<String>,

    /// With --history: the changes to or from this node
    #[arg(long, value_name = "N", requires = "history")]
    node: Option<u32>,

    #[command(flatten)]
    machine: Machine,

    #[command(flatten)]
    noted: Noted,

    /// Write JSON for a program instead of text for a person
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  chiplet-advisor advise --pid $(pidof searchd)                      a minute, then what to do
  chiplet-advisor advise --cgroup /system.slice/search.service --json
  chiplet-advisor advise --trial --cgroup /system.slice/search.service
                                                             judged by instructions a cycle
  chiplet-advisor advise --trial --cgroup /system.slice/search.service --prometheus http://localhost:9090 \\
    --query 'histogram_quantile(0.99, sum by (le) (rate(latency_seconds_bucket[$window])))' --better lower
  chiplet-advisor advise --history --service search                  what was changed, predicted and measured

It needs cgroup v2. Stalls need a performance monitoring unit and the right to count a group (root, or CAP_PERFMON);
bandwidth needs resctrl; pages by node need the memory controller. The report says what is missing and how to get it.
A trial writes cpuset.cpus of the group, after it has noted in the journal what was there. Ctrl-C puts it back;
after a kill `chiplet-advisor balance --rollback` does.

Exit status: 0, or 2 if the machine or the group cannot be read, or a trial could not be finished.";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<String> {
    if arguments.history {
        let of = history::Of {
            groups: &arguments.cgroup,
            service: arguments.service.as_deref(),
            node: arguments.node,
        };
        return history::run(&arguments.noted, &of, arguments.json);
    }
    let host = arguments.machine.host()?;
    let subjects = subjects(arguments, &host)?;
    if arguments.trial {
        return try_it(arguments, &subjects);
    }
    watch(arguments, &host, &subjects)
}

/// The groups that are meant, each once.
fn subjects(arguments: &Arguments, host: &Host) -> anyhow::Result<Vec<GroupPath>> {
    let mut groups = arguments.cgroup.clone();
    for &pid in &arguments.pid {
        groups.push(host.group_of(pid)?);
    }
    ensure!(
        !groups.is_empty(),
        "name a process (--pid PID) or a control group (--cgroup GROUP); systemd-cgls shows them"
    );
    for group in &groups {
        ensure!(
            !group.is_root(),
            "the root group holds all others and has no cpuset of its own; name a group below it"
        );
        host.look(group)?;
    }
    groups.sort();
    groups.dedup();
    Ok(groups)
}

fn watch(arguments: &Arguments, host: &Host, subjects: &[GroupPath]) -> anyhow::Result<String> {
    stop::heed("stopped")?;
    let style = ProgressStyle::with_template("watching {wide_bar} {elapsed}")
        .expect("the template is valid");
    let bar = ProgressBar::new(arguments.seconds.as_millis() as u64).with_style(style);
    let watch = Watch::new(host, &arguments.machine);
    let seen = watch.window(host, subjects, arguments.seconds)?;
    bar.finish_and_clear();
    let Some(seen) = seen else {
        bail!("stopped before the window was over; --seconds S makes it shorter");
    };
    let notes = watch.notes.clone();
    let report = report::Report::new(host, &seen, subjects, watch.latencies, notes);
    for note in report.notes() {
        stop::say(note);
    }
    ensure!(
        !report.is_empty(),
        "no group was there for the whole window"
    );
    match arguments.json {
        true => Ok(serde_json::to_string_pretty(&report)? + "\n"),
        false => Ok(report.text()),
    }
}

fn try_it(arguments: &Arguments, subjects: &[GroupPath]) -> anyhow::Result<String> {
    let [group] = subjects else {
        bail!("--trial takes one group at a time: others change meanwhile what is measured");
    };
    let metric = match (&arguments.prometheus, &arguments.query) {
        (Some(url), Some(query)) => Metric::Prometheus {
            url: url.clone(),
            query: query.clone(),
        },
        _ => Metric::Ipc,
    };
    let trial = Trial {
        machine: &arguments.machine,
        noted: &arguments.noted,
        group,
        node: arguments.to,
        metric,
        better: arguments.better,
        pairs: arguments.pairs,
        window: arguments.seconds,
        settle: arguments.settle,
        threshold: f64::from(arguments.threshold) / 100.0,
    };
    let tried = trial.run()?;
    match arguments.json {
        true => Ok(serde_json::to_string_pretty(&tried)? + "\n"),
        false => Ok(tried.text()),
    }
}
