//! A query's parts, as one worker runs them: segments of a walk, a coarse search, steps of a unit.

use super::Engine;
use super::hardware::{BLOCK, Reader, Reading, SEGMENTS, of};
use super::units::Units;
use crate::trace::{Visit, mix};
use crate::workload::Plan;

/// Bytes of lists that are modelled at once.
const STEP: u64 = 1 << 20;

impl Engine<'_> {
    /// The next part of a query that one worker runs: nanoseconds, or `None` if nothing of it is left.
    pub(super) fn next_segment(&mut self, worker: usize, query: usize) -> Option<u64> {
        let table = self.queries[query].table;
        match self.scenario.prepared.plans[table as usize] {
            Plan::Graph { .. } => {
                let state = &mut self.queries[query];
                let (segment, asked) = (state.segment, state.asked());
                state.segment += 1;
                let by = self.reader(worker);
                let reading = match segment {
                    ..SEGMENTS => self.hardware.walk(by, asked, segment),
                    SEGMENTS => self.hardware.rerank(by, asked)?,
                    _ => return None,
                };
                Some(self.finish(worker, query, &reading))
            }
            Plan::Lists {
                shape,
                centroid_bytes,
                ..
            } => {
                if self.queries[query].segment > 0 {
                    return None;
                }
                self.queries[query].segment = 1;
                let prepared = self.scenario.prepared;
                let aim = prepared.aim(table, self.queries[query].number);
                let visits = prepared.lists().visits(&shape, aim.query, aim.tile);
                self.queries[query].units = Some(Units::new(visits, worker));
                let mut reading = Reading::default();
                let centroids = Visit {
                    list: of::CENTROIDS,
                    bytes: centroid_bytes,
                };
                let all = 0..centroid_bytes;
                let by = self.reader(worker);
                self.hardware.scan(by, table, centroids, all, &mut reading);
                Some(self.finish(worker, query, &reading))
            }
            Plan::Task { nanos, random } => {
                let state = &mut self.queries[query];
                if state.segment > 0 {
                    return None;
                }
                state.segment = 1;
                let drawn = mix(state.arrived ^ mix(u64::from(state.number))) as f64;
                let part = (drawn + 1.0) / (u64::MAX as f64 + 2.0);
                let nanos = nanos * state.work;
                Some(match random {
                    true => (-part.ln() * nanos) as u64 + 1,
                    false => nanos as u64,
                })
            }
        }
    }

    /// The next part of a worker's unit: nanoseconds, or `None` if nothing of it is left.
    pub(super) fn scan(&mut self, worker: usize, query: usize) -> Option<u64> {
        let table = self.queries[query].table;
        let mut reading = Reading::default();
        let mut left = STEP;
        while left > 0 {
            let cursor = self.workers[worker].cursor;
            if cursor.visit == cursor.end {
                break;
            }
            let units = self.queries[query].units.as_ref();
            let visit = units.expect("a unit is of a query that has some").visits[cursor.visit];
            let bytes = (visit.bytes - cursor.offset).min(left);
            // Whole blocks, so that a list's are always the same.
            let bytes = match visit.bytes - cursor.offset > bytes {
                true => (bytes / BLOCK).max(1) * BLOCK,
                false => bytes,
            };
            let part = cursor.offset..cursor.offset + bytes;
            let by = self.reader(worker);
            self.hardware.scan(by, table, visit, part, &mut reading);
            let cursor = &mut self.workers[worker].cursor;
            cursor.offset += bytes;
            if cursor.offset >= visit.bytes {
                cursor.visit += 1;
                cursor.offset = 0;
            }
            left = left.saturating_sub(bytes.max(1));
        }
        (left < STEP).then(|| self.finish(worker, query, &reading))
    }

    fn reader(&self, worker: usize) -> Reader {
        Reader {
            worker,
            domain: self.workers[worker].domain,
            now: self.timeline.now(),
        }
    }

    /// Counts what a worker has read for a query: nanoseconds that it took.
    fn finish(&mut self, worker: usize, query: usize, reading: &Reading) -> u64 {
        let by = self.reader(worker);
        let table = self.queries[query].table;
        let took = self.hardware.finish(by, table, reading);
        self.meter.read(reading.lines, took.waited);
        let table = table as usize;
        self.balancer.pulled(table, reading.pulled);
        took.nanos
    }
}
