//! Clients ask, and what becomes of queries with deadlines.
//!
//! A client is told that its query has expired when the deadline has passed, wherever the query is then. What is left
//! of it in a queue is dead: it holds its place until a worker takes it, or until the timed look after a refusal finds
//! it.

use std::time::Duration;

use chiplet_baselines::Routing;
use chiplet_policy::is_too_late;

use super::clients::nanos;
use super::queries::{Query, table_id};
use super::route::PAUSE;
use super::rows::{Row, second_of};
use super::scenario::Load;
use super::timeline::Event;
use super::{Doing, Engine};
use crate::workload::Arrivals;

/// Nanoseconds that a worker takes to pass a query over, at least.
const LEAST_LOOK: u64 = 500;

impl Engine<'_> {
    /// All clients begin.
    pub(super) fn begin_asking(&mut self) {
        for number in 0..self.clients.clients.len() {
            let client = &mut self.clients.clients[number];
            let (from, arrivals) = (nanos(client.ask.from), client.ask.arrivals);
            let (first, times) = match arrivals {
                Arrivals::Shared => continue,
                Arrivals::Rate(rate) => (from + client.gap(rate), 1),
                Arrivals::Outstanding(queries) => (from, queries),
                Arrivals::Burst { .. } => (from, 1),
            };
            for _ in 0..times {
                self.timeline.at(first, Event::Ask(number));
            }
        }
    }

    /// A client asks.
    pub(super) fn ask(&mut self, number: usize) {
        let client = &mut self.clients.clients[number];
        let ask = client.ask;
        if ask
            .until
            .is_some_and(|until| self.timeline.now() >= nanos(until))
        {
            return;
        }
        let (queries, next) = match ask.arrivals {
            Arrivals::Rate(rate) => (1, Some(client.gap(rate))),
            Arrivals::Burst { queries, every } => (queries, every.map(nanos)),
            Arrivals::Outstanding(_) | Arrivals::Shared => (1, None),
        };
        if let Some(next) = next {
            self.timeline.after(next.max(1), Event::Ask(number));
        }
        let different = self.scenario.prepared.workload.queries as u64;
        for _ in 0..queries {
            let client = &mut self.clients.clients[number];
            let which = (client.draw() % different.max(1)) as u32;
            let (table, row) = (client.table, client.row);
            let query = Query {
                client: Some(number),
                row: Some(row),
                class: ask.class,
                work: ask.work,
                ..self.query(table, which)
            };
            self.enter(query, ask.deadline_ms);
        }
    }

    /// A query comes, whose client waits so long for the answer.
    pub(super) fn enter(&mut self, query: Query, deadline_ms: Option<f64>) {
        let serial = query.serial;
        let place = self.queries.place(query);
        if let Some(ms) = deadline_ms {
            let due = self.timeline.now() + nanos(ms / 1e3).max(1);
            self.queries[place].due = Some(due);
            self.timeline.at(due, Event::Due(place, serial));
        }
        self.meter.sent += 1;
        self.submit(place);
    }

    /// Whoever waited for a query's answer does not any more: a client of a closed loop asks again after so long.
    pub(super) fn ask_again(&mut self, client: Option<usize>, after: u64) {
        let at = self.timeline.now() + after;
        match client {
            Some(number) => {
                if let Arrivals::Outstanding(_) = self.clients.clients[number].ask.arrivals {
                    self.timeline.at(at, Event::Ask(number));
                }
            }
            None => {
                if let Load::Saturated { .. } = self.scenario.load {
                    self.timeline.at(at, Event::Arrive);
                }
            }
        }
    }

    /// A deadline has passed.
    pub(super) fn due(&mut self, place: usize, serial: u64) {
        let query = &mut self.queries[place];
        if query.serial != serial || query.told {
            return;
        }
        query.told = true;
        let (client, running) = (query.client, query.running);
        let second = second_of(self.timeline.now());
        if let Some(row) = self.row_of(place) {
            match running {
                true => row.late += 1,
                false => row.waiting += 1,
            }
            row.expired_in(second);
        }
        self.ask_again(client, 0);
    }

    /// A worker has taken a query that is dead, or not worth beginning: it looks for the next one. False if it is to
    /// begin.
    pub(super) fn passes_over(&mut self, worker: usize, place: usize) -> bool {
        let query = &self.queries[place];
        let state = &mut self.workers[worker];
        let run = match &mut state.away {
            Some((_, run)) if state.steal_order.is_away() => run,
            _ => &mut state.run,
        };
        if query.told {
            run.miss();
            self.queries.release(place);
            return true;
        }
        let Some(due) = query.due else { return false };
        let [waited, left] = [
            self.timeline.now() - query.arrived,
            due - self.timeline.now(),
        ]
        .map(Duration::from_nanos);
        if !left.is_zero() && !is_too_late(waited, left, run.expected().unwrap_or_default()) {
            return false;
        }
        run.miss();
        let client = query.client;
        let second = second_of(self.timeline.now());
        if let Some(row) = self.row_of(place) {
            row.passed_over += 1;
            row.expired_in(second);
        }
        self.ask_again(client, 0);
        self.queries.release(place);
        true
    }

    /// A worker has passed a query over, which took it so long: some time, so that a client who is told at once and
    /// asks again does not keep time from passing.
    pub(super) fn go_on_looking(&mut self, worker: usize, took: u64) {
        let took = took.max(LEAST_LOOK);
        self.workers[worker].doing = Doing::Waking;
        self.meter.busy(worker, took);
        self.timeline.after(took, Event::Work(worker));
    }

    /// Counts that a query begins, and says how much longer it takes than its search.
    pub(super) fn note_begun(&mut self, worker: usize, place: usize) -> u64 {
        let domain = self.domains[self.workers[worker].domain];
        let query = &mut self.queries[place];
        query.running = true;
        let (table, waited) = (query.table, self.timeline.now() - query.arrived);
        let at_home = self.balancer.homes[table as usize].contains(domain);
        let has_home = self.scenario.strategy.routing == Routing::Home;
        if let Some(row) = self.row_of(place) {
            row.waited(waited);
            row.at_home += u64::from(has_home && at_home);
            row.away += u64::from(has_home && !at_home);
        }
        self.clients.stall(table, self.timeline.now())
    }

    /// Takes the dead out of a queue that has refused a task.
    pub(super) fn purge(&mut self, group: usize) {
        let queries = &self.queries;
        let now = self.timeline.time();
        let state = &mut self.groups[group].state;
        let dead = state.search(|&place| queries[place].told, now);
        for (_, place) in dead {
            let query = &self.queries[place];
            let table = table_id(query.table);
            let queue = &mut self.groups[group].state.queue;
            queue.intake_mut(table).leaving -= 1;
            queue.count_expired(table, query.class, 1);
            self.queries.release(place);
        }
    }

    /// A query that was refused.
    pub(super) fn refused(&mut self, place: usize) {
        if let Some(row) = self.row_of(place) {
            row.refused += 1;
        }
        let client = self.queries[place].client;
        self.queries.release(place);
        self.ask_again(client, PAUSE);
        self.look_soon();
    }

    /// The row of a query's kind, if anybody wants to know of it.
    pub(super) fn row_of(&mut self, place: usize) -> Option<&mut Row> {
        let row = self.queries[place].row?;
        self.meter.rows.get_mut(row as usize)
    }
}
