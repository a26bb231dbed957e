//! What has homes: tables, or regions of tables where those are tried.

use chiplet_policy::TableId;

use super::scenario::Scenario;

/// A table is cut into regions that has more than so many domains' share of all queries.
const HOT: f64 = 2.0;

/// Items, numbered table by table.
pub(super) struct Items {
    /// The table of each.
    pub(super) tables: Vec<u32>,
    /// For each table its first item, and how many it has.
    of_table: Vec<(u32, u32)>,
    /// What is known of each from its last query.
    pub(super) known: Vec<Known>,
}

/// What is known of an item from its last query.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// It asked for more than its share.
    pub(super) over_share: bool,
    /// Units that it was cut into.
    pub(super) units: u32,
}

impl Items {
    pub(super) fn new(scenario: &Scenario<'_>, shares: &[f64]) -> Self {
        let domains = scenario.machine.topology.domains();
        let cache = domains.iter().map(|domain| domain.cache_bytes).max();
        let regions = scenario.settings.ideas.regions.max(1);
        let (mut tables, mut of_table) = (Vec::new(), Vec::new());
        for (number, table) in (0_u32..).zip(&scenario.prepared.workload.tables) {
            let exceeds = cache.is_some_and(|cache| table.bytes() > cache);
            // What one or two domains serve is best read there.
            let is_hot = shares[number as usize] * domains.len() as f64 > HOT;
            let count = if exceeds && is_hot { regions } else { 1 };
            of_table.push((tables.len() as u32, count));
            tables.extend(std::iter::repeat_n(number, count as usize));
        }
        Self {
            known: vec![Known::default(); tables.len()],
            tables,
            of_table,
        }
    }

    /// Regions of the table that an item is of.
    pub(super) fn siblings(&self, item: usize) -> u32 {
        self.of_table[self.tables[item] as usize].1
    }

    /// The item that a query goes to.
    pub(super) fn of(&self, scenario: &Scenario<'_>, table: u32, query: u32) -> u32 {
        match self.of_table[table as usize] {
            (first, 1) => first,
            (first, count) => {
                let place = scenario.prepared.place(table, query);
                first + ((place * f64::from(count)) as u32).min(count - 1)
            }
        }
    }
}

/// What queues and the planner know an item by.
pub(super) fn table_id(item: u32) -> TableId {
    TableId {
        slot: item,
        generation: 0,
    }
}
