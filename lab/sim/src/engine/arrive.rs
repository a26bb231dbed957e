//! Queries come and end.

use chiplet_table::Class;

use super::Engine;
use super::queries::Query;
use super::rows::second_of;
use super::scenario::Load;
use super::timeline::Event;

impl Engine<'_> {
    /// Remembers the query that comes next in an open loop.
    pub(super) fn expect_next(&mut self) {
        self.coming = self.stream.as_mut().and_then(Iterator::next);
        if let Some(arrival) = self.coming {
            self.timeline
                .at(arrival.at.as_nanos() as u64, Event::Arrive);
        }
    }

    pub(super) fn arrive(&mut self) {
        let arrival = match self.scenario.load {
            Load::Open { .. } => {
                let arrival = self.coming.take();
                self.expect_next();
                arrival
            }
            Load::Saturated { .. } => self.stream.as_mut().and_then(Iterator::next),
        };
        let Some(arrival) = arrival else { return };
        let (table, number) = (arrival.table as u32, arrival.query as u32);
        let (row, ask) = self.clients.shared(table);
        let query = Query {
            row,
            class: ask.map_or(Class::Interactive, |ask| ask.class),
            ..self.query(table, number)
        };
        self.enter(query, ask.and_then(|ask| ask.deadline_ms));
    }

    /// A query that comes now.
    pub(super) fn query(&self, table: u32, number: u32) -> Query {
        Query {
            serial: self.meter.sent,
            table,
            number,
            arrived: self.timeline.now(),
            started: 0,
            segment: 0,
            busy: 0,
            units: None,
            client: None,
            row: None,
            class: Class::Interactive,
            work: 1.0,
            due: None,
            told: false,
            running: false,
        }
    }

    /// A query has been answered.
    pub(super) fn answered(&mut self, query: usize) {
        let ended = &self.queries[query];
        let (arrived, table, client) = (ended.arrived, ended.table, ended.client);
        self.balancer.ran(table as usize);
        if ended.told {
            self.queries.release(query);
            return;
        }
        let now = self.timeline.now();
        self.meter.answer(now, arrived);
        if let Some(row) = self.row_of(query) {
            row.answered(now - arrived, second_of(now));
        }
        if self.meter.answered == self.scenario.warmup {
            self.begin_counting();
        }
        self.queries.release(query);
        self.ask_again(client, 0);
    }

    /// The warm-up is over.
    pub(super) fn begin_counting(&mut self) {
        let reach = self.hardware.memory.reach;
        self.meter
            .begin(self.timeline.now(), self.hardware.moved(), reach);
    }
}
