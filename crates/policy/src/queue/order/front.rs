//! Which task is next in order.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;

use super::{Order, Token};
use crate::queue::lanes::Place;

/// The next task in order.
#[derive(Clone, Copy, Debug)]
pub(in crate::queue) struct Front {
    /// When it came; of a table over its share when it is due.
    pub(in crate::queue) key: u64,
    /// Where its table's lane lies.
    pub(in crate::queue) lane: Place,
    /// Since when it counts as waiting, for those who would go before it.
    pub(super) since: u64,
    /// Whether that table is over its share.
    pub(in crate::queue) over: bool,
    /// What it is ordered by: when it came, or its lane's tag.
    pub(super) place: u64,
}

impl<T> Order<T> {
    /// The task that is next in order at `now`.
    pub(in crate::queue) fn front(&mut self, now: u64) -> Option<Front> {
        if self.queued == 0 {
            return None;
        }
        let within = self.front_within();
        if self.tally.over == 0 {
            return within;
        }
        let over = self.front_over();
        if now >= self.floor
            && let Some(over) = over
        {
            // Before all others, of either class.
            return Some(Front { key: 0, ..over });
        }
        match (within, over) {
            (Some(within), Some(over)) if over.key < within.key => Some(over),
            (within, over) => within.or(over),
        }
    }

    #[inline]
    fn front_within(&mut self) -> Option<Front> {
        loop {
            let &Token { at, lane } = self.within.front()?;
            let waits = &self.lanes[lane];
            if waits.oldest() == Some(at) && !waits.over {
                return Some(Front {
                    key: at,
                    lane,
                    since: at,
                    over: false,
                    place: at,
                });
            }
            self.within.pop_front();
        }
    }

    fn front_over(&mut self) -> Option<Front> {
        loop {
            let mut first = self.over.peek_mut()?;
            let Reverse((tag, place)) = *first;
            let lane = &mut self.lanes[place];
            match lane.over {
                true if lane.tag > tag => first.0.0 = lane.tag,
                true => {
                    let since = lane.oldest().unwrap_or_default();
                    return Some(Front {
                        key: self.turn.max(since),
                        lane: place,
                        since,
                        over: true,
                        place: lane.tag,
                    });
                }
                false => {
                    PeekMut::pop(first);
                    lane.in_over = false;
                    self.lanes.release(place);
                }
            }
        }
    }
}
