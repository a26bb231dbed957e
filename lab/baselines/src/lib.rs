//! What chiplet is compared with: thread pools that know no caches, and the names of everything that can be compared.
//!
//! A [`Strategy`] is a named set of rules. Those whose queries go home are the executor with other settings. The three
//! baselines rotate, and are run here: [`Pool`]. The simulator knows all of them. Nothing of this is part of the
//! library.

mod placebo;
mod pool;
mod split;
mod strategy;

pub use placebo::{PARTS, PLACEBO, deal, scrambled};
pub use pool::Pool;
pub use strategy::{Routing, Splitting, Stealing, Strategy, UnknownStrategy};
