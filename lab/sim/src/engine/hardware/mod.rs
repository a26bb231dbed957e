//! What searching takes: what it computes, and what it waits for. Knows cores, caches, links and memory, and nothing of
//! queues.

mod memory;
mod rerank;
mod tlb;
mod translate;

use std::ops::Range;

use chiplet_index::{HnswTable, RowFormat};
use chiplet_table::hnsw_query_bytes;

use crate::cache::{Caches, Hits, Lines};
use crate::compute::Compute;
use crate::machine::Machine;
use crate::trace::{Visit, mix};
use crate::workload::{Plan, Prepared};
use memory::Memory;
pub(super) use memory::{Holders, Pipe, Reach};
use tlb::Tlb;

/// Parts that a walk is modelled in, so that what others read meanwhile counts.
pub(super) const SEGMENTS: u32 = 6;

/// Bytes of a list that are one block in a cache.
pub(super) const BLOCK: u64 = 64 << 10;

/// Bytes of a cache line.
const LINE: f64 = 64.0;

/// What a block is of.
pub(super) mod of {
    pub(super) const ROWS: u64 = 0;
    pub(super) const LINKS: u64 = 1;
    pub(in super::super) const CENTROIDS: u64 = u64::MAX >> 24;
}

/// The key of a graph's block: a table of up to 2^17, 2^23 copies, 2^20 nodes.
fn node_key(table: u32, part: u64, copy: u32, node: u32) -> u64 {
    (u64::from(table) << 45) | (part << 44) | (u64::from(copy) << 20) | u64::from(node)
}

/// The key of a row in a graph's second copy.
fn full_key(table: u32, copy: u32, node: u32) -> u64 {
    (3 << 62) | node_key(table, of::ROWS, copy, node)
}

/// The key of a block of a list.
fn list_key(table: u32, list: u64, block: u64) -> u64 {
    (u64::from(table) << 45) | (1 << 62) | mix((list << 24) | block) >> 20
}

/// The key of a line of a table's page table.
fn entry_key(table: u32, line: u64) -> u64 {
    (1 << 63) | (1 << 61) | (u64::from(table) << 40) | line
}

/// The key of a block of what a worker reads of its own.
fn own_key(worker: usize, segment: u32) -> u64 {
    (1 << 63) | ((worker as u64) << 8) | u64::from(segment)
}

/// Something that a core has to read.
#[derive(Default)]
pub(super) struct Reading {
    /// Nanoseconds of computing.
    compute: f64,
    /// Nanoseconds until it is done if no bandwidth is short.
    took: f64,
    /// Bytes from memory, and those times the nanoseconds that a line of them took.
    bytes: f64,
    byte_ns: f64,
    /// Cache lines, by where they came from.
    pub(super) lines: Lines,
    /// Bytes that the table says it has read.
    pub(super) pulled: u64,
}

/// What a reading took.
pub(super) struct Took {
    /// Nanoseconds from now.
    pub(super) nanos: u64,
    /// Of those, nanoseconds of waiting for caches and memory.
    pub(super) waited: f64,
}

/// A worker that reads at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) worker: usize,
    pub(super) domain: usize,
    pub(super) now: u64,
}

/// A query of a table, by its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) table: u32,
    pub(super) number: u32,
}

/// Which parts of what it reads a worker last found in the L3 and in memory.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Of rows, and of links.
    walk: [[f64; 2]; 2],
    /// Of rows that are compared once more.
    full: [f64; 2],
    /// Of page tables.
    entries: [f64; 2],
}

/// The cores, their caches, and memory.
pub(super) struct Hardware<'a> {
    machine: &'a Machine,
    prepared: &'a Prepared,
    compute: Compute,
    caches: Caches,
    pub(super) memory: Memory,
    /// Of each worker.
    found: Vec<Found>,
    tlbs: Vec<Tlb>,
    /// The blocks of a part of a walk, where page walks are modelled: kept for its room.
    blocks: Vec<u64>,
}

impl<'a> Hardware<'a> {
    /// With so many workers, and tables in the memory of these sockets, from which others read so many GB/s.
    pub(super) fn new(
        machine: &'a Machine,
        prepared: &'a Prepared,
        compute: Compute,
        workers: usize,
        holders: &[Holders],
        others: &[f64],
    ) -> Self {
        let domains = machine.topology.domains().iter();
        let sizes = domains.map(|spec| (spec.cache_bytes, spec.cores.len()));
        let sample = prepared.sampling.sample;
        let found = Found {
            walk: [[0.0, 1.0]; 2],
            full: [0.0, 1.0],
            entries: [0.0, 1.0],
        };
        Self {
            machine,
            prepared,
            compute,
            caches: Caches::new(sizes, machine.costs.l2_bytes, machine.costs.ways, sample),
            memory: Memory::new(machine, holders, others),
            found: vec![found; workers],
            tlbs: vec![Tlb::default(); workers],
            blocks: Vec::new(),
        }
    }

    /// A segment of a walk, in `0..SEGMENTS`.
    pub(super) fn walk(&mut self, by: Reader, asked: Asked, segment: u32) -> Reading {
        let Asked { table, number } = asked;
        let prepared = self.prepared;
        let Plan::Graph {
            scale,
            factor,
            row_bytes,
            touched,
            link_bytes,
            links_touched,
            dim,
            ..
        } = prepared.plans[table as usize]
        else {
            unreachable!("asked for a graph")
        };
        let aim = prepared.aim(table, number);
        let which = aim.query;
        let scale = prepared.scale(scale);
        let tile = aim.tile as u32 % factor;
        let part = |count: u32| {
            let until = |segment: u32| u64::from(count) * u64::from(segment) / u64::from(SEGMENTS);
            (until(segment) as usize, until(segment + 1) as usize)
        };
        let sampled = &scale.sampled[table as usize % scale.sampled.len()][which];
        let mut found = [Hits::default(); 2];
        let costs = &self.machine.costs;
        let (pages, stray_lines) = (costs.pages, costs.stray_lines);
        let stray = (stray_lines * LINE) as u32;
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.clear();
        let parts = [
            (of::ROWS, &sampled.rows, touched),
            (of::LINKS, &sampled.links, links_touched),
        ];
        for ((part_of, nodes, bytes), hits) in parts.into_iter().zip(&mut found) {
            let (from, to) = part(nodes.len() as u32);
            for &node in &nodes[from..to] {
                let copy = scale.copy(node, tile, factor);
                let key = node_key(table, part_of, copy, node);
                self.caches
                    .read(by.worker, by.domain, key, bytes + stray, hits);
                if pages.is_some() {
                    blocks.push(key);
                }
            }
        }
        let count = |count| {
            let (from, to) = part(count);
            (to - from) as f64
        };
        let (rows, links) = scale.counts[which];
        let (rows, links) = (count(rows), count(links));
        let known = &mut self.found[by.worker].walk;
        for (known, hits) in known.iter_mut().zip(&found) {
            *known = hits.parts().unwrap_or(*known);
        }
        let [of_rows, of_links] = *known;
        let sizes = [touched, links_touched].map(|bytes| f64::from(bytes) / LINE);
        let latency = self.memory.latency(by.now, by.domain, table);
        let page_reads = pages.map_or(0.0, |pages| {
            rows * pages.of(f64::from(touched)) + links * pages.of(f64::from(links_touched))
        });
        let table_bytes =
            (scale.nodes as f64) * f64::from(factor) * f64::from(row_bytes + link_bytes);
        let walks = self.walk_pages(by, (table, table_bytes), page_reads, &blocks, latency);
        self.blocks = blocks;
        let costs = &self.machine.costs;
        let wait = |[l3, memory]: [f64; 2]| l3 * costs.l3_ns + memory * latency;
        let (row_wait, link_wait) = (wait(of_rows), wait(of_links));
        let on_their_way = rows * sizes[0] * row_wait + links * sizes[1] * link_wait;
        let compute = rows * self.compute.row(dim);
        // Links are asked for one step ahead; of a step's rows the first is waited for, and the others come while it
        // and those before are compared.
        let steps = links / HnswTable::FOLLOWED_A_STEP as f64;
        let first = row_wait + walks.part * walks.wait;
        let others = (on_their_way / costs.walk_lines).max(walks.took);
        let took = steps * first + compute.max(others);
        let read =
            |part: usize| rows * sizes[0] * of_rows[part] + links * sizes[1] * of_links[part];
        let (l3, memory) = (read(0), read(1));
        let mut lines = Lines {
            l2: rows * sizes[0] + links * sizes[1] - l3 - memory,
            l3,
            memory,
        };
        lines.add(walks.lines);
        // Stray lines take bandwidth, and nobody waits for them or misses them.
        let strays = stray_lines * (rows * of_rows[1] + links * of_links[1]);
        let bytes = (lines.memory + strays) * LINE;
        let mut reading = Reading {
            compute,
            took,
            bytes,
            byte_ns: bytes * latency,
            lines,
            pulled: hnsw_query_bytes(rows as u64, u64::from(row_bytes), u64::from(link_bytes) / 2),
        };
        self.read_own(by, segment, &mut reading);
        reading
    }

    /// Reads what a segment of a walk needs of the worker's own.
    fn read_own(&mut self, by: Reader, segment: u32, reading: &mut Reading) {
        let bytes = self.machine.costs.own_bytes as f64 / f64::from(SEGMENTS);
        let kept = (bytes * self.prepared.sampling.sample) as u32;
        let mut hits = Hits::default();
        let key = own_key(by.worker, segment);
        self.caches.read(by.worker, by.domain, key, kept, &mut hits);
        let [l3, memory] = hits.parts().unwrap_or_default();
        let lines = bytes / LINE;
        reading.lines.add(Lines {
            l2: lines * (1.0 - l3 - memory),
            l3: lines * l3,
            memory: lines * memory,
        });
    }

    /// Reads a part of a list from its beginning to its end, after what has been read before.
    pub(super) fn scan(
        &mut self,
        by: Reader,
        table: u32,
        visit: Visit,
        part: Range<u64>,
        reading: &mut Reading,
    ) {
        let list = visit.list;
        let sample = self.prepared.sampling.sample;
        let latency = self.memory.latency(by.now, by.domain, table);
        let costs = &self.machine.costs;
        let (rows_as, table_bytes) = match self.prepared.plans[table as usize] {
            Plan::Lists {
                rows_as,
                shape,
                centroid_bytes,
            } => {
                let bytes = shape.rows * shape.row_bytes + centroid_bytes;
                let is_list = list != of::CENTROIDS;
                (if is_list { rows_as } else { RowFormat::F32 }, bytes as f64)
            }
            _ => (RowFormat::F32, 1.0),
        };
        let scan = self.compute.scan(rows_as);
        let from_l3 = scan.min(costs.l3_gbs);
        let from_memory = scan.min(costs.scan_lines * LINE / latency);
        let mut lines = Lines::default();
        for at in part.clone().step_by(BLOCK as usize) {
            let block = (part.end - at).min(BLOCK);
            let mut hits = Hits::default();
            let key = list_key(table, list, at / BLOCK);
            // In caches of a sample of their size, a block takes a sample of its size.
            let kept = ((block as f64 * sample) as u32).max(1);
            self.caches.read(by.worker, by.domain, key, kept, &mut hits);
            let block = block as f64;
            let walks = self.scan_pages(by, (table, table_bytes), (list, at), block, latency);
            reading.took += walks.took;
            reading.bytes += walks.lines.memory * LINE;
            reading.byte_ns += walks.lines.memory * LINE * latency;
            lines.add(walks.lines);
            let [l3, memory] = hits.parts().unwrap_or_default().map(|part| part * block);
            let l2 = block - l3 - memory;
            reading.took += l2 / scan + l3 / from_l3 + memory / from_memory;
            lines.add(Lines {
                l2: l2 / LINE,
                l3: l3 / LINE,
                memory: memory / LINE,
            });
            reading.bytes += memory;
            reading.byte_ns += memory * latency;
        }
        reading.lines.add(lines);
        let bytes = part.end - part.start;
        reading.compute += bytes as f64 / scan;
        reading.pulled += bytes;
    }

    /// When a reading is done, links and memory considered.
    pub(super) fn finish(&mut self, by: Reader, table: u32, reading: &Reading) -> Took {
        let last = self.memory.read(by.now, by.domain, table, reading.bytes);
        self.memory
            .note(by.domain, table, reading.bytes, reading.byte_ns);
        let took = reading.took.max(last - by.now as f64);
        Took {
            nanos: (took as u64).max(1),
            waited: took - reading.compute,
        }
    }

    /// Bytes that each link and each socket's memory has moved.
    pub(super) fn moved(&self) -> [Vec<f64>; 2] {
        let bytes = |pipes: &[Pipe]| pipes.iter().map(|pipe| pipe.bytes).collect();
        [bytes(&self.memory.links), bytes(&self.memory.sockets)]
    }
}
