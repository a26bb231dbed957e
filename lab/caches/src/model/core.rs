//! One core: its private caches, its TLB and its clock. Only its own thread touches it.

use std::sync::Arc;

use super::cache::Cache;
use super::counts::Counters;
use super::sharing::{CoreId, Newest};
use super::{Costs, Machine};

/// First-level TLB: 64 to 72 entries on Zen 2 to 4, fully associative there.
const NEAR_TLB: usize = 64;

const RECENT: usize = 8;

/// A core with a thread on it.
pub struct Core {
    id: CoreId,
    domain: u16,
    l1: Cache,
    l2: Cache,
    near_tlb: Cache,
    far_tlb: Cache,
    /// The lines touched last. They are in the L1: it has 8 ways or more.
    recent: [u64; RECENT],
    next_recent: usize,
    last_page: u64,
    /// The line that last came from memory or another core: the next one is on its way.
    streamed: u64,
    /// Modelled time, in picoseconds.
    pub clock: u64,
    /// What it has done; the machine keeps a share, so that it can be read at any time.
    pub counters: Arc<Counters>,
}

/// An access as the program does it.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// First byte.
    pub address: u64,
    /// How many.
    pub bytes: u64,
    /// Whether it writes (also).
    pub write: bool,
    /// Whether it is a locked instruction, which waits for its line; others overlap.
    pub atomic: bool,
    /// The instruction's address.
    pub pc: u64,
}

impl Core {
    pub(super) fn new(id: CoreId, domain: u16, machine: &Machine, counters: Arc<Counters>) -> Self {
        let part = &machine.part;
        Self {
            id,
            domain,
            l1: Cache::of_bytes(part.l1_bytes, part.l1_ways),
            l2: Cache::of_bytes(part.l2_bytes, 8),
            near_tlb: Cache::new(NEAR_TLB, NEAR_TLB),
            far_tlb: Cache::new(part.tlb_entries, part.tlb_ways),
            recent: [u64::MAX; RECENT],
            next_recent: 0,
            last_page: u64::MAX,
            streamed: u64::MAX,
            clock: 0,
            counters,
        }
    }

    /// Runs so many instructions whose data is near.
    #[inline]
    pub fn run(&mut self, machine: &Machine, instructions: u64) {
        let time = instructions * machine.costs.instruction;
        self.counters.instructions.add(instructions);
        self.counters.ran_ps.add(time);
        self.clock += time;
    }

    /// Does nothing for a while, but not idly: a system call, a `pause`.
    pub fn spend(&mut self, time: u64) {
        self.counters.ran_ps.add(time);
        self.clock += time;
    }

    /// Reads or writes memory.
    #[inline]
    pub fn access(&mut self, machine: &Machine, access: Access) {
        let first = access.address >> 6;
        let last = (access.address + access.bytes - 1) >> 6;
        for line in first..=last {
            let private = machine.sharing.is_private(line, self.id, access.write);
            if self.recent.contains(&line) {
                if private {
                    continue;
                }
            } else {
                self.recent[self.next_recent] = line;
                self.next_recent = (self.next_recent + 1) % RECENT;
            }
            self.line(machine, line, private, &access);
        }
    }

    fn line(&mut self, machine: &Machine, line: u64, private: bool, access: &Access) {
        let costs = &machine.costs;
        self.counters.l1_accesses.add(1);
        let mut wait = self.translate(machine, line << 6);
        let in_l1 = self.l1.find(line);
        let in_l2 = if in_l1.is_none() {
            self.l2.find(line)
        } else {
            None
        };
        let cached = in_l1.or(in_l2);
        let (version, newest) = if private {
            (cached.unwrap_or(0), Newest::Unwritten)
        } else {
            let (id, domain) = (self.id, self.domain);
            machine
                .sharing
                .touch(line, id, domain, access.write, cached)
        };
        let valid = match newest {
            Newest::Unwritten => cached.is_some(),
            Newest::Here => true,
            Newest::Domain | Newest::Other(_) => false,
        };
        if in_l1.is_none() || !valid {
            self.counters.l1_misses.add(1);
        }
        if valid {
            if in_l1.is_none() {
                wait += costs.l2;
            }
        } else {
            self.counters.l2_misses.add(1);
            let had = if cached.is_some() {
                true
            } else {
                let victim = self.l2.insert(line, version);
                machine.domains[usize::from(self.domain)].exchange(line, victim)
            };
            wait += match newest {
                Newest::Domain => {
                    self.counters.lines_within.add(1);
                    self.transfer(line, access.atomic, costs.near, costs)
                }
                Newest::Other(from) => {
                    self.counters.l3_misses.add(1);
                    self.counters.lines_across.add(1);
                    machine.crossed(from, self.domain, access.pc, line);
                    self.transfer(line, access.atomic, costs.far, costs)
                }
                _ if had => costs.l3,
                _ => {
                    self.counters.l3_misses.add(1);
                    self.fetch(machine, line)
                }
            };
        }
        if in_l1.is_none() {
            self.l1.insert(line, version);
        } else {
            self.l1.renew(line, version);
        }
        let stale = cached.is_some_and(|cached| cached != version);
        if stale && (in_l2.is_some() || self.l2.find(line).is_some()) {
            self.l2.renew(line, version);
        }
        self.counters.stalled_ps.add(wait);
        self.counters.ran_ps.add(wait);
        self.clock += wait;
    }

    /// A line from memory. The one after the last is on its way already: it takes as long as streaming one does.
    fn fetch(&mut self, machine: &Machine, line: u64) -> u64 {
        let follows = line == self.streamed.wrapping_add(1);
        self.streamed = line;
        let own = if follows {
            machine.costs.stream
        } else {
            machine.costs.dram
        };
        let queued = machine.queue(self.domain, self.clock);
        self.counters.queued_ps.add(queued);
        own + queued
    }

    /// A written line from another core.
    fn transfer(&mut self, line: u64, atomic: bool, latency: [u64; 2], costs: &Costs) -> u64 {
        let follows = line == self.streamed.wrapping_add(1);
        self.streamed = line;
        match (atomic, follows) {
            (true, _) => latency[0],
            (false, false) => latency[1],
            (false, true) => costs.stream,
        }
    }

    fn translate(&mut self, machine: &Machine, address: u64) -> u64 {
        let page = address >> machine.page_bits;
        if page == self.last_page {
            return 0;
        }
        self.last_page = page;
        if self.near_tlb.find(page).is_some() {
            return 0;
        }
        self.near_tlb.insert(page, 0);
        self.counters.tlb_misses.add(1);
        if self.far_tlb.find(page).is_some() {
            return machine.costs.far_tlb;
        }
        self.far_tlb.insert(page, 0);
        self.counters.page_walks.add(1);
        machine.costs.walk
    }
}
