//! MAO's optimizer (section III.D, figure 7): which instance to unbind from a busy node, which service to bind where
//! there is room.
//!
//! | file | holds |
//! |---|---|
//! | `observed` | what a round is given |
//! | `past` | how busy each node has been, for its 95th percentile |
//! | `round` | settings, actions |
//! | `policy` | rounds: one action at most, pauses, rests |
//! | `unbind` | strategies A and B |
//! | `bind` | the service to bind, and where |
//!
//! An *instance* is a control group of a *service*; *bound* means that its cpus are those of one node. A round unbinds
//! an instance, or else binds a service:
//!
//! * **A** unbinds from a node whose cpus are more than 80 % busy.
//! * **B** unbinds from a node 15 points busier than the least busy one, and busier than 95 % of its own past, until 10
//!   points are left.
//! * Both take an instance that uses more than its quota; of several, the one with the least cpu time.
//! * Otherwise all instances of the service with the largest predicted gain are bound, so that they answer alike. Each
//!   goes to the node with most left of its scarcest resource. A binding that would be undone next is not made.
//!
//! One action a minute at most, and none for an instance within 15 minutes of its last, as in Katalyst's memory
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
