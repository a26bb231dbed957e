//! What tasks ask for, coarsely.

use std::num::NonZeroU16;
use std::time::Duration;

/// What a task with a deadline asks for: tasks of one table that ask for the same take about as long.
///
/// Of searches that is how many rows they look at; of closures, of which nothing else is known, the time that they are
/// allowed alone. So a table's long queries say nothing of its short ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(NonZeroU16);

impl Effort {
    /// Of a task that has this much `time` until its deadline when it comes. A search keeps `candidates` or looks into
    /// as many lists, and is `bounded` by a filter or a radius; of other tasks these are 0 and false.
    ///
    /// Times count by a factor of four, candidates by one of two.
    ///
    /// ```
    /// use std::time::Duration;
    /// use chiplet_policy::queue::Effort;
    ///
    /// let within = |ms| Effort::new(Duration::from_millis(ms), 64, false);
    /// assert_eq!(within(25), within(30));
    /// assert_ne!(within(25), within(1_000));
    /// assert_ne!(within(25), Effort::new(Duration::from_millis(25), 512, false));
    /// ```
    pub fn new(time: Duration, candidates: usize, bounded: bool) -> Self {
        let time = (u128::BITS - time.as_millis().leading_zeros())
            .div_ceil(2)
            .min(15) as u16;
        let candidates = (usize::BITS - candidates.leading_zeros()).min(31) as u16;
        let code = candidates << 5 | u16::from(bounded) << 4 | time;
        // One more, so that none is 0.
        Self(NonZeroU16::MIN.saturating_add(code))
    }
}
