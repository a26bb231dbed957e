//! A pool that knows no domains, under one of the strategies that chiplet is compared with.

use std::sync::Arc;

use anyhow::Context as _;
use chiplet_bench::baselines::Strategy;
use chiplet_table::{SearchError, Table};
use chiplet_topology::Topology;

use super::{Job, Pool, Workers, bound};
use crate::bench::arguments::{Arguments, Choice};
use crate::bench::report::Steals;
use crate::bench::tables::BuiltTable;

pub(super) struct Baseline {
    pool: chiplet_bench::baselines::Pool,
    tables: Vec<Arc<dyn Table>>,
}

impl Baseline {
    pub(super) fn start(
        strategy: Strategy,
        choice: &Choice,
        arguments: &Arguments,
        topology: &Topology,
        workers: &Workers,
        tables: &[BuiltTable],
    ) -> anyhow::Result<Self> {
        let limit = bound(arguments, workers.count);
        let pool = chiplet_bench::baselines::Pool::start(&strategy, topology, workers.count, limit)
            .with_context(|| format!("the pool {strategy} did not start"))?;
        Ok(Self {
            pool,
            tables: tables
                .iter()
                .map(|table| Arc::clone(table.index(choice.graph)))
                .collect(),
        })
    }
}

impl Pool for Baseline {
    fn send(&self, job: Job) {
        let Job { table, query, done } = job;
        let done = move |found: Result<Vec<_>, SearchError>| done.finish(found.ok().as_deref());
        if let Err((_, done)) = self.pool.search(&self.tables[table], query, done) {
            done(Err(SearchError::Backend("refused".to_owned())));
        }
    }

    fn counts(&self) -> Option<(Steals, u64)> {
        let [own, domain, remote] = self.pool.steals();
        let steals = Steals {
            own,
            domain,
            remote,
            moved: 0,
        };
        Some((steals, 0))
    }
}
