//! Flows over their share: which are, and when they are served.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;

use super::runs::Reorder;
use super::{Crowd, EARLY, FAR_MORE, FLOOR, Front, LEAD, LOOK_AHEAD, Order, Taker};
use crate::Time;
use crate::queue::Pace;
use crate::queue::flow::Flow;
use crate::queue::flows::{Flows, NOWHERE, Place};
use crate::queue::ring::Slot;
use crate::queue::terms::Run;

/// Where runs pay, a flow over its share gets so many nanoseconds of work done, times its weight, before the next one's
/// turn: by all workers, whose private caches hold its table then.
const QUANTUM: u64 = 1_000_000;

impl<T> Order<T> {
    /// Whether a flow within its share gets over it at `now`.
    fn floods(&self, flows: &Flows<T>, flow: &Flow<T>, now: u64, crowd: Crowd) -> bool {
        flow.early(now) > EARLY
            || self.is_most(flow) && self.is_most_with_unknown(flows, flow)
            || crowd.much.is_some_and(|much| flow.len as usize > much)
    }

    /// Whether much of a flow waits, and far more than of others.
    #[inline]
    pub(super) fn is_most(&self, flow: &Flow<T>) -> bool {
        self.is_much(flow)
            && match flow.cost {
                0 => self.is_far_more(flow.len.into(), self.queued as u64),
                _ => self.is_far_more(flow.work(), self.work),
            }
    }

    /// Whether that is so by the number of tasks, too, if those that are next are of tables of which nothing is known:
    /// all that waits of these counts as no work.
    fn is_most_with_unknown(&self, flows: &Flows<T>, flow: &Flow<T>) -> bool {
        let is_known = |slot: &Slot<T>| flows[(slot.flow, self.class as usize)].cost > 0;
        self.is_far_more(flow.len.into(), self.queued as u64)
            || self.ring.ahead(LOOK_AHEAD).all(is_known)
    }

    /// Whether `own` of `all` is [`FAR_MORE`] times as much as of each of the others, on average over the flows in
    /// which tasks wait.
    #[inline]
    fn is_far_more(&self, own: u64, all: u64) -> bool {
        let others = u64::from(self.tally.flows.saturating_sub(1)).max(1);
        own > FAR_MORE * (all.saturating_sub(own) / others)
    }

    /// So many tasks have come to the flow at `place`, which is within its share so far, or were refused. While nothing
    /// else waits in the queue it makes no difference whether it is: that is only kept in mind.
    #[cold]
    pub(super) fn judge(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        came: u32,
        now: u64,
        crowd: Crowd,
    ) -> Pace {
        if self.suspect != place {
            self.judge_suspect(flows, now, crowd);
        }
        let suspect = std::mem::replace(&mut self.suspect, NOWHERE);
        let class = self.class as usize;
        if came > 0 && flows[(place, class)].len == came {
            self.clear_way(flows, place, now);
        }
        let flow = &flows[(place, class)];
        if flow.len == 0 || flow.over || !self.floods(flows, flow, now, crowd) {
            return Pace::Within;
        }
        if self.tally.flows > 1 || crowd.is_mixed {
            self.mark_over(flows, place, now);
        } else {
            self.suspect = place;
            if suspect == NOWHERE {
                self.turn = 0;
            }
        }
        Pace::OverShare
    }

    /// Tasks have come to the flow at `place`, in which no others wait. They do not wait for flows of which far more
    /// does than of its own, and than may be a burst.
    fn clear_way(&mut self, flows: &mut Flows<T>, place: Place, now: u64) {
        let flow = &flows[(place, self.class as usize)];
        let own = flow.service.mean(self.typical).saturating_mul(flow.queries);
        let most = FAR_MORE.saturating_mul(own.max(self.too_much));
        loop {
            let is_in_way = |slot: &&Slot<T>| {
                let flow = &flows[(slot.flow, self.class as usize)];
                let is_far_more = match flow.cost {
                    0 => self.is_much(flow),
                    _ => flow.work() > most,
                };
                slot.flow != place && is_far_more
            };
            // Those in front, among which may be some of which little waits.
            let found = self.ring.ahead(LOOK_AHEAD).find(is_in_way);
            let Some(other) = found.map(|slot| slot.flow) else {
                return;
            };
            self.mark_over(flows, other, now);
            if !flows[(other, self.class as usize)].over {
                return;
            }
        }
    }

    /// A task of another table has come. A suspect that has been served meanwhile has had its turn.
    #[cold]
    pub(in crate::queue) fn judge_suspect(&mut self, flows: &mut Flows<T>, now: u64, crowd: Crowd) {
        let place = std::mem::replace(&mut self.suspect, NOWHERE);
        if place == NOWHERE {
            return;
        }
        let flow = &flows[(place, self.class as usize)];
        if !self.floods(flows, flow, now, crowd) {
            return;
        }
        let turn = self.turn;
        self.mark_over(flows, place, now);
        self.turn = self.turn.max(turn);
    }

    /// Adds a task to a flow over its share.
    pub(super) fn add_over(&mut self, flow: &mut Flow<T>, slot: Slot<T>, weight: f32) {
        let queries = u64::from(slot.queries);
        self.joins(flow, (slot.at, queries), weight);
        self.work_over = self.work_over.wrapping_add(queries.wrapping_mul(flow.cost));
        flow.append(slot);
    }

    /// Tasks have come to a flow over its share until `now`: it may get within it again.
    #[cold]
    pub(super) fn judge_over(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        now: u64,
        crowd: Crowd,
    ) -> Pace {
        let flow = &flows[(place, self.class as usize)];
        let is_calm = 2 * flow.early(now) <= EARLY
            && 2 * flow.work() <= self.too_much
            && !self.is_most(flow)
            && crowd.is_low
            && self.tally.is_even();
        match is_calm && self.readmit(flows, place) {
            true => Pace::Within,
            false => Pace::OverShare,
        }
    }

    /// A flow is over its share no more: its tasks wait in order of arrival again. Looks at all that waits; false if
    /// there is no memory for that.
    fn readmit(&mut self, flows: &mut Flows<T>, place: Place) -> bool {
        let class = self.class as usize;
        let flood = std::mem::take(&mut flows[(place, class)].flood);
        if let Err((_, flood)) = self.ring.rebuild(flows, class, flood, 0) {
            flows[(place, class)].flood = flood;
            return false;
        }
        let flow = &mut flows[(place, class)];
        self.work_over = self.work_over.wrapping_sub(flow.work());
        self.tally.forgive(flow);
        self.over.retain(|Reverse((_, other))| *other != place);
        true
    }

    /// So many queries of a flow that came at `at` were refused: it has asked for them all the same.
    pub(in crate::queue) fn note_refused(
        &mut self,
        flows: &mut Flows<T>,
        place: Place,
        queries: u64,
        at: u64,
        crowd: Crowd,
    ) {
        let flow = &mut flows[(place, self.class as usize)];
        let apart = flow.apart.saturating_mul(queries);
        flow.ask(at, self.tally.by_weight(apart, flow.weight.into()), LEAD);
        if crowd.much.is_some() {
            self.judge(flows, place, 0, at, crowd);
        }
    }

    /// Puts a flow with waiting tasks among those over their share, if there is memory for that.
    fn mark_over(&mut self, flows: &mut Flows<T>, place: Place, now: u64) {
        let flow = &mut flows[(place, self.class as usize)];
        let tasks = flow.len;
        if self.over.try_reserve(1).is_err() || flow.flood.try_reserve(tasks as usize).is_err() {
            return;
        }
        for _ in 0..tasks {
            let slot = self.ring.pop(flow);
            flow.flood.push_back(slot);
        }
        flow.len = tasks;
        let is_first = self.tally.over == 0;
        let expected = flow.service.mean(self.typical);
        self.tally.over += 1;
        self.tally.over_weight += f64::from(flow.weight);
        flow.over = true;
        self.work_over = self.work_over.wrapping_add(flow.work());
        if is_first {
            self.turn = flow.flood.front().map_or(now, |slot| slot.at);
            self.floor = now.saturating_add(self.at_least(expected));
        }
        let step = flow.step(expected, self.workers);
        // One that has just been served, and comes again, does not go before those that have waited meanwhile.
        flow.tag = self.clock.max(flow.tag).saturating_add(step);
        self.over.push(Reverse((flow.tag, place)));
    }

    /// How far apart tasks that take `service` are served if flows over their share get just [`FLOOR`], or less by
    /// their weights.
    fn at_least(&self, service: u64) -> u64 {
        let apart = service.saturating_mul(FLOOR) / self.workers;
        self.tally.by_weight(apart, self.tally.over_weight)
    }

    /// The next task, where some flows are over their share.
    pub(super) fn front_of_all(
        &self,
        flows: &Flows<T>,
        within: Option<Front>,
        now: u64,
    ) -> Option<Front> {
        let over = self.front_over(flows);
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

    fn front_over(&self, flows: &Flows<T>) -> Option<Front> {
        let &Reverse((_, place)) = self.over.peek()?;
        let since = flows[(place, self.class as usize)].flood.front()?.at;
        Some(Front {
            key: self.turn.max(since),
            flow: place,
            since,
            over: true,
        })
    }

    /// Whether some flows are over their share.
    pub(in crate::queue) fn has_over(&self) -> bool {
        self.tally.over > 0
    }

    /// The next task of the flows over their share, which `front` is. So many classes have such flows: they divide
    /// [`FLOOR`] between them.
    pub(in crate::queue) fn take_over(
        &mut self,
        flows: &mut Flows<T>,
        (front, classes): (Front, u64),
        taker: Taker,
        run: &mut Run,
        now: Time,
    ) -> Option<T> {
        let at = now.as_nanos();
        let &Reverse((tag, place)) = self.over.peek()?;
        let row = &mut flows.list[place as usize];
        let flow = &mut row.flows[self.class as usize];
        let slot = flow.pop()?;
        if taker.worker.is_some() {
            flow.worker = taker.worker;
        }
        let mean = flow.service.mean(self.typical);
        let expected = mean.saturating_mul(slot.queries.into());
        self.clock = tag;
        let due = flow.charge(expected);
        flow.tag = flow.tag.saturating_add(flow.step(due, self.workers));
        let is_through =
            (flow.tag - tag) * self.workers >= QUANTUM || self.worth.reorder == Reorder::NONE;
        match self.over.peek_mut() {
            Some(first) if flow.len == 0 => drop(PeekMut::pop(first)),
            Some(mut first) if is_through => first.0.0 = flow.tag,
            _ => {}
        }
        // One that is paid for by dead tasks takes nobody's turn.
        if due > 0 {
            // Counted from now, if it was due earlier: others needed the time.
            let apart = self
                .tally
                .by_weight(self.apart(due), self.tally.over_weight);
            let lead = at.saturating_add(LEAD);
            self.turn = front.key.max(at).saturating_add(apart).min(lead);
        }
        let apart = self.at_least(expected).saturating_mul(classes);
        self.floor = at.saturating_add(apart);
        self.leaves(flow, &slot);
        let taken = (&slot, Some(expected));
        run.begin(
            (row.table, taker.last),
            taken,
            self.class,
            self.run_length,
            now,
        );
        slot.task
    }
}
