//! What queries read: recorded from searches of real tables, and scaled to tables that nobody has built.

mod lists;
mod queries;
mod scale;
mod walks;

pub use lists::{ListShape, Lists, Visit};
pub use scale::Scale;
pub use walks::{Recording, Walk, Walks};

/// A number that looks random, of a number (splitmix64, Steele and others, OOPSLA 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
