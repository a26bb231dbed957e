//! What a vector-search benchmark needs besides the system under test: data, truth, traffic, load and
//! latency.
//!
//! - [`dataset`]: vectors from the usual files (`.fvecs`, `.bvecs`, `.fbin`, `.u8bin`, `.npy`, and HDF5 with
//!   the feature `hdf5`), from the repository's GloVe sample, or synthetic.
//! - [`truth`]: exact neighbours, kept on disk if wanted, and recall against them.
//! - [`traffic`]: seeded streams of arrivals, skewed over tables and over queries, whose hot set may flip.
//! - [`load`]: sends such a stream in real time, open loop.
//! - [`latency`]: histograms of what came back, and their percentiles.
//! - [`fairness`]: how evenly that was shared out.
//!
//! Two rules hold throughout. **Same seed, same stream**: whatever is random is drawn from a named,
//! portable generator (ChaCha8), so two strategies can be compared on the very same queries. **No
//! coordinated omission**: a request's latency counts from the time at which it should have been sent, so
//! a system that stalls cannot hide the requests it kept from being sent.
//!
//! The crate knows nothing of executors or indexes; the closure that sends a query is the whole contract.
//!
//! ```
//! use chiplet_workload::dataset::{Clusters, VectorSet};
//! use chiplet_workload::latency::LatencyRecorder;
//! use chiplet_workload::load::{self, Load};
//! use chiplet_workload::traffic::{Arrivals, Group, Traffic};
//! use chiplet_workload::truth::{Metric, Truth};
//! use std::time::Duration;
//!
//! // Two tables that hold alternate rows of one set, and ten queries with their exact neighbours in each.
//! let all = VectorSet::clusters(&Clusters { rows: 400, dim: 8, ..Clusters::default() });
//! let tables = [all.interleaved(0, 2), all.interleaved(1, 2)];
//! let queries = all.select(&(0..10).collect::<Vec<_>>());
//! let truths = tables.each_ref().map(|t| Truth::exact(t, &queries, 5, Metric::L2).unwrap());
//!
//! // 2,000 queries a second, both tables, the first one hotter; for 20 ms.
//! let traffic = Traffic::new(7, Arrivals::Poisson { rate: 2_000.0 })
//!     .group(Group::new(0..2, queries.len()).table_skew(1.0));
//! let latencies = LatencyRecorder::new();
//! let handle = latencies.handle();
//! let mut recalls = Vec::new();
//! let report = load::run(traffic.stream()?, &Load::lasting(Duration::from_millis(20)), |due| {
//!     let (table, query) = (due.arrival.table, due.arrival.query);
//!     // The system under test would go here; an exact search stands in for it.
//!     let answer = Truth::exact(&tables[table], &queries.select(&[query]), 5, Metric::L2).unwrap();
//!     recalls.push(truths[table].recall(query, answer.ids(0)));
//!     handle.record(due.intended.elapsed());
//! });
//!
//! assert_eq!(latencies.summary().count, report.sent);
//! assert!(recalls.iter().all(|&recall| recall == 1.0));
//! # Ok::<(), chiplet_workload::traffic::TrafficError>(())
//! ```

pub mod dataset;
pub mod fairness;
pub mod latency;
pub mod load;
mod metric;
pub mod traffic;
pub mod truth;
