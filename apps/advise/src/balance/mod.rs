//! Which instance to unbind when a node is too busy, and which service to bind when there is room: MAO's optimizer
//! (section III.D, figure 7) as a pure policy.
//!
//! | file | holds |
//! |---|---|
//! | `observed.rs` | what a round is given |
//! | `past.rs` | how busy each node has been, for its 95th percentile |
//! | `round.rs` | settings, actions, what a round is decided by |
//! | `policy.rs` | the rounds: one action at most, pauses, rests |
//! | `unbind.rs` | strategies A and B |
//! | `bind.rs` | the service to bind, and where to |
//!
//! An *instance* is a control group of a *service*; *bound* means that its cpus are those of one node.
//!
//! A round looks for an instance to unbind, and only if there is none for a service to bind:
//!
//! * **A** unbinds from a node whose cpus are more than 80 % busy, an instance that uses more than its quota.
//! * **B** unbinds from a node that is busier than the least busy one by 15 points, and busier than 95 % of its own past,
//!   an instance that uses more than its quota. Once it has begun it goes on until 10 points are left.
//! * Of several instances it is the one that uses the least cpu time, one at a time.
//! * Otherwise the service with the largest predicted gain is bound: all of its instances, or none, because instances
//!   of one service are to answer alike. Each goes to the node that has most left of what it has least of. A binding
//!   that would be the next to be undone is not made.
//!
//! There is one action a minute at most, and none for an instance within 15 minutes of the last (the guard against
//! ping-pong that Katalyst's memory balancer has). Equal observations at equal times give equal actions.

mod bind;
mod observed;
mod past;
mod policy;
mod round;
mod unbind;

pub use observed::{Instance, NodeLoad, Observed};
pub use past::Past;
pub use policy::Policy;
pub use round::{Action, BalanceConfig, Strategy};
