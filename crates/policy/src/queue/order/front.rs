//! Which task is next in order.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;

use super::Order;
use crate::queue::lanes::Place;

/// The next task in order.
#[derive(Clone, Copy, Debug)]
pub(in crate::queue) struct Front {
    /// When it would have come, had its table kept to its share.
    pub(in crate::queue) key: u64,
    /// Where its table's lane lies.
    pub(in crate::queue) lane: Place,
    /// Since when it counts as waiting, for those who would go before it.
    pub(super) since: u64,
    /// Whether that table is over its share.
    pub(in crate::queue) over: bool,
    /// What its lane stands in its heap by: `key`, or the tag.
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

    fn front_within(&mut self) -> Option<Front> {
        loop {
            let mut first = self.within.peek_mut()?;
            let Reverse((key, place)) = *first;
            let lane = &mut self.lanes[place];
            let next = lane.key().filter(|_| !lane.over);
            match next {
                Some(next) if next > key => first.0.0 = next,
                Some(key) => {
                    return Some(Front {
                        key,
                        lane: place,
                        since: key,
                        over: false,
                        place: key,
                    });
                }
                None => {
                    PeekMut::pop(first);
                    lane.in_within = false;
                    self.lanes.release(place);
                }
            }
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
