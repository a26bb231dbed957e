//! A window of time over a machine: what `chiplet-advisor advise` and each round of `chiplet-advisor balance` decide
//! by.
//!
//! Groups of interest are counted one after the other, each for its part of the window. So counters cost no more
//! however many groups there are, and a group that changes within the window is known by a part of it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chiplet_advise::{Cycles, Fills, GroupPath, Host, Known, Missing, Snapshot, Survey};
use rustix::time::{ClockId, clock_gettime};

use super::latency::Latencies;
use super::options::Machine;
use crate::stop;
use chiplet_bench::counters::{CYCLES, CounterValues, Counters, Counting, Unavailable};

/// Cycles of which a share that is told is a part: enough for six digits.
const TOLD: u64 = 1_000_000;

/// What is known before a window begins, and stays.
pub(crate) struct Watch {
    /// Both by the options, or measured.
    known: Known,
    pub(crate) latencies: Option<Latencies>,
    /// What could not be measured, and why: said once.
    pub(crate) notes: Vec<String>,
    cycles: Source,
}

/// Where cycles are known from.
enum Source {
    /// Each group is counted.
    Counted,
    /// The same of every group: the options tell.
    Told(Cycles),
    /// Another machine's cannot be counted.
    Nowhere,
}

/// What was seen in a window.
pub(crate) struct Seen {
    pub(crate) survey: Survey,
    pub(crate) length: Duration,
    pub(crate) known: Known,
    /// Processor time that watching took.
    pub(crate) cost: Duration,
    /// What could not be counted, and why.
    pub(crate) notes: Vec<String>,
}

impl Watch {
    /// Measures latencies where they matter and are not given.
    pub(crate) fn new(host: &Host, machine: &Machine) -> Self {
        let mut known = Known {
            lambda: machine.lambda,
            ..Known::default()
        };
        if let Some(gb) = machine.bandwidth {
            known.bandwidth = host
                .nodes()
                .iter()
                .map(|node| (node.node, gb * 1e9))
                .collect();
        }
        let mut notes = Vec::new();
        let with_cpus = host.nodes().iter().filter(|node| !node.cpus.is_empty());
        let wanted = machine.is_this() && machine.lambda.is_none() && with_cpus.count() > 1;
        let latencies = wanted.then(|| Latencies::measure(host.nodes()));
        let latencies = latencies.and_then(|measured| match measured {
            Ok(latencies) => Some(latencies),
            Err(error) => {
                notes.push(format!(
                    "latencies of memory were not measured: {error:#}; give --lambda"
                ));
                None
            }
        });
        if let Some(latencies) = latencies {
            known.lambda = Some(latencies.ratio());
        }
        Self {
            known,
            latencies,
            notes,
            cycles: match machine.msr {
                Some(share) => Source::Told(Cycles {
                    stalled: (share * TOLD as f64) as u64,
                    unhalted: TOLD,
                }),
                None if machine.is_this() => Source::Counted,
                None => Source::Nowhere,
            },
        }
    }

    /// Watches so long; `None` if this process is asked to stop meanwhile.
    pub(crate) fn window(
        &self,
        host: &Host,
        subjects: &[GroupPath],
        length: Duration,
    ) -> anyhow::Result<Option<Seen>> {
        let (begun, cost) = (Instant::now(), processor_time());
        let mut groups = host.groups();
        // Beyond what is listed, or deeper.
        let known: BTreeSet<&GroupPath> = groups.iter().collect();
        let more: Vec<GroupPath> = (subjects.iter())
            .filter(|subject| !known.contains(subject))
            .cloned()
            .collect();
        groups.extend(more);
        let before = Snapshot::take(host, &groups)?;
        let (mut known, mut notes) = (self.known.clone(), Vec::new());
        let parts = subjects.len().max(1) as u32;
        for (part, group) in (1..).zip(subjects) {
            let counting = match self.cycles {
                Source::Counted => Some(open(host, group).map(Counting::begin)),
                Source::Told(_) | Source::Nowhere => None,
            };
            let until = length * part / parts;
            if !stop::rest(until.saturating_sub(begun.elapsed())) {
                return Ok(None);
            }
            let cycles = match counting {
                Some(Ok(counting)) => {
                    let values = counting.end();
                    if let Some((near, far)) = values.fills() {
                        let (near, far) = (near as u64, far as u64);
                        known.fills.insert(group.clone(), Fills { near, far });
                    }
                    cycles(&values)
                }
                Some(Err(why)) => {
                    notes.push(format!("cycles are {why}"));
                    Err(reason(&why, host))
                }
                None => match self.cycles {
                    Source::Told(told) => Ok(told),
                    Source::Counted | Source::Nowhere => continue,
                },
            };
            known.cycles.insert(group.clone(), cycles);
        }
        if !stop::rest(length.saturating_sub(begun.elapsed())) {
            return Ok(None);
        }
        // The second look is taken at the end of what is counted, not after it: its own time belongs to neither.
        let length = begun.elapsed();
        let after = Snapshot::take(host, &groups)?;
        notes.dedup();
        Ok(Some(Seen {
            survey: Survey::new(before, after, length)?,
            length,
            known,
            cost: processor_time().saturating_sub(cost),
            notes,
        }))
    }
}

fn open(host: &Host, group: &GroupPath) -> Result<Counters, Unavailable> {
    let Ok(look) = host.look(group) else {
        return Err(Unavailable::NoThreads);
    };
    Counters::of_group(&host.folder(group), &look.cpus)
}

fn reason(why: &Unavailable, host: &Host) -> Missing {
    match why {
        Unavailable::NoHardware { .. } if host.is_virtual() => Missing::VirtualMachine,
        Unavailable::NoHardware { .. } => Missing::NotCounted,
        Unavailable::NoThreads => Missing::NoTasks,
        _ => Missing::NoCycles,
    }
}

fn cycles(values: &CounterValues) -> Result<Cycles, Missing> {
    let (Some(unhalted), Some(stalled)) = (values.total(CYCLES), values.stalled_on_memory()) else {
        return Err(Missing::NotCounted);
    };
    Ok(Cycles {
        stalled: stalled as u64,
        unhalted: unhalted as u64,
    })
}

/// Of this process.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
