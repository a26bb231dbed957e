//! Whom a worker helps: a group whose queue is worth crossing for, or one that has fallen behind.

use std::cmp::Reverse;

use crate::group::{Crossing, Faces};
use crate::queue::{Class, Pace};
use crate::route::LONG_WAIT;
use crate::{StealRule, Time, choose_victim, is_worth_relieving};

/// A busy worker looks at one other group's queue before every eighth task: that costs a cache miss.
const LOOK_BEHIND: u32 = 8;

/// The group from which an idle worker of `own` should take a task, if there is any.
pub fn victim(faces: &impl Faces, crossing: &Crossing, own: usize) -> Option<usize> {
    match crossing.stealing {
        StealRule::Never => None,
        // The longest queue; of several, the first.
        StealRule::Anywhere => (0..faces.groups())
            .filter(|&group| group != own && faces.queued(group) > 0)
            .max_by_key(|&group| (faces.queued(group), Reverse(group))),
        StealRule::Ladder if !faces.is_any_needy() => None,
        StealRule::Ladder => {
            let nearest = faces.nearest(own).iter().copied();
            let needy = nearest.filter(|&group| faces.is_needy(group));
            // Of queues with nothing but bulk tasks, the nearest.
            let wait = |group| faces.wait(group, Class::Interactive, Pace::OverShare);
            choose_victim(needy.map(|group| (group, wait(group))))
        }
    }
}

/// Whether an idle worker of another group may take a task of `group`, as far as can be seen from there.
pub fn may_need(faces: &impl Faces, crossing: &Crossing, group: usize) -> bool {
    match crossing.stealing {
        StealRule::Never => false,
        StealRule::Anywhere => faces.queued(group) > 0,
        StealRule::Ladder => faces.is_needy(group),
    }
}

/// Where among the [nearest](Faces::nearest) groups of `group` the next one stands that has workers to spare, `from` there on.
/// One group may have several to spare, so a caller asks again from there until it can wake none.
pub fn next_spare(faces: &impl Faces, group: usize, from: usize) -> Option<usize> {
    let nearest = faces.nearest(group);
    (from..nearest.len()).find(|&at| faces.is_spare(nearest[at]))
}

/// A busy worker's looks at other groups' queues.
///
/// Where nobody is idle nobody crosses. What waits at a group whose workers have stopped, because the system runs something
/// else on their cores or their tasks take much longer than usual, would wait longer than anything elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks(u32);

impl Looks {
    /// The group to look at before the next task, if it is time to: once a worker has found one behind it looks each time,
    /// until that has caught up. `helped` is the group whose task it has just run, if that is not its `own`.
    pub fn next(
        &mut self,
        faces: &impl Faces,
        crossing: &Crossing,
        own: usize,
        helped: Option<usize>,
    ) -> Option<usize> {
        if !crossing.is_priced() {
            return None;
        }
        self.0 = self.0.wrapping_add(1);
        let nearest = faces.nearest(own);
        match helped {
            Some(group) => Some(group),
            None if self.0.is_multiple_of(LOOK_BEHIND) => {
                Some(nearest[(self.0 / LOOK_BEHIND) as usize % nearest.len()])
            }
            None => None,
        }
    }
}

/// Whether the queue of `other` has fallen behind that of `own` at `now`, and neither is empty.
pub fn is_behind(faces: &impl Faces, own: usize, other: usize, now: Time) -> bool {
    let (Some(mine), Some(next)) = (faces.next(own), faces.next(other)) else {
        return false;
    };
    let [own_lag, lag] = [mine, next].map(|next| now.since(next.since));
    next.fair && lag >= LONG_WAIT && is_worth_relieving(own_lag, lag, faces.price(other))
}
