//! What queries read: recorded from searches of real tables, and scaled to tables that nobody has built.

mod lists;
mod queries;
mod scale;
mod walks;

pub(crate) use chiplet_recipes::mix;
pub use lists::{ListShape, Lists, Visit};
pub use scale::Scale;
pub use walks::{Recording, Walk, Walks};
