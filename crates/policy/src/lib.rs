//! chiplet's decisions as plain functions over values: where a table lives, when a placement changes, how a query is
//! cut, who may take work from whom.
//!
//! **Everything here is pure**: no thread, clock, file or random number. Equal arguments give equal answers. So the
//! executor and a simulator share this code, and a decision can be replayed from a log.
//!
//! | question | answered by |
//! |---|---|
//! | what load and traffic has a table? | [`UsageWindows`] |
//! | how long do queries wait in so busy a domain? | [`predicted_wait`] |
//! | which domains are a table's homes? | [`assign_homes`], [`assign_home`] give a [`Placement`] |
//! | is it time to move tables? | [`Trigger`], [`TriggerConfig`] |
//! | all of these, kept up to date | [`Planner`] |
//! | which waiting task is next, which are refused? | [`queue::Queue`] |
//! | into which queue does a task go? | [`route::choose`] |
//! | why did a task leave its home? | [`LeftHome`] |
//! | whom does a task wake, who may sleep, who helps whom? | [`group::Group`] |
//! | how much of an IVF query does a core scan next? | [`next_unit`] |
//! | may an idle or a busy core help another domain? | [`is_worth_crossing`], [`can_help`], [`steal_order`] |
//! | in which order does a group look at others? | [`neighbours`], [`overflow_domains`] |
//!
//! Floats that are NaN, infinite or negative never panic: as load they count as 0, as a threshold the documented
//! default replaces them.

// The names by which `settings!` finds this crate and serde, wherever it is used.
#[cfg(feature = "serde")]
extern crate self as chiplet_policy;
#[cfg(feature = "serde")]
#[doc(hidden)]
pub use serde;

#[macro_use]
mod settings;

pub mod group;
mod left_home;
mod mapper;
mod neighbours;
mod overload;
mod placement;
mod planner;
pub mod queue;
pub mod replay;
pub mod route;
mod split;
mod steal;
pub mod steal_order;
mod table_id;
mod time;
mod trigger;
mod wait;
mod window;

pub use left_home::{LeftHome, StealLevel};
pub use mapper::{
    Assignment, Balance, Demand, DomainSpec, DomainTally, MapperConfig, PlaceBy, assign_home,
    assign_homes, balance,
};
pub use neighbours::{Neighbours, neighbours, overflow_domains};
pub use overload::is_too_late;
pub use placement::{Home, Homes, Move, Placement};
pub use planner::{MemoryChange, MemoryStep, Planner, PlannerConfig, Remap};
pub use split::{Hands, SplitConfig, next_unit};
pub use steal::{
    Backlog, LEAST_COLD, Staff, StealConfig, UNIT_FACTOR, can_help, is_worth_crossing,
    is_worth_rebalancing, is_worth_stealing_while_busy,
};
pub use table_id::TableId;
pub use time::Time;
pub use trigger::{RemapReason, Trigger, TriggerConfig};
pub use wait::predicted_wait;
pub use window::{Rates, Usage, UsageWindows, WindowConfig};
