//! Links and memory: who has to wait because others read, too.
//!
//! Each link, socket and bridge is served in order of request: what is asked for ends no earlier than its bandwidth
//! allows, so a saturated one gives exactly its bandwidth. Below that, latency rises with use.

use crate::machine::{Machine, UnderLoad};

/// Over this time use is averaged.
const WINDOW_NS: f64 = 100_000.0;

/// What others leave of a bandwidth: at least the rest of this.
const MOST_BY_OTHERS: f64 = 0.95;

/// Something with a bandwidth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    /// Bytes a nanosecond.
    bandwidth: f64,
    /// Of those, what others take.
    others: f64,
    free_at: f64,
    /// Bytes a nanosecond, of late.
    rate: f64,
    seen: f64,
    /// All bytes so far.
    pub(crate) bytes: f64,
}

impl Pipe {
    fn new(gbs: f64, others: f64) -> Self {
        Self {
            bandwidth: gbs,
            others: others.clamp(0.0, MOST_BY_OTHERS * gbs),
            free_at: 0.0,
            rate: 0.0,
            seen: 0.0,
            bytes: 0.0,
        }
    }

    fn fade(&mut self, now: f64) {
        self.rate /= 1.0 + (now - self.seen).max(0.0) / WINDOW_NS;
        self.seen = now;
    }

    fn usage(&mut self, now: f64) -> f64 {
        self.fade(now);
        (self.rate + self.others) / self.bandwidth
    }

    /// Asks for bytes; returns when the last of them has come.
    fn read(&mut self, now: f64, bytes: f64) -> f64 {
        self.fade(now);
        self.rate += bytes / WINDOW_NS;
        self.bytes += bytes;
        self.free_at = self.free_at.max(now) + bytes / (self.bandwidth - self.others);
        self.free_at
    }
}

/// The sockets whose memory has a table, the oldest copy first.
pub(crate) type Holders = Vec<usize>;

/// What has come from near or from far memory so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reach {
    pub(crate) bytes: f64,
    /// Bytes times the nanoseconds that a line of them took.
    byte_ns: f64,
}

impl Reach {
    /// What has come since then.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            byte_ns: self.byte_ns - before.byte_ns,
        }
    }

    /// Nanoseconds of a line on average; 0 if there was none.
    pub(crate) fn latency(self) -> f64 {
        match self.bytes > 0.0 {
            true => self.byte_ns / self.bytes,
            false => 0.0,
        }
    }
}

pub(crate) struct Memory {
    /// Of each domain.
    link_of: Vec<usize>,
    socket_of: Vec<usize>,
    pub(crate) links: Vec<Pipe>,
    pub(crate) sockets: Vec<Pipe>,
    /// For each socket that reads from another.
    bridges: Vec<Pipe>,
    /// Near, and far.
    pub(crate) reach: [Reach; 2],
    /// For each table and each socket the socket whose copy is read there.
    read_from: Vec<Vec<usize>>,
    memory_ns: f64,
    remote_ns: f64,
    queue_ns: f64,
    under_load: UnderLoad,
}

impl Memory {
    /// Of tables that these sockets' memory holds, from which others read so many GB/s. As in an executor, a socket
    /// without a copy reads the first.
    pub(crate) fn new(machine: &Machine, holders: &[Holders], others: &[f64]) -> Self {
        let link_of = machine.links();
        let domains = machine.topology.domains();
        let socket_of: Vec<usize> = domains
            .iter()
            .map(|domain| domain.package as usize)
            .collect();
        let count = |of: &[usize]| of.iter().max().map_or(0, |last| last + 1);
        let sockets = count(&socket_of);
        let read_from = holders.iter().map(|held| {
            let nearest = |socket: usize| held.iter().find(|&&other| other == socket);
            (0..sockets)
                .map(|socket| *nearest(socket).unwrap_or(&held[0]))
                .collect()
        });
        let costs = &machine.costs;
        let held = holders.iter().flatten().max().map_or(0, |last| last + 1);
        let others = |socket: usize| others.get(socket).copied().unwrap_or_default();
        Self {
            links: vec![Pipe::new(costs.link_gbs, 0.0); count(&link_of)],
            // A socket without workers may hold tables.
            sockets: (0..sockets.max(held))
                .map(|socket| Pipe::new(costs.socket_gbs, others(socket)))
                .collect(),
            bridges: vec![Pipe::new(costs.bridge_gbs, 0.0); sockets],
            reach: [Reach::default(); 2],
            read_from: read_from.collect(),
            link_of,
            socket_of,
            memory_ns: costs.memory_ns,
            remote_ns: costs.remote_ns,
            queue_ns: costs.queue_ns,
            under_load: costs.under_load,
        }
    }

    /// The socket whose memory a core of `domain` reads `table` from.
    fn holder(&self, domain: usize, table: u32) -> usize {
        self.read_from[table as usize][self.socket_of[domain]]
    }

    /// Nanoseconds until a line of `table` has come to a core of `domain`.
    pub(crate) fn latency(&mut self, now: u64, domain: usize, table: u32) -> f64 {
        let (now, holder) = (now as f64, self.holder(domain, table));
        let link = self.links[self.link_of[domain]].usage(now);
        let socket = self.sockets[holder].usage(now);
        let is_remote = holder != self.socket_of[domain];
        let bridge = if is_remote {
            self.bridges[self.socket_of[domain]].usage(now)
        } else {
            0.0
        };
        let used = link.max(socket).max(bridge);
        let rest = if is_remote {
            self.remote_ns
        } else {
            self.memory_ns
        };
        rest + self.under_load.waits(used, self.queue_ns)
    }

    /// Counts what has come to a core of `domain`.
    pub(crate) fn note(&mut self, domain: usize, table: u32, bytes: f64, byte_ns: f64) {
        let is_far = self.holder(domain, table) != self.socket_of[domain];
        let reach = &mut self.reach[usize::from(is_far)];
        reach.bytes += bytes;
        reach.byte_ns += byte_ns;
    }

    /// A core of `domain` reads so many bytes of `table`; returns when the last of them can have come.
    pub(crate) fn read(&mut self, now: u64, domain: usize, table: u32, bytes: f64) -> f64 {
        if bytes <= 0.0 {
            return now as f64;
        }
        let (now, holder) = (now as f64, self.holder(domain, table));
        let mut last = self.links[self.link_of[domain]].read(now, bytes);
        last = last.max(self.sockets[holder].read(now, bytes));
        if holder != self.socket_of[domain] {
            last = last.max(self.bridges[self.socket_of[domain]].read(now, bytes));
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_socket_reads_its_copy_or_else_the_first() {
        let machine = Machine::preset("genoa-9654x2").expect("a preset");
        let mut memory = Memory::new(&machine, &[vec![1, 0], vec![1]], &[]);
        for table in 0..2 {
            memory.read(0, 0, table, 64.0);
            memory.read(0, 12, table, 64.0);
        }
        let bytes = |pipes: &[Pipe]| [pipes[0].bytes, pipes[1].bytes];
        assert_eq!(bytes(&memory.sockets), [64.0, 192.0]);
        assert_eq!(bytes(&memory.bridges), [64.0, 0.0]);
    }
}
