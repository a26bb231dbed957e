//! MAO's optimizer (section III.D, figure 7) as a pure policy: which instance to unbind when a node is too busy, and which
//! service to bind when there is room.
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
//! An *instance* is a control group of a *service*; *bound* means that its cpus are those of one node. A round unbinds an
//! instance, or else binds a service:
//!
//! * **A** unbinds from a node whose cpus are more than 80 % busy.
//! * **B** unbinds from a node that is busier than the least busy one by 15 points, and busier than 95 % of its own past. It
//!   goes on until 10 points are left.
//! * Both take an instance that uses more than its quota; of several the one that uses the least cpu time.
//! * Otherwise all instances of the service with the largest predicted gain are bound, because they are to answer alike. Each
//!   goes to the node that has most left of what it has least of. A binding that would be undone next is not made.
//!
//! There is one action a minute at most, and none for an instance within 15 minutes of the last, as in Katalyst's memory
//! balancer. Equal observations at equal times give equal actions.

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
