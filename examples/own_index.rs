//! Your own index: one small trait to be searched, one more to be split over the cores of its domain.
//!
//! A query here reads 2.5 MB in eight buckets. Units of less than 256 KiB are not worth handing over, so an index of
//! small buckets would stay whole.
//!
//! `cargo run --release --example own_index`

use std::ops::Range;

use chiplet::snapshot::Steals;
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
    let units = run(100)?;
    println!(
        "tasks and scan units taken: {} by the core that had the query, {} by its siblings",
        units.own, units.domain
    );
    Ok(())
}

/// Asks so many queries, one after the other.
fn run(queries: u16) -> Result<Steals, Box<dyn std::error::Error>> {
    let values: Vec<f32> = (0..2_000_000_u64)
        .map(|i| ((i * 7_919) % 2_000_003) as f32 / 2_000.0)
        .collect();
    let executor = Executor::builder()
        // A made-up machine: one cache of 32 MiB with four cores, whatever yours has. Without this line it is yours.
        .topology(Topology::uniform(1, 4, 32 << 20))
        .build()?;
    let table = executor.add_table("line", Buckets::new(&values, 10.0));
    for number in 0..queries {
        let x = 10.0 * f32::from(number % 100) + 5.0;
        let hits = executor.search(table, Query::new([x]).top(3)).wait()?;
        if number == 0 {
            for hit in hits {
                println!("{:7}: {:.4}", hit.id, values[hit.id as usize]);
            }
        }
    }
    Ok(executor.snapshot().steals)
}

#[test]
fn siblings_take_a_part_of_what_a_query_scans() {
    let units = run(20).unwrap();
    assert!(units.domain > 0, "{units:?}");
}
