//! What hardware counters give a query, each with its names: for the page, the terminal and `chiplet compare`.

use super::{Counters, Strategy};
use chiplet_bench::charts::number::{percent, quantity};

pub struct Counter {
    /// In full.
    pub title: &'static str,
    pub of: fn(&Counters) -> Option<f64>,
    pub text: fn(f64) -> String,
}

/// Those that some strategy has, and those that none has.
pub fn given(strategies: &[Strategy]) -> (Vec<&'static Counter>, Vec<&'static Counter>) {
    let has = |counter: &Counter, strategy: &Strategy| {
        let counters = strategy.counters.as_ref();
        counters.is_some_and(|counters| (counter.of)(counters).is_some())
    };
    COUNTERS
        .iter()
        .partition(|counter| strategies.iter().any(|strategy| has(counter, strategy)))
}

static COUNTERS: [Counter; 12] = [
    Counter {
        title: "cycles",
        of: |all| all.cycles,
        text: quantity,
    },
    Counter {
        title: "instructions",
        of: |all| all.instructions,
        text: quantity,
    },
    Counter {
        title: "last-level misses",
        of: |all| all.llc_misses,
        text: quantity,
    },
    Counter {
        title: "cycles stalled",
        of: |all| all.stalled_share,
        text: percent,
    },
    Counter {
        title: "lines from own L3",
        of: |all| all.from_own_l3,
        text: quantity,
    },
    Counter {
        title: "lines from another L3",
        of: |all| all.from_other_l3,
        text: quantity,
    },
    Counter {
        title: "lines from memory",
        of: |all| all.from_memory,
        text: quantity,
    },
    Counter {
        title: "lines from remote memory",
        of: |all| all.from_remote_memory,
        text: quantity,
    },
    Counter {
        title: "lines from CXL",
        of: |all| all.from_cxl,
        text: quantity,
    },
    Counter {
        title: "L2 prefetches from own L3",
        of: |all| all.prefetched_own_l3,
        text: quantity,
    },
    Counter {
        title: "L2 prefetches from beyond",
        of: |all| all.prefetched_beyond_l3,
        text: quantity,
    },
    Counter {
        title: "L3 miss ratio, whole machine",
        of: |all| all.l3_miss_ratio,
        text: percent,
    },
];
