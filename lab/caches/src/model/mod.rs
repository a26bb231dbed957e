//! A machine of several L3 domains, as a program's loads and stores see it. Safe, and without QEMU.

pub mod cache;
pub mod core;
pub mod counts;
pub mod domain;
pub mod link;
pub mod parts;
pub mod sharing;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use self::core::Core;
use self::counts::{Counters, Counts};
use self::domain::Domain;
use self::link::Link;
use self::parts::Part;
use self::sharing::{CoreId, Sharing};

/// Times in picoseconds, as a core counts them.
pub struct Costs {
    instruction: u64,
    l2: u64,
    l3: u64,
    dram: u64,
    stream: u64,
    /// For a locked instruction, and for others.
    near: [u64; 2],
    far: [u64; 2],
    far_tlb: u64,
    walk: u64,
    /// A system call that does not sleep.
    pub syscall: u64,
    /// From waking a thread until it runs.
    pub wake: u64,
    /// A `pause`.
    pub pause: u64,
}

impl Costs {
    fn new(part: &Part) -> Self {
        let ps = |ns: f64| (ns * 1000.0).round() as u64;
        Self {
            instruction: ps(part.cpi / part.ghz),
            l2: ps(part.l2_ns / part.overlap),
            l3: ps(part.l3_ns / part.overlap),
            dram: ps(part.dram_ns / part.overlap),
            stream: ps(part.stream_ns),
            near: [ps(part.near_ns), ps(part.near_ns / part.overlap)],
            far: [ps(part.far_ns), ps(part.far_ns / part.overlap)],
            far_tlb: ps(7.0 / part.ghz),
            walk: ps(part.walk_ns),
            syscall: ps(part.syscall_ns),
            wake: ps(part.wake_ns),
            pause: ps(part.pause_ns),
        }
    }
}

/// Which modelled domain the program's domain `d` runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// Its own.
    Straight,
    /// The first: all workers on one L3.
    One,
    /// Another, as a permutation.
    Permuted(Vec<u16>),
    /// Each worker on one of its own, by its number: workers of a domain share no cache, the placebo.
    Dealt(Vec<u16>),
}

/// All that cores share.
pub struct Machine {
    part: Part,
    /// What things cost.
    pub costs: Costs,
    page_bits: u32,
    wiring: Wiring,
    /// The part's domains, then one for threads that are no workers.
    domains: Vec<Domain>,
    links: Vec<Link>,
    socket: Link,
    sharing: Sharing,
    ledger: Mutex<Ledger>,
    /// Lines that crossed, by the two domains.
    pairs: Mutex<Vec<u64>>,
    /// By instruction and line, if asked for.
    bounces: Option<Mutex<FxHashMap<(u64, u64), u64>>>,
}

/// All cores that there have been, and what they had counted when the phase began.
#[derive(Default)]
struct Ledger {
    cores: Vec<(u16, Arc<Counters>)>,
    begun: Vec<Counts>,
}

impl Machine {
    /// A machine with cold caches. `page_bytes` is the size of all pages.
    #[must_use]
    pub fn new(part: Part, wiring: Wiring, page_bytes: u64, bounces: bool) -> Self {
        let domains = part.domains as usize + 1;
        // Clients get an L3 and a link like everybody, but nobody asks how they fare.
        let link = || Link::new(part.link_gbs);
        Self {
            costs: Costs::new(&part),
            page_bits: page_bytes.ilog2(),
            wiring,
            domains: (0..domains)
                .map(|_| Domain::new(part.l3_bytes, 16))
                .collect(),
            links: (0..domains.div_ceil(part.domains_per_link as usize) + 1)
                .map(|_| link())
                .collect(),
            socket: Link::new(part.socket_gbs),
            sharing: Sharing::default(),
            ledger: Mutex::default(),
            pairs: Mutex::new(vec![0; domains * domains]),
            bounces: bounces.then(Mutex::default),
            part,
        }
    }

    /// What is modelled.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// The number of the domain for threads that are no workers.
    pub fn outside(&self) -> u16 {
        self.part.domains as u16
    }

    /// The core of a worker of the program's domain `domain`.
    pub fn worker(&self, domain: u32, worker: u32) -> Core {
        match &self.wiring {
            Wiring::Dealt(to) => self.core(Some(u32::from(to[worker as usize % to.len()]))),
            Wiring::Straight | Wiring::One | Wiring::Permuted(_) => self.core(Some(domain)),
        }
    }

    /// A core with cold private caches, in the program's domain `domain`; elsewhere without one.
    pub fn core(&self, domain: Option<u32>) -> Core {
        let domain = match (domain, &self.wiring) {
            (None, _) => self.outside(),
            (Some(domain), Wiring::Straight | Wiring::Dealt(_)) => {
                (domain % self.part.domains) as u16
            }
            (Some(_), Wiring::One) => 0,
            (Some(domain), Wiring::Permuted(to)) => to[domain as usize % to.len()],
        };
        let counters = Arc::new(Counters::default());
        let mut ledger = lock(&self.ledger);
        let id = ledger.cores.len() as CoreId;
        ledger.cores.push((domain, Arc::clone(&counters)));
        ledger.begun.push(Counts::default());
        drop(ledger);
        Core::new(id, domain, self, counters)
    }

    /// Counts from now on; caches stay as they are.
    pub fn begin(&self) {
        let mut ledger = lock(&self.ledger);
        let Ledger { cores, begun } = &mut *ledger;
        *begun = cores.iter().map(|(_, counters)| counters.read()).collect();
        lock(&self.pairs).fill(0);
        if let Some(bounces) = &self.bounces {
            lock(bounces).clear();
        }
    }

    /// By domain, what its cores have counted since the phase began.
    pub fn counts(&self) -> Vec<Counts> {
        let mut sums = vec![Counts::default(); self.domains.len()];
        let ledger = lock(&self.ledger);
        for ((domain, counters), begun) in ledger.cores.iter().zip(&ledger.begun) {
            sums[usize::from(*domain)].add(&counters.read().since(begun));
        }
        sums
    }

    /// `[from][to]`: written lines that crossed.
    pub fn pairs(&self) -> Vec<Vec<u64>> {
        let pairs = lock(&self.pairs);
        pairs
            .chunks(self.domains.len())
            .map(<[u64]>::to_vec)
            .collect()
    }

    /// By instruction and line, how often a written line crossed; nothing unless asked for when the machine was made.
    pub fn bounces(&self) -> Vec<((u64, u64), u64)> {
        let Some(bounces) = &self.bounces else {
            return Vec::new();
        };
        lock(bounces)
            .iter()
            .map(|(&key, &times)| (key, times))
            .collect()
    }

    fn crossed(&self, from: u16, to: u16, pc: u64, line: u64) {
        lock(&self.pairs)[usize::from(from) * self.domains.len() + usize::from(to)] += 1;
        if let Some(bounces) = &self.bounces {
            *lock(bounces).entry((pc, line)).or_default() += 1;
        }
    }

    /// A line from memory to `domain`: how long it waits in line.
    fn queue(&self, domain: u16, now: u64) -> u64 {
        let link = &self.links[if domain == self.outside() {
            self.links.len() - 1
        } else {
            usize::from(domain) / self.part.domains_per_link as usize
        }];
        let first = link.pass(now);
        first + self.socket.pass(now + first)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
