//! Who asks tables by themselves, on which terms, and which of their tasks stall.

use chiplet_policy::queue::Terms;
use chiplet_table::Class;

use super::rows::Row;
use crate::workload::{Arrivals, Ask, Asking, Stalled, Tenant};
use chiplet_recipes::mix;

/// Asks one table.
pub(super) struct Client {
    pub(super) table: u32,
    pub(super) row: u32,
    pub(super) ask: Ask,
    /// Random numbers.
    state: u64,
}

impl Client {
    pub(super) fn draw(&mut self) -> u64 {
        self.state = mix(self.state);
        self.state
    }

    /// Nanoseconds until the next of queries that come so many a second at random.
    pub(super) fn gap(&mut self, rate: f64) -> u64 {
        let part = (self.draw() as f64 + 1.0) / (u64::MAX as f64 + 2.0);
        (-part.ln() / rate * 1e9) as u64 + 1
    }
}

/// A stall that is to come to tasks of a table.
struct Pending {
    from: u64,
    tasks: u32,
    chance: f64,
    nanos: u64,
}

/// What is known of one table's queries besides what they read.
struct Asked {
    weight: f32,
    limit: Option<usize>,
    /// The row of its first kind of query.
    row: u32,
    /// The terms of queries of the common stream.
    shared: Option<Ask>,
    stalls: Vec<Pending>,
}

/// All clients; empty if the common stream is all there is.
pub(super) struct Clients {
    pub(super) clients: Vec<Client>,
    tables: Vec<Asked>,
    /// Draws that stalls have made.
    draws: u64,
    /// Whether queries may expire.
    pub(super) expire: bool,
}

/// Nanoseconds of so many seconds.
pub(super) fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl Clients {
    /// With `pilot` nothing stalls: a pilot run is to tell what queries take.
    pub(super) fn new(asking: &Asking, seed: u64, pilot: bool) -> Self {
        let (mut clients, mut tables, mut row) = (Vec::new(), Vec::new(), 0);
        let tenants = &asking.tenants;
        for tenant in tenants {
            let stalls = |tenant: &Tenant| {
                let stalls = tenant.stalls.iter().filter(|_| !pilot);
                let pending = stalls.map(|stall| {
                    let (from, tasks, chance) = match stall.of {
                        Stalled::At { seconds, tasks } => (nanos(seconds), tasks, 0.0),
                        Stalled::Chance(chance) => (0, 0, chance),
                    };
                    Pending {
                        from,
                        tasks,
                        chance,
                        nanos: nanos(stall.ms / 1e3),
                    }
                });
                pending.collect()
            };
            for table in tenant.tables.clone() {
                tables.push(Asked {
                    weight: tenant.weight,
                    limit: tenant.queue_limit,
                    row,
                    shared: tenant.asks.first().copied(),
                    stalls: stalls(tenant),
                });
                for &ask in &tenant.asks {
                    let state = mix(seed ^ mix(clients.len() as u64));
                    if ask.arrivals != Arrivals::Shared {
                        clients.push(Client {
                            table: table as u32,
                            row,
                            ask,
                            state,
                        });
                    }
                    row += 1;
                }
            }
        }
        let asks = tenants.iter().flat_map(|tenant| &tenant.asks);
        Self {
            clients,
            tables,
            draws: seed,
            expire: asks.into_iter().any(|ask| ask.deadline_ms.is_some()),
        }
    }

    /// A row for each table's each kind of query.
    pub(super) fn rows(asking: &Asking) -> Vec<Row> {
        let tenants = asking.tenants.iter();
        let each = tenants.map(|tenant| tenant.tables.len() * tenant.asks.len());
        (0..each.sum()).map(|_| Row::new()).collect()
    }

    /// The first row of a table, if there are rows, and the terms of a query of the common stream.
    pub(super) fn shared(&self, table: u32) -> (Option<u32>, Option<Ask>) {
        match self.tables.get(table as usize) {
            Some(asked) => (Some(asked.row), asked.shared),
            None => (None, None),
        }
    }

    /// What a queue is told with a query of a table.
    pub(super) fn terms(&self, table: u32, class: Class) -> Terms {
        match self.tables.get(table as usize) {
            Some(asked) => Terms {
                class,
                weight: asked.weight,
                limit: asked.limit,
                ..Terms::default()
            },
            None => Terms {
                class,
                ..Terms::default()
            },
        }
    }

    /// How much longer the task of a table takes that begins now.
    pub(super) fn stall(&mut self, table: u32, now: u64) -> u64 {
        let Some(asked) = self.tables.get_mut(table as usize) else {
            return 0;
        };
        let mut longer = 0;
        for stall in &mut asked.stalls {
            let meets = match stall.tasks {
                0 if stall.chance > 0.0 => {
                    self.draws = mix(self.draws);
                    (self.draws as f64) < stall.chance * u64::MAX as f64
                }
                0 => false,
                _ if now < stall.from => false,
                _ => {
                    stall.tasks -= 1;
                    true
                }
            };
            if meets {
                longer += stall.nanos;
                // One task, one stall of those that come at a time.
                if stall.chance == 0.0 {
                    break;
                }
            }
        }
        longer
    }
}
