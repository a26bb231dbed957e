//! A query's way into a queue.

use chiplet_baselines::Routing;
use chiplet_policy::group::Faces;
use chiplet_policy::queue::{Pace, Refusal, Terms};
use chiplet_policy::route::{self, Queues};
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
        let mut queues = Submitting {
            engine: self,
            table,
            class,
        };
        let home = queues.home();
        let evened = queues.evened(home);
        match route::choose(&mut queues, home, evened, query) {
            Ok(Some(pace)) => self.known[table as usize].over_share = pace == Pace::OverShare,
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
        match self.known[table as usize].over_share {
            true => Pace::OverShare,
            false => Pace::Within,
        }
    }

    fn push(&mut self, group: usize, query: usize) -> Result<Pace, (Refusal, usize)> {
        let state = &self.queries[query];
        let table = state.table;
        let terms = Terms {
            effort: state.effort(),
            ..self.clients.terms(table, state.class)
        };
        let at = self.timeline.time();
        let queue = &mut self.groups[group].state;
        let pushed = queue.push(table_id(table), terms, query, at)?;
        pushed.wake.into_iter().for_each(|worker| self.wake(worker));
        self.seek_help(group, pushed.unseen);
        // If the last query had work for others this one probably has.
        let helpers = self.known[table as usize].units as usize;
        if self.splits_by_load() && helpers > 1 {
            self.rouse(group, helpers - 1, 1);
        }
        Ok(pushed.pace)
    }
}

/// A query of a table that has just come.
struct Submitting<'a, 'b> {
    engine: &'a mut Engine<'b>,
    table: u32,
    class: Class,
}

impl Submitting<'_, '_> {
    fn evened(&self, home: usize) -> Option<usize> {
        let engine = &*self.engine;
        let of = (table_id(self.table), self.class, engine.pace_of(self.table));
        match engine.scenario.strategy.routing {
            Routing::Home => route::evens_out(&engine.groups, &engine.crossing, home, of),
            Routing::Rotate => None,
        }
    }
}

impl Queues<usize> for Submitting<'_, '_> {
    fn home(&mut self) -> usize {
        let engine = &mut *self.engine;
        match engine.scenario.strategy.routing {
            Routing::Rotate => {
                engine.turn += 1;
                (engine.turn - 1) % engine.groups.groups()
            }
            Routing::Home => {
                let draw = mix(engine.meter.sent) as u32;
                let homes = &engine.balancer.homes[self.table as usize];
                let homes = [draw, draw.wrapping_add(1)].map(|draw| homes.pick(draw));
                let homes = homes.map(|home| engine.group_of(home));
                route::shorter(
                    &engine.groups,
                    homes,
                    self.class,
                    engine.pace_of(self.table),
                )
            }
        }
    }

    fn spare(&mut self, home: usize) -> Option<usize> {
        route::nearest_spare(&self.engine.groups, &self.engine.crossing, home)
    }

    fn groups(&self) -> usize {
        self.engine.groups.groups()
    }

    fn push(&mut self, group: usize, query: usize) -> Result<Pace, (Refusal, usize)> {
        self.engine.push(group, query)
    }
}
