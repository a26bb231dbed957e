//! Links and memory: who has to wait because others read, too.
//!
//! Each link, socket and bridge is served in order of request: what is asked for ends no earlier than its bandwidth
//! allows, so a saturated one gives exactly its bandwidth. Below that, latency rises with use.

use crate::engine::balance::Holders;
use crate::machine::Machine;

/// Over this time use is averaged.
const WINDOW_NS: f64 = 100_000.0;

/// Latency is that of this use at most; beyond it the bandwidth itself holds reads up.
const MOST_USE: f64 = 0.95;

/// Something with a bandwidth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    /// Bytes a nanosecond.
    bandwidth: f64,
    free_at: f64,
    /// Bytes a nanosecond, of late.
    rate: f64,
    seen: f64,
    /// All bytes so far.
    pub(crate) bytes: f64,
}

impl Pipe {
    fn new(gbs: f64) -> Self {
        Self {
            bandwidth: gbs,
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
        (self.rate / self.bandwidth).min(MOST_USE)
    }

    /// Asks for bytes; returns when the last of them has come.
    fn read(&mut self, now: f64, bytes: f64) -> f64 {
        self.fade(now);
        self.rate += bytes / WINDOW_NS;
        self.bytes += bytes;
        self.free_at = self.free_at.max(now) + bytes / self.bandwidth;
        self.free_at
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
    /// For each table and each socket the socket whose copy is read there.
    read_from: Vec<Vec<usize>>,
    memory_ns: f64,
    remote_ns: f64,
    queue_ns: f64,
}

impl Memory {
    /// Of tables that these sockets' memory holds. As in an executor, a socket without a copy reads the first.
    pub(crate) fn new(machine: &Machine, holders: &[Holders]) -> Self {
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
        Self {
            links: vec![Pipe::new(costs.link_gbs); count(&link_of)],
            sockets: vec![Pipe::new(costs.socket_gbs); sockets],
            bridges: vec![Pipe::new(costs.bridge_gbs); sockets],
            read_from: read_from.collect(),
            link_of,
            socket_of,
            memory_ns: costs.memory_ns,
            remote_ns: costs.remote_ns,
            queue_ns: costs.queue_ns,
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
        rest + self.queue_ns * used / (1.0 - used)
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
        let mut memory = Memory::new(&machine, &[vec![1, 0], vec![1]]);
        for table in 0..2 {
            memory.read(0, 0, table, 64.0);
            memory.read(0, 12, table, 64.0);
        }
        let bytes = |pipes: &[Pipe]| [pipes[0].bytes, pipes[1].bytes];
        assert_eq!(bytes(&memory.sockets), [64.0, 192.0]);
        assert_eq!(bytes(&memory.bridges), [64.0, 0.0]);
    }
}
