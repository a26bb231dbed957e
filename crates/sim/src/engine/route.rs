//! A query's way into a queue.

use std::time::Duration;

use chiplet_policy::queue::{Pace, Refusal};
use chiplet_policy::{Class, Routing, is_worth_evening, overflow_domains};
use chiplet_topology::DomainId;

use super::{Engine, table_id};
use crate::trace::mix;

/// Shorter waits are not compared with other groups'.
pub(super) const LONG_WAIT: Duration = Duration::from_micros(200);

/// How long a client of a closed loop waits after a refusal.
pub(super) const PAUSE: u64 = 200_000;

impl Engine<'_> {
    /// Finds a queue for a query that has just come.
    pub(super) fn submit(&mut self, query: usize) {
        let (item, class) = (self.queries[query].item, self.queries[query].class);
        let draw = mix(self.meter.sent);
        let home = self.route(item, class, draw as u32);
        if let Some(other) = self.evens_out(item, class, home)
            && self.push(other, query).is_ok()
        {
            return;
        }
        let refusal = match self.push(home, query) {
            Ok(pace) => {
                self.over_share[item as usize] = pace == Pace::OverShare;
                return;
            }
            Err(refusal) => refusal,
        };
        if self.is_watched() {
            let nearest = &self.groups[home].nearest;
            let spare = nearest
                .iter()
                .copied()
                .find(|&other| self.groups[other].offered);
            if let Some(spare) = spare
                && self.push(spare, query).is_ok()
            {
                return;
            }
        }
        debug_assert!(matches!(refusal, Refusal::GroupFull | Refusal::TableFull));
        self.groups[home].queue.count_shed(table_id(item), 1);
        self.balancer.missed(item as usize);
        self.meter.shed += 1;
        self.refused(home, query);
    }

    fn route(&mut self, item: u32, class: Class, draw: u32) -> usize {
        match self.scenario.strategy.routing {
            Routing::Rotate => {
                self.turn += 1;
                (self.turn - 1) % self.groups.len()
            }
            Routing::Home => {
                let homes = &self.homes[item as usize];
                let [first, second] = [draw, draw.wrapping_add(1)].map(|draw| homes.pick(draw));
                let [first, second] = [first, second].map(|home| self.group_of(home));
                let pace = match self.over_share[item as usize] {
                    true => Pace::OverShare,
                    false => Pace::Within,
                };
                let [wait, other] =
                    [first, second].map(|group| self.groups[group].wait(class, pace));
                match other < wait {
                    true => second,
                    false => first,
                }
            }
        }
    }

    fn group_of(&self, domain: DomainId) -> usize {
        let found = self.domains.iter().position(|&known| known == domain);
        found.unwrap_or(0)
    }

    /// Another domain whose queue is shorter than the home's by more than chance and a cold cache are worth.
    fn evens_out(&self, item: u32, class: Class, home: usize) -> Option<usize> {
        let rotates = self.scenario.strategy.routing == Routing::Rotate;
        if rotates || self.over_share[item as usize] || !self.is_watched() {
            return None;
        }
        let group = &self.groups[home];
        let wait = |group: usize| self.groups[group].wait(class, Pace::Within);
        if wait(home) < LONG_WAIT {
            return None;
        }
        overflow_domains(table_id(item), group.nearest.len())
            .map(|at| group.nearest[at])
            .find(|&other| is_worth_evening(wait(home), wait(other), group.price))
    }

    fn push(&mut self, group: usize, query: usize) -> Result<Pace, Refusal> {
        let state = &self.queries[query];
        let item = state.item;
        let terms = self.clients.terms(state.table, state.class);
        if self.gather(group, query) {
            return Ok(match self.over_share[item as usize] {
                true => Pace::OverShare,
                false => Pace::Within,
            });
        }
        let at = self.time();
        let queue = &mut self.groups[group].queue;
        let pushed = queue.push(table_id(item), terms, query, at);
        let pace = pushed.map_err(|(refusal, _)| refusal)?;
        self.open_to_others(group, query);
        let _ = self.publish(group);
        let woken = self.wake_one(group);
        self.refresh_spare(group);
        // If the last query had work for others this one probably has.
        let helpers = self.last_units[item as usize];
        let splits = self.splits_by_load();
        if splits && helpers > 1 && self.groups[group].queue.len() <= 1 {
            for _ in 1..helpers {
                if !self.wake_one(group) {
                    break;
                }
            }
        }
        if !woken {
            self.seek_help(group);
        }
        Ok(pace)
    }
}
