//! What is counted, by name.

pub const INSTRUCTIONS: &str = "instructions";
pub const CYCLES: &str = "cycles";
pub const LLC_MISSES: &str = "last-level cache misses";
/// Cycles, or on Zen 4 and later dispatch slots worth a cycle, in which the back end held up the rest.
pub const STALLED: &str = "back-end stalls";
pub const OWN_L3: &str = "lines from the own L3";
pub const OTHER_L3: &str = "lines from another L3";
pub const MEMORY: &str = "lines from memory";
pub const REMOTE_MEMORY: &str = "lines from another node's memory";
pub const CXL: &str = "lines from CXL memory";
/// AMD, Zen 3 and later: what the L2's hardware prefetchers brought into it. A fill of the first-level cache finds such
/// a line in the L2, so it is in none of the lines above.
pub const PREFETCHED_OWN_L3: &str = "lines that the L2 prefetched from the own L3";
pub const PREFETCHED_BEYOND: &str = "lines that the L2 prefetched from beyond the own L3";
/// AMD: requests of all L3s of the machine, and those that missed, whoever asked.
pub const L3_LOOKUPS: &str = "L3 requests of the whole machine";
pub const L3_MISSES: &str = "L3 misses of the whole machine";
/// Intel: cycles in which nothing was executed while a load waited for memory.
pub const STALLED_ON_MEMORY: &str = "stalls on memory";
/// AMD: cycles in which nothing was retired because the oldest operation was not done, and of these those in which it
/// was a load.
pub const UNRETIRED: &str = "cycles without retiring";
pub const UNRETIRED_LOADS: &str = "cycles without retiring for a load";
/// AMD: lines from memory by where it is. The names of Intel's events for loads, which leave prefetches out, differ.
pub const NEAR_FILLS: &str = "fills from near memory";
pub const FAR_FILLS: &str = "fills from far memory";
