//! What the mapper is told: the domains, what tables ask for, and the thresholds.

use chiplet_topology::{Domain, DomainId};

use crate::TableId;

/// Tables do not count as larger than 50 caches.
const LEAST_REUSE: f64 = 0.02;

/// A domain as the mapper sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DomainSpec {
    /// Its id in the topology.
    pub id: DomainId,
    /// Cores (workers) that serve its tables: the measure of its size. A domain with 0 gets no tables
    /// unless all have 0.
    pub cores: u32,
    /// The mean speed of its cores: 1.0 is the machine's fastest kind of core. Loads are in time of the fastest. A
    /// value that is no positive number counts as 1.0.
    pub speed: f64,
    /// Bytes of its last-level cache; 0 if that is not known.
    pub cache_bytes: u64,
    /// Its package (socket).
    pub package: u32,
}

impl DomainSpec {
    /// A domain of which nothing else is known, in package 0.
    pub fn new(id: DomainId, cores: u32) -> Self {
        Self {
            id,
            cores,
            speed: 1.0,
            cache_bytes: 0,
            package: 0,
        }
    }

    /// A domain of a machine, of which so many cores serve tables.
    pub fn of(domain: &Domain, cores: u32) -> Self {
        Self {
            speed: domain.speed(),
            cache_bytes: domain.cache_bytes,
            package: domain.package,
            ..Self::new(domain.id, cores)
        }
    }

    /// How much of what a query reads of a table of `size` bytes a warm cache of this domain can have, from
    /// [`LEAST_REUSE`] to 1, if a query reads each part of the table alike. 1 where the cache's size is not known.
    pub(crate) fn reuse(&self, size: u64) -> f64 {
        match self.cache_bytes {
            0 => 1.0,
            cache => (cache as f64 / size.max(1) as f64).clamp(LEAST_REUSE, 1.0),
        }
    }

    /// As many of the fastest cores as its cores are worth; without any, as one.
    pub(crate) fn strength(&self) -> f64 {
        f64::from(self.cores.max(1)) * self.sane_speed()
    }

    pub(crate) fn sane_speed(&self) -> f64 {
        match self.speed {
            speed if speed.is_finite() && speed > 0.0 => speed,
            _ => 1.0,
        }
    }
}

/// What a table asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The table. Each is named once.
    pub table: TableId,
    /// What is balanced: core-seconds per second where tables are placed by time, bytes per second where they are
    /// placed by traffic. NaN, infinite and negative values count as 0, those above 1e18 as 1e18.
    pub load: f64,
    /// Its size in bytes: a table that exceeds its home's cache gets several homes earlier. Ignored where tables
    /// are placed by traffic.
    pub size: u64,
    /// The package whose NUMA nodes hold its memory, if it is one and known: several homes are there, if it has as many
    /// domains. Ignored where tables are placed by traffic.
    pub package: Option<u32>,
    /// Each package has its memory, or gets a copy once it has homes there: so it is near wherever it lives, and its
    /// homes are spread over all packages. Ignored where tables are placed by traffic.
    pub everywhere: bool,
    /// The least number of homes that it gets whatever its load, or all domains with cores if those are fewer: replicas
    /// that survive the loss of a home. 0 counts as 1.
    pub least_homes: u32,
}

impl Demand {
    /// A table that is only known by its load.
    pub fn new(table: TableId, load: f64) -> Self {
        Self {
            table,
            load,
            size: 0,
            package: None,
            everywhere: false,
            least_homes: 1,
        }
    }
}

/// What is balanced when tables are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum PlaceBy {
    /// Core-seconds a second, served and refused. A domain is full when its cores are, whether they compute or wait for
    /// memory.
    #[default]
    Time,
    /// Bytes a second pulled from memory, as in arXiv 2605.10090. Tables that report none count as idle.
    Traffic,
}

settings! {
    /// Thresholds of [`assign_homes`](crate::assign_homes). A value that is NaN or out of its range is replaced by its
    /// default.
    pub struct MapperConfig {
        /// What is balanced.
        pub placing: PlaceBy = PlaceBy::Time,
        /// Where tables are placed by time, a table gets several homes when its load exceeds this part of its home's
        /// cores, and it has 1.43 times one domain's fair share of the total (total / domains).
        ///
        /// Default 0.7: by Erlang's C formula, queries wait 0.1 service times for one of the 8 cores of a CCD
        /// at 70 % use, 0.9 at 90 % and 2.1 at 95 %; running on a cold cache costs about one. So the table is
        /// split before waiting costs more than a second cold cache does.
        ///
        /// A cache that holds a part of a table saves that part at most. So where tables are placed by time, the
        /// threshold of a table that exceeds its home's cache is the utilisation at which queries wait for that part of
        /// the time that they wait for at `saturation`: with 8 cores and the default 0.50 for a table of 5 caches, 0.28
        /// for 50 and more. In the simulator p99 at half load fell by 2 to 28 % for the paper's graphs, and p999 by 9
        /// to 44 %; saturated machines saw no difference (results/lab/2026-11/simulation.md).
        pub saturation: f64 = 0.7,
        /// It goes back to fewer homes only below this part; never above `saturation`.
        ///
        /// Default 0.4: `relax / saturation` must stay near a half, or the table would saturate the one home
        /// that it goes back to when its load next wavers.
        pub relax: f64 = 0.4,
        /// Where tables are placed by traffic, so that saturation is not known: a table gets several homes when it has
        /// this many times one domain's fair share of the total (total / domains). At least 1.
        ///
        /// Default 1.5: without evidence of saturation, the imbalance that no whole-table placement can mend
        /// has to reach the default threshold of the fast window ([`TriggerConfig`](crate::TriggerConfig)).
        pub hot_share: f64 = 1.5,
        /// A placement that moves less is taken if its busiest domain is at most this part above the best
        /// that the greedy finds. 0 or more.
        ///
        /// Default 0.1: a tenth of a domain's time is about what refilling one evicted working set costs in
        /// each fast window when traffic keeps shifting, so a better balance would not be earned back.
        pub stay: f64 = 0.1,
    }
}

impl MapperConfig {
    /// This configuration with every senseless value replaced by its default.
    pub(super) fn sane(&self) -> Self {
        let or = |value: f64, fallback: f64, lowest: f64| {
            if value.is_finite() && value >= lowest {
                value
            } else {
                fallback
            }
        };
        let default = Self::default();
        let saturation = or(self.saturation, default.saturation, f64::MIN_POSITIVE);
        Self {
            placing: self.placing,
            saturation,
            relax: or(self.relax, default.relax, f64::MIN_POSITIVE).min(saturation),
            hot_share: or(self.hot_share, default.hot_share, 1.0),
            stay: or(self.stay, default.stay, 0.0),
        }
    }
}
