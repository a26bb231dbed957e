//! Which cores are near each other, measured: for machines that do not tell, or tell wrong.
//!
//! Two pinned threads pass a line of memory back and forth; how long that takes tells whether they share a cache. Cores
//! of one CCD take 20-45 ns for a pass, cores of two CCDs 80-200 ns. Nothing of the system is read but the clock,
//! nothing is written, and no right is needed. [`measure`] takes a second or two, some 20 s at most.
//!
//! Measuring ([`measure`], [`collect`]) and judging ([`find_domains`]) are apart: what is judged is a plain matrix.
//!
//! ```
//! use chiplet_probe::{Finding, Latencies, Sample, find_domains};
//! // Eight cores of two CCDs of a Genoa.
//! let mut matrix = Latencies::new((0..8).collect());
//! for a in 0..8 {
//!     for b in 0..a {
//!         let nanos = if a / 4 == b / 4 { 28.0 } else { 182.0 };
//!         matrix.set(a, b, Sample::exact(nanos));
//!     }
//! }
//! let Finding::Domains { groups, .. } = find_domains(&matrix) else { panic!() };
//! assert_eq!(groups, [[0, 1, 2, 3], [4, 5, 6, 7]]);
//! ```

mod bounce;
mod cluster;
mod collect;
mod latencies;

pub use cluster::{Finding, find_domains};
pub use collect::{Progress, collect};
pub use latencies::{Latencies, Sample};

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use chiplet_topology::pin::PinError;
use chiplet_topology::{DomainList, Topology};

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The machine is not the running one.
    #[error("only the running machine can be measured, and this is another: {0}")]
    OtherMachine(String),
    /// Threads cannot be tied to cpus.
    #[error("cores can only be measured by threads that are tied to them: {0}")]
    Pin(#[from] PinError),
}

/// Measures the cores of this machine, each by its first cpu, for at most `limit`. What is not measured by then is left
/// out. Two threads at a time spin for as long as it takes.
///
/// ```no_run
/// use chiplet_topology::{LevelChoice, Topology};
/// use std::time::Duration;
/// let machine = Topology::detect(LevelChoice::Auto)?;
/// let matrix = chiplet_probe::measure(&machine, Duration::from_secs(20), |_| ())?;
/// if let Some(domains) = chiplet_probe::find_domains(&matrix).domains(&machine) {
///     print!("{}", machine.with_domains(&domains)?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ProbeError::OtherMachine`] if the topology is not of this machine, [`ProbeError::Pin`] if the system refuses to
/// pin threads.
pub fn measure(
    machine: &Topology,
    limit: Duration,
    mut progress: impl FnMut(Progress),
) -> Result<Latencies, ProbeError> {
    if !machine.is_this_machine() {
        return Err(ProbeError::OtherMachine(machine.source().to_string()));
    }
    let cores = machine.domains().iter().flat_map(|domain| &domain.cores);
    let mut cpus: Vec<u32> = cores.map(|core| core.cpus[0]).collect();
    cpus.sort_unstable();
    let until = Instant::now() + limit;
    let go_on = |done| {
        progress(done);
        match Instant::now() < until {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let names = cpus.clone();
    let measured = |a: usize, b: usize| bounce::pair(names[a], names[b]);
    Ok(collect(cpus, measured, go_on)?)
}

impl Finding {
    /// What was found as a list for [`Topology::with_domains`], with all cpus of each core. `None` if no domains were
    /// found.
    pub fn domains(&self, machine: &Topology) -> Option<DomainList> {
        let Self::Domains { groups, .. } = self else {
            return None;
        };
        let cores = || machine.domains().iter().flat_map(|domain| &domain.cores);
        let whole = |group: &Vec<u32>| {
            let ours = cores().filter(|core| group.contains(&core.cpus[0]));
            let mut cpus: Vec<u32> = ours.flat_map(|core| core.cpus.iter().copied()).collect();
            cpus.sort_unstable();
            cpus
        };
        Some(DomainList::from(
            groups.iter().map(whole).collect::<Vec<_>>(),
        ))
    }
}
