//! `chiplet-advisor balance`: services are bound to NUMA nodes and unbound as load comes and goes.
//!
//! | file | holds |
//! |---|---|
//! | `services.rs` | which groups are instances of which service |
//! | `rounds.rs` | the loop: watch, decide, do |
//! | `hands.rs` | an action announced and carried out, or refused as a whole |
//! | `status.rs`, `endpoint.rs` | what Prometheus reads |
//! | `rollback.rs` | the journal undone |
//!
//! What decides, and what writes, is the library `chiplet-advise`.

mod endpoint;
mod hands;
mod rollback;
mod rounds;
mod services;
mod status;

use std::net::SocketAddr;
use std::time::Duration;

use chiplet_advise::{BalanceConfig, GroupPath};

use crate::advise::options::{Machine, Noted, seconds};
use crate::stop;
use rounds::{Plan, Rounds};
use services::Service;

/// Bind services to NUMA nodes where that saves cycles, and unbind them where a node becomes too busy.
///
/// Each round watches, then takes one action at most: it unbinds the least busy instance of a node that is too busy, or
/// else binds all instances of the service with the largest predicted gain. One action a minute, and 15 minutes of rest
/// for each instance. Without --apply it only says what it would do.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A service and its instances: a control group, or all whose path begins so (`*`). May be repeated; other groups
    /// are never changed
    #[arg(long, value_name = "NAME=GROUP", required_unless_present = "rollback")]
    service: Vec<Service>,

    /// Carry actions out
    #[arg(long)]
    apply: bool,

    /// When instances are unbound. a: from a node more than 80 % busy. b: from a node that is 15 points busier than
    /// another and busier than it used to be; it needs to know a day of the past first (MAO went from a to b)
    #[arg(long, value_name = "WHICH", default_value = "b")]
    strategy: Strategy,

    /// With b: how many minutes of a node's past have to be known
    #[arg(long, value_name = "MINUTES", default_value = "1440")]
    least_past: u32,

    /// The predicted gain in percent below which a service is not bound
    #[arg(long, value_name = "PERCENT", default_value = "3", value_parser = clap::value_parser!(u32).range(0..=100))]
    threshold: u32,

    /// How long a round watches
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    every: Duration,

    /// End after so many rounds
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,

    /// Serve http://ADDRESS/metrics for Prometheus, such as 127.0.0.1:9117
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Undo what the journal says was changed, by this command or by `chiplet-advisor advise --trial`, also after a
    /// kill
    #[arg(long, conflicts_with_all = ["service", "apply", "rounds", "listen"])]
    rollback: bool,

    /// With --rollback: only this group
    #[arg(long, value_name = "GROUP", requires = "rollback")]
    cgroup: Option<GroupPath>,

    /// With --rollback: also what somebody else has set since
    #[arg(long, requires = "rollback")]
    over_others: bool,

    #[command(flatten)]
    machine: Machine,

    #[command(flatten)]
    noted: Noted,
}

/// When instances are unbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Strategy {
    A,
    B,
}

const EXAMPLES: &str = "\
Examples:
  chiplet-advisor balance --service search=/system.slice/search@*          what it would do
  chiplet-advisor balance --service search=/system.slice/search@* --service ads=/system.slice/ads.service --apply
  chiplet-advisor balance --service search=/kubepods/search-* --listen 127.0.0.1:9117
  chiplet-advisor balance --rollback                                       all as it was
  chiplet-advisor advise --history                                         what was done

It writes cpuset.cpus of the named groups alone, each after a note in the journal of what was there; no memory is moved.
systemd and the kubelet may set a group again. Ctrl-C ends it and leaves groups bound; --rollback lets them go.

Exit status: 0, or 2 if the machine or the journal cannot be used, or a rollback left something.";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (machine, noted) = (&arguments.machine, &arguments.noted);
    if arguments.rollback {
        return rollback::run(
            machine,
            noted,
            arguments.cgroup.as_ref(),
            arguments.over_others,
        );
    }
    stop::heed("ended at once; chiplet-advisor balance --rollback undoes what is in force")?;
    let strategy = match arguments.strategy {
        Strategy::A => chiplet_advise::Strategy::A,
        Strategy::B => chiplet_advise::Strategy::B,
    };
    let config = BalanceConfig::new()
        .strategy(strategy)
        .least_past(arguments.least_past)
        .threshold(f64::from(arguments.threshold) / 100.0);
    let mut rounds = Rounds::new(Plan {
        machine,
        noted,
        services: &arguments.service,
        config,
        apply: arguments.apply,
        every: arguments.every,
        rounds: arguments.rounds,
    })?;
    if let Some(address) = arguments.listen {
        let address = endpoint::serve(address, rounds.status.clone())?;
        stop::say(&format!("metrics at http://{address}/metrics"));
    }
    if !arguments.apply {
        stop::say("a dry run, which changes nothing; --apply carries actions out");
    }
    rounds.run()
}
