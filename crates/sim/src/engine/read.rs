//! What searching takes: what it computes, and what it waits for.

use std::ops::Range;

use chiplet_index::RowFormat;
use chiplet_policy::hnsw_query_bytes;
use rustc_hash::FxHashMap;

use super::Engine;
use super::scan::Units;
use crate::cache::{Hits, Lines};
use crate::trace::{ListShape, Visit, mix};
use crate::workload::{Plan, drawn, tile};

/// Parts that a walk is modelled in, so that what others read meanwhile counts.
const SEGMENTS: u32 = 6;

/// Bytes of a list that are one block in a cache.
const BLOCK: u64 = 64 << 10;

/// Bytes of lists that are modelled at once.
const STEP: u64 = 1 << 20;

/// Bytes of a cache line.
pub(super) const LINE: f64 = 64.0;

/// What a block is of.
mod of {
    pub(super) const ROWS: u64 = 0;
    pub(super) const LINKS: u64 = 1;
    pub(super) const CENTROIDS: u64 = u64::MAX >> 24;
}

/// The key of a graph's block: a table of up to 2^17, 2^23 copies, 2^20 nodes.
fn node_key(table: u32, part: u64, copy: u32, node: u32) -> u64 {
    (u64::from(table) << 45) | (part << 44) | (u64::from(copy) << 20) | u64::from(node)
}

/// The key of a row in a graph's second copy.
pub(super) fn full_key(table: u32, copy: u32, node: u32) -> u64 {
    (3 << 62) | node_key(table, of::ROWS, copy, node)
}

/// The key of a block of a list.
fn list_key(table: u32, list: u64, block: u64) -> u64 {
    (u64::from(table) << 45) | (1 << 62) | mix((list << 24) | block) >> 20
}

/// The key of a block of what a worker reads of its own.
fn own_key(worker: usize, segment: u32) -> u64 {
    (1 << 63) | ((worker as u64) << 8) | u64::from(segment)
}

/// Something that a core has to read.
#[derive(Default)]
pub(super) struct Reading {
    /// Nanoseconds of computing.
    pub(super) compute: f64,
    /// Nanoseconds until it is done if no bandwidth is short.
    pub(super) took: f64,
    /// Bytes from memory.
    pub(super) bytes: f64,
}

impl Engine<'_> {
    /// The next part of a query that one worker runs: nanoseconds, or `None` if nothing of it is left.
    pub(super) fn next_segment(&mut self, worker: usize, query: usize) -> Option<u64> {
        let table = self.queries[query].table;
        match self.scenario.prepared.plans[table as usize] {
            Plan::Graph { .. } => self.walk(worker, query),
            Plan::Lists {
                shape,
                centroid_bytes,
                ..
            } => {
                if self.queries[query].segment > 0 {
                    return None;
                }
                self.queries[query].segment = 1;
                let visits = self.visits(&shape, query);
                self.queries[query].units = Some(Units::new(visits, worker));
                let mut reading = Reading::default();
                let centroids = Visit {
                    list: of::CENTROIDS,
                    bytes: centroid_bytes,
                    queries: 1 + self.queries[query].mates.len() as u32,
                };
                let all = 0..centroid_bytes;
                self.scan_bytes(worker, query, centroids, all, &mut reading);
                Some(self.finish(self.workers[worker].domain, table, reading))
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

    /// The lists that a query and those that are answered with it visit, each once.
    fn visits(&self, shape: &ListShape, query: usize) -> Vec<Visit> {
        let lists = self.scenario.prepared.lists();
        let of = |query: usize| {
            let query = &self.queries[query];
            let drawn = drawn(query.table, query.number);
            lists.visits(shape, drawn as usize % lists.queries(), tile(drawn))
        };
        let mut visits = of(query);
        let mut places: FxHashMap<u64, usize> = FxHashMap::default();
        if !self.queries[query].mates.is_empty() {
            places.extend(visits.iter().map(|visit| visit.list).zip(0..));
        }
        for &mate in &self.queries[query].mates {
            for visit in of(mate) {
                let place = *places.entry(visit.list).or_insert(visits.len());
                match visits.get_mut(place) {
                    Some(known) => known.queries += 1,
                    None => visits.push(visit),
                }
            }
        }
        visits
    }

    fn walk(&mut self, worker: usize, query: usize) -> Option<u64> {
        let state = &mut self.queries[query];
        let (table, segment) = (state.table, state.segment);
        if segment > SEGMENTS {
            return None;
        }
        state.segment += 1;
        if segment == SEGMENTS {
            return self.rerank(worker, query);
        }
        let prepared = self.scenario.prepared;
        let Plan::Graph {
            scale,
            factor,
            row_bytes,
            touched,
            link_bytes,
            dim,
            ..
        } = prepared.plans[table as usize]
        else {
            unreachable!("asked for a graph")
        };
        let drawn = drawn(table, state.number);
        let which = prepared.walk(scale, state.number, drawn);
        let scale = prepared.scale(scale);
        let tile = tile(drawn) as u32 % factor;
        let part = |count: u32| {
            let until = |segment: u32| u64::from(count) * u64::from(segment) / u64::from(SEGMENTS);
            (until(segment) as usize, until(segment + 1) as usize)
        };
        let sampled = &scale.sampled[table as usize % scale.sampled.len()][which];
        let domain = self.workers[worker].domain;
        let mut found = [Hits::default(); 2];
        let parts = [
            (of::ROWS, &sampled.rows, touched),
            (of::LINKS, &sampled.links, link_bytes),
        ];
        for ((part_of, nodes, bytes), hits) in parts.into_iter().zip(&mut found) {
            let (from, to) = part(nodes.len() as u32);
            for &node in &nodes[from..to] {
                let copy = scale.copy(node, tile, factor);
                let key = node_key(table, part_of, copy, node);
                self.caches.read(worker, domain, key, bytes, hits);
            }
        }
        let count = |count| {
            let (from, to) = part(count);
            (to - from) as f64
        };
        let (rows, links) = scale.counts[which];
        let (rows, links) = (count(rows), count(links));
        let known = &mut self.workers[worker].found;
        for (known, hits) in known.iter_mut().zip(&found) {
            *known = hits.parts().unwrap_or(*known);
        }
        let [of_rows, of_links] = *known;
        let sizes = [touched, link_bytes].map(|bytes| f64::from(bytes) / LINE);
        let costs = &self.scenario.machine.costs;
        let latency = self.memory.latency(self.now, domain, table);
        let wait = |[l3, memory]: [f64; 2]| l3 * costs.l3_ns + memory * latency;
        let (row_wait, link_wait) = (wait(of_rows), wait(of_links));
        let on_their_way = rows * sizes[0] * row_wait + links * sizes[1] * link_wait;
        let compute = rows * self.scenario.compute.row(dim);
        // Links are asked for one step ahead; of a step's rows the first is waited for, and the others come while it
        // and those before are compared.
        let took = links * row_wait + compute.max(on_their_way / costs.walk_lines);
        let read =
            |part: usize| rows * sizes[0] * of_rows[part] + links * sizes[1] * of_links[part];
        let (l3, memory) = (read(0), read(1));
        self.meter.read(Lines {
            l2: rows * sizes[0] + links * sizes[1] - l3 - memory,
            l3,
            memory,
        });
        self.read_own(worker, domain, segment);
        let visited =
            hnsw_query_bytes(rows as u64, u64::from(row_bytes), u64::from(link_bytes) / 8);
        let item = self.queries[query].item;
        self.balancer.pulled(item as usize, worker, visited);
        Some(self.finish(
            domain,
            table,
            Reading {
                compute,
                took,
                bytes: memory * LINE,
            },
        ))
    }

    /// Reads what a segment of a walk needs of the worker's own.
    fn read_own(&mut self, worker: usize, domain: usize, segment: u32) {
        let bytes = self.scenario.machine.costs.own_bytes as f64 / f64::from(SEGMENTS);
        let kept = (bytes * self.scenario.prepared.sampling.sample) as u32;
        let mut hits = Hits::default();
        let key = own_key(worker, segment);
        self.caches.read(worker, domain, key, kept, &mut hits);
        let [l3, memory] = hits.parts().unwrap_or_default();
        let lines = bytes / LINE;
        self.meter.read(Lines {
            l2: lines * (1.0 - l3 - memory),
            l3: lines * l3,
            memory: lines * memory,
        });
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
            self.scan_bytes(worker, query, visit, part, &mut reading);
            let cursor = &mut self.workers[worker].cursor;
            cursor.offset += bytes;
            if cursor.offset >= visit.bytes {
                cursor.visit += 1;
                cursor.offset = 0;
            }
            left = left.saturating_sub(bytes.max(1));
        }
        let domain = self.workers[worker].domain;
        (left < STEP).then(|| self.finish(domain, table, reading))
    }

    /// Reads a part of a list from its beginning to its end, after what has been read before. Of queries that read it
    /// together the first waits for it; for the others it is in the L2.
    fn scan_bytes(
        &mut self,
        worker: usize,
        query: usize,
        visit: Visit,
        part: Range<u64>,
        reading: &mut Reading,
    ) {
        let (table, list) = (self.queries[query].table, visit.list);
        let again = f64::from(visit.queries - 1);
        let domain = self.workers[worker].domain;
        let sample = self.scenario.prepared.sampling.sample;
        let latency = self.memory.latency(self.now, domain, table);
        let costs = &self.scenario.machine.costs;
        let rows_as = match self.scenario.prepared.plans[table as usize] {
            Plan::Lists { rows_as, .. } if list != of::CENTROIDS => rows_as,
            _ => RowFormat::F32,
        };
        let scan = self.scenario.compute.scan(rows_as);
        let from_l3 = scan.min(costs.l3_gbs);
        let from_memory = scan.min(costs.scan_lines * LINE / latency);
        let mut lines = Lines::default();
        for at in part.clone().step_by(BLOCK as usize) {
            let block = (part.end - at).min(BLOCK);
            let mut hits = Hits::default();
            let key = list_key(table, list, at / BLOCK);
            // In caches of a sample of their size, a block takes a sample of its size.
            let kept = ((block as f64 * sample) as u32).max(1);
            self.caches.read(worker, domain, key, kept, &mut hits);
            let block = block as f64;
            reading.took += again * block / scan;
            lines.l2 += again * block / LINE;
            if hits.l2 > 0 {
                reading.took += block / scan;
                lines.l2 += block / LINE;
            } else if hits.l3 > 0 {
                reading.took += block / from_l3;
                lines.l3 += block / LINE;
            } else {
                reading.took += block / from_memory;
                lines.memory += block / LINE;
                reading.bytes += block;
            }
        }
        self.meter.read(lines);
        let bytes = part.end - part.start;
        reading.compute += f64::from(visit.queries) * bytes as f64 / scan;
        let item = self.queries[query].item;
        self.balancer.pulled(item as usize, worker, bytes);
    }

    /// When a reading is done, links and memory considered: nanoseconds from now.
    pub(super) fn finish(&mut self, domain: usize, table: u32, reading: Reading) -> u64 {
        let last = self.memory.read(self.now, domain, table, reading.bytes);
        let took = reading.took.max(last - self.now as f64);
        self.meter.wait_for_memory(took - reading.compute);
        (took as u64).max(1)
    }
}
