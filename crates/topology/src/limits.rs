//! What was taken away from the whole machine: offline cpus, the cgroup's cpuset, the affinity mask
//! of the thread that asked, and the CPU quota.

use crate::cpuset::{CpuSet, cpu_ranges};
use std::fmt;

/// A CPU quota: so many microseconds of CPU time in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time in each period, in microseconds.
    pub quota_us: u64,
    /// The period, in microseconds; never 0.
    pub period_us: u64,
}

impl Quota {
    /// How many CPUs that is, such as 2.5.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    /// The whole CPUs in it, at least 1: what a fraction would run is throttled in every period.
    ///
    /// ```
    /// use chiplet_topology::Quota;
    /// assert_eq!(Quota { quota_us: 250_000, period_us: 100_000 }.whole_cpus(), 2);
    /// assert_eq!(Quota { quota_us: 50_000, period_us: 100_000 }.whole_cpus(), 1);
    /// ```
    pub fn whole_cpus(&self) -> usize {
        usize::try_from(self.quota_us / self.period_us)
            .unwrap_or(usize::MAX)
            .max(1)
    }

    /// Reads a file `cpu.max`: `QUOTA PERIOD` or `max PERIOD`, in microseconds; the period may be left out. `None` for
    /// no quota, and for what cannot be understood.
    #[doc(hidden)]
    pub fn from_cpu_max(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let quota_us = words.next()?.parse().ok()?;
        let period_us = words
            .next()
            .map_or(Ok(100_000), str::parse)
            .ok()
            .filter(|&period| period > 0)?;
        Some(Self {
            quota_us,
            period_us,
        })
    }

    /// The tighter of two quotas, compared exactly.
    pub(crate) fn tighter(self, other: Self) -> Self {
        let left = u128::from(self.quota_us) * u128::from(other.period_us);
        let right = u128::from(other.quota_us) * u128::from(self.period_us);
        if right < left { other } else { self }
    }
}

/// One thing that was taken away from the whole machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restriction {
    /// These cpus exist and are offline.
    Offline(Vec<u32>),
    /// These online cpus are outside the cgroup's cpuset.
    Cpuset(Vec<u32>),
    /// These cpus are outside the affinity mask of the thread that asked.
    Affinity(Vec<u32>),
    /// These cpus were left out by [`Topology::restricted_to`](crate::Topology::restricted_to).
    Caller(Vec<u32>),
    /// The cgroup may use no more CPU time than this.
    Quota(Quota),
}

impl Restriction {
    /// The cpus that were taken away; none for a quota, which takes time.
    pub(crate) fn cpus(&self) -> &[u32] {
        match self {
            Self::Offline(cpus)
            | Self::Cpuset(cpus)
            | Self::Affinity(cpus)
            | Self::Caller(cpus) => cpus,
            Self::Quota(_) => &[],
        }
    }

    pub(crate) fn quota(&self) -> Option<&Quota> {
        if let Self::Quota(quota) = self {
            Some(quota)
        } else {
            None
        }
    }
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offline(cpus) => write!(f, "offline: cpus {}", cpu_ranges(cpus)),
            Self::Cpuset(cpus) => {
                write!(f, "outside the cgroup's cpuset: cpus {}", cpu_ranges(cpus))
            }
            Self::Affinity(cpus) => {
                write!(f, "outside the affinity mask: cpus {}", cpu_ranges(cpus))
            }
            Self::Caller(cpus) => write!(f, "left out by the caller: cpus {}", cpu_ranges(cpus)),
            Self::Quota(quota) => {
                let whole = quota.whole_cpus();
                write!(
                    f,
                    "cgroup CPU quota: {:.2} CPUs, so at most {whole} worker{}",
                    quota.cpus(),
                    if whole == 1 { "" } else { "s" }
                )
            }
        }
    }
}

/// What a reader found to limit the use of a machine; `None` takes nothing away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Cpus that exist beside those of the [`Machine`](crate::machine::Machine), and are not online.
    pub(crate) offline: CpuSet,
    pub(crate) cpuset: Option<CpuSet>,
    pub(crate) affinity: Option<CpuSet>,
    pub(crate) quota: Option<Quota>,
}
