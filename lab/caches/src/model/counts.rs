//! What is counted of each core. Only the core's own thread writes; anybody may read.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one core.
        #[derive(Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        /// What [`Counters`] say at one moment, or between two, of one core or many.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// All of them.
            pub fn read(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }

        impl Counts {
            /// What has been counted since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name - earlier.$name,)* }
            }

            /// Adds another core's.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Instructions.
    instructions,
    /// Lines touched by loads and stores; a line touched by several accesses in a row counts once.
    l1_accesses,
    /// Not in the L1.
    l1_misses,
    /// Nor in the L2, or stale there; all of these ask the domain's L3.
    l2_misses,
    /// Nor in the domain: from memory or from another domain.
    l3_misses,
    /// Of these, lines that another domain had written, or that had to be taken away from it.
    lines_across,
    /// Written lines that came from a core of the same domain.
    lines_within,
    /// Changes of page that missed the first-level TLB.
    tlb_misses,
    /// Of these, those that missed the second level too.
    page_walks,
    /// Modelled time that data was waited for, in picoseconds.
    stalled_ps,
    /// Of this, time in line for a link or a socket's memory.
    queued_ps,
    /// Modelled time that the core's thread ran, in picoseconds.
    ran_ps,
}

/// A counter that one thread writes.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`; the caller is the only writer.
    #[inline]
    pub fn add(&self, amount: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now + amount, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
