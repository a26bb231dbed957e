//! The end of a walk in a table that re-ranks: its best candidates' rows are read from the second copy.

use chiplet_table::hnsw_query_bytes;

use super::{Asked, Hardware, LINE, Reader, Reading, full_key};
use crate::cache::{Hits, Lines};
use crate::workload::Plan;

impl Hardware<'_> {
    /// Compares the candidates of a walk that is done once more. `None` if its table does not.
    pub(in super::super) fn rerank(&mut self, by: Reader, asked: Asked) -> Option<Reading> {
        let Asked { table, number } = asked;
        let prepared = self.prepared;
        let Plan::Graph {
            scale,
            factor,
            row_bytes,
            link_bytes,
            dim,
            rerank: Some(full),
            ..
        } = prepared.plans[table as usize]
        else {
            return None;
        };
        let aim = prepared.aim(table, number);
        let which = aim.query;
        let scale = prepared.scale(scale);
        let tile = aim.tile as u32 % factor;
        let candidates = full.rows.min(scale.candidates[which]);
        let sampled = &scale.sampled[table as usize % scale.sampled.len()][which];
        let mut hits = Hits::default();
        for &(rank, node) in &sampled.nearest {
            if rank < candidates {
                let key = full_key(table, scale.copy(node, tile, factor), node);
                self.caches
                    .read(by.worker, by.domain, key, full.touched, &mut hits);
            }
        }
        let known = &mut self.found[by.worker].full;
        *known = hits.parts().unwrap_or(*known);
        let [l3, memory] = *known;
        let costs = &self.machine.costs;
        let latency = self.memory.latency(by.now, by.domain, table);
        let wait = l3 * costs.l3_ns + memory * latency;
        let rows = f64::from(candidates);
        let lines = rows * f64::from(full.touched) / LINE;
        let row = full.nanos.unwrap_or_else(|| self.compute.row(dim));
        let compute = rows * row;
        // All rows are known at once: the first is waited for, the others come while it and those before are compared.
        let took = wait + compute.max(lines * wait / costs.walk_lines);
        Some(Reading {
            compute,
            took,
            bytes: lines * memory * LINE,
            byte_ns: lines * memory * LINE * latency,
            lines: Lines {
                l2: lines * (1.0 - l3 - memory),
                l3: lines * l3,
                memory: lines * memory,
            },
            // As the table counts: a row that is compared once more is another row of the walk.
            pulled: hnsw_query_bytes(
                u64::from(candidates),
                u64::from(row_bytes),
                u64::from(link_bytes) / 2,
            ),
        })
    }
}
