//! Your own index: one small trait to be searched, one more to be split over the cores of its domain.
//!
//! `cargo run --release --example own_index`

use std::ops::Range;

use chiplet::{
    Context, Executor, Neighbor, Probe, Query, SearchError, SplitTable, Table, Topology,
};

/// Points on a line, kept in buckets of equal width.
struct Buckets {
    buckets: Vec<Vec<(u64, f32)>>,
    width: f32,
}

impl Buckets {
    fn new(values: &[f32], width: f32) -> Self {
        let mut buckets = vec![Vec::new(); 100];
        for (id, &value) in values.iter().enumerate() {
            let bucket = ((value / width) as usize).min(buckets.len() - 1);
            buckets[bucket].push((id as u64, value));
        }
        Self { buckets, width }
    }
}

impl Table for Buckets {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        self.buckets.iter().map(Vec::len).sum()
    }

    fn size_bytes(&self) -> u64 {
        16 * self.len() as u64
    }

    // A whole search is all its units in one go, so split and unsplit answers are the same by construction.
    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        self.search_whole(query, context)
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for Buckets {
    fn coarse(&self, query: &Query, _: &mut Context) -> Result<Vec<Probe>, SearchError> {
        query.check(self.dim())?;
        let x = query.vector()[0];
        let mut probes: Vec<Probe> = (0..self.buckets.len())
            .map(|bucket| Probe {
                list: bucket as u64,
                distance: ((bucket as f32 + 0.5) * self.width - x).abs(),
                cost_bytes: 16 * self.buckets[bucket].len() as u64,
            })
            .collect();
        probes.sort_by(|a, b| a.distance.total_cmp(&b.distance));
        probes.truncate(query.requested_nprobe().unwrap_or(8));
        Ok(probes)
    }

    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let mut found = Vec::new();
        for probe in &probes[unit] {
            context.add_bytes(probe.cost_bytes); // what was read is what placement goes by
            let bucket = &self.buckets[probe.list as usize];
            let distance = |value: f32| (value - query.vector()[0]).abs();
            let all = bucket.iter().map(|&(id, v)| Neighbor {
                id,
                distance: distance(v),
            });
            // A query's filter and radius, if it has any.
            found.extend(all.filter(|hit| query.allows(hit.id) && query.reaches(hit.distance)));
        }
        found.sort_unstable();
        found.truncate(query.k());
        Ok(found)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let values: Vec<f32> = (0..100_000)
        .map(|i| ((i * 7_919) % 100_003) as f32 / 100.0)
        .collect();
    let executor = Executor::builder()
        .topology(Topology::uniform(1, 4, 32 << 20))
        .build()?;
    let table = executor.add_table("line", Buckets::new(&values, 10.0));
    for hit in executor.search(table, Query::new([500.0]).top(3)).wait()? {
        println!("{:6}: {:.2}", hit.id, values[hit.id as usize]);
    }
    let steals = executor.snapshot().steals;
    println!(
        "tasks and scan units taken: {} own, {} from siblings",
        steals.own, steals.domain
    );
    Ok(())
}
