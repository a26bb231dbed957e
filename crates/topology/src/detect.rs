//! The running machine, by the best reader that is there.
//!
//! The order: hwloc (feature `hwloc`), then Linux `/sys`, then nothing but the number of cpus. Each
//! step down is logged as a warning. A level that the machine does not have is an error at once, for
//! the next reader would find no other machine.

use crate::assemble::assemble;
use crate::cpuset::CpuSet;
use crate::error::TopologyError;
use crate::level::LevelChoice;
use crate::limits::Limits;
use crate::machine::{Machine, MachineCore};
use crate::model::{Source, Topology};

impl Topology {
    /// The running machine, as far as the calling thread may use it.
    ///
    /// Through hwloc if the feature `hwloc` is on, else from Linux `/sys`. Where neither works the
    /// machine is one domain with as many cores as the standard library counts.
    ///
    /// ```
    /// use chiplet_topology::{LevelChoice, Topology};
    /// let machine = Topology::detect(LevelChoice::Auto)?;
    /// assert!(machine.is_this_machine());
    /// print!("{machine}");
    /// # Ok::<(), chiplet_topology::TopologyError>(())
    /// ```
    ///
    /// # Errors
    /// [`TopologyError::NoSuchLevel`] if the machine lacks the level that was asked for,
    /// [`TopologyError::NothingLeft`] if no cpu may be used.
    pub fn detect(choice: LevelChoice) -> Result<Self, TopologyError> {
        // On Linux hwloc knows no more than /sys tells; without it, it would go by the number of cpus and not say so.
        #[cfg(feature = "hwloc")]
        if !cfg!(target_os = "linux") || std::path::Path::new("/sys/devices/system/cpu").exists() {
            match crate::hwloc::this_machine(choice) {
                Err(error) if !is_final(&error) => {
                    tracing::warn!(%error, "hwloc failed; reading /sys instead")
                }
                found => return found,
            }
        }
        match Self::from_sysfs("/", choice) {
            Err(error) if !is_final(&error) => {
                if cfg!(target_os = "linux") {
                    tracing::warn!(%error, "/sys cannot be read; going by the number of cpus");
                }
                by_count(choice)
            }
            found => found,
        }
    }
}

/// Whether another reader could not do better.
fn is_final(error: &TopologyError) -> bool {
    matches!(
        error,
        TopologyError::NoSuchLevel { .. } | TopologyError::NothingLeft { .. }
    )
}

/// One domain of single-cpu cores: those of the affinity mask, or as many as the system says.
fn by_count(choice: LevelChoice) -> Result<Topology, TopologyError> {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    let cpus = crate::pin::affinity_set()
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| (0..count).collect::<CpuSet>());
    let core = |cpu| MachineCore {
        cpus: vec![cpu],
        l2: None,
        l3: None,
        die: None,
        node: 0,
        package: 0,
    };
    let machine = Machine {
        cores: cpus.into_iter().map(core).collect(),
    };
    assemble(&machine, Limits::default(), choice, Source::CpuCount, true)
}
