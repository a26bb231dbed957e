//! A table whose queries can be split, with hooks where a test wants to look or to wait.

use std::ops::Range;

use chiplet::table::merge_nearest;
use chiplet::{Context, Neighbor, Probe, Query, SearchError, SplitTable, Table};

pub const LISTS: u64 = 40;
pub const PER_LIST: u64 = 25;

type Hook<A> = Box<dyn Fn(&Query, &A) + Send + Sync>;
type Merge =
    dyn Fn(&Query, &[Vec<Neighbor>], &mut Context) -> Result<(), SearchError> + Send + Sync;

/// One-dimensional values in lists. Each hook is called before what it is named after, with the query.
pub struct Lists {
    size_bytes: u64,
    coarse: Box<dyn Fn(&Query) + Send + Sync>,
    scan: Hook<Range<usize>>,
    merge: Box<Merge>,
}

impl Default for Lists {
    fn default() -> Self {
        Self {
            size_bytes: LISTS * PER_LIST * 4,
            coarse: Box::new(|_| ()),
            scan: Box::new(|_, _| ()),
            merge: Box::new(|_, _, _| Ok(())),
        }
    }
}

impl Lists {
    /// Says that it is so large.
    pub fn of_size(mut self, size_bytes: u64) -> Self {
        self.size_bytes = size_bytes;
        self
    }

    pub fn on_coarse(mut self, hook: impl Fn(&Query) + Send + Sync + 'static) -> Self {
        self.coarse = Box::new(hook);
        self
    }

    pub fn on_scan(mut self, hook: impl Fn(&Query, &Range<usize>) + Send + Sync + 'static) -> Self {
        self.scan = Box::new(hook);
        self
    }

    pub fn on_merge(self, hook: impl Fn(&Query, &[Vec<Neighbor>]) + Send + Sync + 'static) -> Self {
        self.merging(move |query, parts, _| {
            hook(query, parts);
            Ok(())
        })
    }

    /// As [`Lists::on_merge`], with a hook that is given the context and may fail.
    pub fn merging(
        mut self,
        hook: impl Fn(&Query, &[Vec<Neighbor>], &mut Context) -> Result<(), SearchError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.merge = Box::new(hook);
        self
    }
}

fn value(id: u64) -> f32 {
    // A fixed scatter with many ties.
    ((id * 7919) % 97) as f32
}

impl Table for Lists {
    fn dim(&self) -> usize {
        1
    }

    fn len(&self) -> usize {
        (LISTS * PER_LIST) as usize
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        self.search_whole(query, context)
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for Lists {
    fn coarse(&self, query: &Query, _: &mut Context) -> Result<Vec<Probe>, SearchError> {
        query.check(1)?;
        (self.coarse)(query);
        let probe = |list| Probe {
            list,
            distance: list as f32,
            cost_bytes: 1 << 20,
        };
        Ok((0..LISTS).map(probe).collect())
    }

    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        (self.scan)(query, &unit);
        let lists = probes[unit].iter().map(|probe| probe.list);
        let mut found: Vec<Neighbor> = lists
            .flat_map(|list| list * PER_LIST..(list + 1) * PER_LIST)
            .map(|id| Neighbor {
                id,
                distance: (value(id) - query.vector()[0]).abs(),
            })
            .collect();
        context.add_bytes(4 * found.len() as u64);
        found.sort_unstable();
        found.truncate(query.k());
        Ok(found)
    }

    fn merge(
        &self,
        query: &Query,
        parts: Vec<Vec<Neighbor>>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        (self.merge)(query, &parts, context)?;
        Ok(merge_nearest(query.k(), parts))
    }
}
