//! A query's way into a queue.

use chiplet_baselines::Routing;
use chiplet_policy::group::PublishedLoads;
use chiplet_policy::queue::{Pace, Refusal, Terms};
use chiplet_policy::{Time, route};
use chiplet_table::Class;
use chiplet_topology::DomainId;

use super::Engine;
use super::queries::table_id;
use chiplet_recipes::mix;

/// How long a client of a closed loop waits after a refusal.
pub(super) const PAUSE: u64 = 200_000;

impl Engine<'_> {
    /// Finds a queue for a query that has just come.
    pub(super) fn submit(&mut self, query: usize) {
        let (table, class) = (self.queries[query].table, self.queries[query].class);
        let home = self.home(table, class);
        let of = (table_id(table), class, self.pace_of(table));
        let evened = match self.scenario.strategy.routing {
            Routing::Home => route::evens_out(&self.groups, &self.crossing, home, of),
            Routing::Rotate => None,
        };
        let groups = self.groups.groups();
        let push = |engine: &mut Self, group, _, query| engine.push(group, query);
        let placed = route::choose(
            self,
            groups,
            (home, evened),
            query,
            |engine| engine.home(table, class),
            |engine, home| route::nearest_spare(&engine.groups, &engine.crossing, home),
            (push, push),
        );
        match placed {
            Ok(Some(pace)) => self.known[table as usize].is_backlogged = pace == Pace::Backlogged,
            Ok(None) => {}
            Err(unplaced) => {
                let home = &mut self.groups[unplaced.home].state;
                home.refuse(table_id(table), class, 1, unplaced.refusal.is_for_places());
                self.meter.shed += 1;
                self.note_refused(query);
                self.refused(query);
            }
        }
    }

    fn group_of(&self, domain: DomainId) -> usize {
        let found = self.domains.iter().position(|&known| known == domain);
        found.unwrap_or(0)
    }

    fn pace_of(&self, table: u32) -> Pace {
        match self.known[table as usize].is_backlogged {
            true => Pace::Backlogged,
            false => Pace::Within,
        }
    }

    fn push(&mut self, group: usize, query: usize) -> Result<Pace, (Refusal, usize)> {
        let state = &self.queries[query];
        let table = state.table;
        let terms = Terms {
            expires: state.due.map(Time::from_nanos),
            ..self.clients.terms(table, state.class)
        };
        let at = self.timeline.time();
        let queue = &mut self.groups[group].state;
        let pushed = queue.push(table_id(table), &terms, query, at)?;
        pushed.wake.into_iter().for_each(|worker| self.wake(worker));
        self.seek_help(group, pushed.unseen);
        // If the last query had work for others this one probably has.
        let helpers = self.known[table as usize].units as usize;
        if self.splits_by_load() && helpers > 1 {
            self.wake_several(group, helpers - 1, 1);
        }
        Ok(pushed.pace)
    }

    /// The group that is a table's home for the next query of `class`.
    fn home(&mut self, table: u32, class: Class) -> usize {
        match self.scenario.strategy.routing {
            Routing::Rotate => {
                self.turn += 1;
                (self.turn - 1) % self.groups.groups()
            }
            Routing::Home => {
                let draw = mix(self.meter.sent) as u32;
                let homes = &self.balancer.homes[table as usize];
                let homes = [draw, draw.wrapping_add(1)].map(|draw| homes.pick(draw));
                let homes = homes.map(|home| self.group_of(home));
                route::shorter(&self.groups, homes, class)
            }
        }
    }
}
