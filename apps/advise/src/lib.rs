//! Whether a group of processes would gain from being bound to a NUMA node, what to do about it, and how to undo it.
//!
//! It follows Baidu's MAO (Liu, Jin, Shu, Li, He: "Machine learning approach for NUMA optimization in warehouse scale
//! computers"), with a formula in place of the trained model. Without a counter it says nothing. Memory is not
//! migrated: cpus are bound to the node where most of the memory is.
//!
//! | question | answered by |
//! |---|---|
//! | what does the machine have, and what do its control groups do? | [`Host`], [`Look`], [`Snapshot`] |
//! | how does a group use memory? | [`Features`] of a [`Window`] |
//! | would it gain from a node, and is there room? | [`assess`], or [`Survey`] for a whole machine |
//! | which commands do that? | [`Remedy`] |
//! | whom to bind and unbind as load comes and goes? | [`Policy`] |
//! | how is it done, and undone? | [`Actuator`] with a [`Journal`]; [`History`] tells what was |
//!
//! Only [`Actuator`] and [`Journal`] write. What decides is pure: equal arguments give equal answers.
//!
//! ```no_run
//! use std::time::Duration;
//! use chiplet_advise::{AdviceConfig, Host, Known, Snapshot, Survey, assess};
//! let host = Host::open("/")?;
//! let (groups, window) = (host.groups(), Duration::from_secs(60));
//! let before = Snapshot::take(&host, &groups)?;
//! std::thread::sleep(window);
//! let after = Snapshot::take(&host, &groups)?;
//! let survey = Survey::new(before, after, window)?;
//! let (group, known) = (host.group_of(std::process::id())?, Known::default());
//! if let Some(subject) = survey.subject(&group, &known) {
//!     let rooms = survey.rooms(&group, &known);
//!     println!("{}", assess(&subject, &rooms, &AdviceConfig::new()).advice);
//! }
//! # Ok::<(), chiplet_advise::HostError>(())
//! ```

mod actuator;
mod balance;
mod features;
mod gain;
mod group;
mod host;
mod journal;
mod memory;
mod missing;
mod step;
mod survey;

pub use actuator::{Actuator, Applied, ApplyError, Change, Restoration, Restored, Which};
pub use balance::{Action, BalanceConfig, Instance, NodeLoad, Observed, Past, Policy, Strategy};
pub use features::{Cycles, Features, Fills, Reading, RemoteBy, Window};
pub use gain::{
    Advice, AdviceConfig, Assessment, Because, Cache, Figure, Needs, Neighbour, Remedy, Resource,
    Room, Shortage, Subject, Terms, assess,
};
pub use group::{BadGroup, GroupPath, Unit};
pub use host::{CpuUse, Host, HostError, Look, Node, Vendor};
pub use journal::{
    CpusetFile, History, Journal, JournalError, Kind, Outcome, Planned, Record, State, Write,
};
pub use memory::GroupMemory;
pub use missing::Missing;
pub use survey::{Known, Snapshot, Survey};
