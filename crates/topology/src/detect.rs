//! The running machine, by the best reader that is there.
//!
//! The order: hwloc (feature `hwloc`), then Linux `/sys`, then nothing but the number of cpus. Each
//! step down is logged as a warning. A level that the machine does not have is an error at once, for
//! the next reader would find no other machine.

use crate::assemble::assemble;
use crate::cpuset::CpuSet;
use crate::error::TopologyError;
use crate::limits::Limits;
use crate::machine::{Machine, MachineCore};
use crate::model::{Core, Source, Topology};
use crate::options::ReadOptions;
use std::path::Path;

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
    pub fn detect(options: impl Into<ReadOptions>) -> Result<Self, TopologyError> {
        let options = options.into();
        #[cfg(feature = "hwloc")]
        if hwloc_may_look() {
            match crate::hwloc::this_machine(options) {
                Err(error) if !is_final(&error) => {
                    tracing::warn!(%error, "hwloc failed; reading /sys instead")
                }
                found => return found,
            }
        }
        without_hwloc(Path::new("/"), options)
    }
}

/// Whether hwloc can do its work here. On Linux it knows no more than `/sys` tells: where that cannot be read it would
/// go by the number of cpus and not say so. And it asks for masks of ever more cpus until the kernel grants one, so
/// where the kernel refuses them all it would never return.
#[cfg(feature = "hwloc")]
fn hwloc_may_look() -> bool {
    let tells =
        || std::fs::read_dir("/sys/devices/system/cpu").is_ok() && crate::pin::tells_masks();
    !cfg!(target_os = "linux") || tells()
}

/// What the readers after hwloc find: `/sys` below `root`, or else the number of cpus.
fn without_hwloc(root: &Path, options: impl Into<ReadOptions>) -> Result<Topology, TopologyError> {
    let options = options.into();
    match Topology::from_sysfs(root, options) {
        Err(error) if !is_final(&error) => {
            if cfg!(target_os = "linux") {
                tracing::warn!(%error, "/sys cannot be read; going by the number of cpus");
            }
            by_count(options)
        }
        found => found,
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
fn by_count(options: ReadOptions) -> Result<Topology, TopologyError> {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    let cpus = crate::pin::affinity_set()
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| (0..count).collect::<CpuSet>());
    let core = |cpu| MachineCore {
        cpus: vec![cpu],
        capacity: Core::FULL,
        l2: None,
        l3: None,
        die: None,
        node: 0,
        package: 0,
    };
    let machine = Machine {
        cores: cpus.into_iter().map(core).collect(),
        ..Machine::default()
    };
    assemble(&machine, Limits::default(), options, Source::CpuCount, true)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::level::{Level, LevelChoice};
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs::{create_dir, create_dir_all, write};
    use std::os::unix::fs::symlink;

    const CPUS: &str = "sys/devices/system/cpu";

    #[test]
    fn where_sys_cannot_be_read_the_cpus_of_this_thread_are_one_domain() {
        let strange: [fn(&Path); 8] = [
            |_| (),
            |root| write(root.join("sys"), "no folder").unwrap(),
            |root| symlink("nowhere", root.join("sys")).unwrap(),
            |root| symlink(root.join("sys"), root.join("sys")).unwrap(),
            |root| mknodat(CWD, root.join("sys"), FileType::Fifo, Mode::RUSR, 0).unwrap(),
            |root| create_dir(root.join("sys")).unwrap(),
            |root| create_dir_all(root.join(CPUS)).unwrap(),
            |root| {
                create_dir_all(root.join(CPUS).join("cpu0/topology")).unwrap();
                write(root.join(CPUS).join("online"), "what no kernel writes").unwrap();
            },
        ];
        for (way, make) in strange.iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            make(folder.path());
            let machine = without_hwloc(folder.path(), LevelChoice::Auto).unwrap();
            assert_eq!(machine.source(), &Source::CpuCount, "way {way}");
            assert_eq!(
                (machine.level(), machine.domains().len()),
                (Level::Machine, 1)
            );
            assert_eq!(machine.domains()[0].cpus(), crate::pin::current_affinity());
            assert!(machine.is_this_machine());
            // A level is not made up for the sake of an answer.
            let asked = without_hwloc(folder.path(), LevelChoice::L3);
            assert!(
                matches!(asked, Err(TopologyError::NoSuchLevel { .. })),
                "{asked:?}"
            );
        }
    }

    #[test]
    fn what_no_other_reader_would_find_otherwise_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            create_dir_all(path.parent().unwrap()).unwrap();
            write(path, text).unwrap();
        };
        file(&format!("{CPUS}/cpu0/topology/core_cpus"), "1");
        let machine = without_hwloc(folder.path(), LevelChoice::Auto).unwrap();
        assert!(matches!(machine.source(), Source::Sysfs(_)));

        file("proc/mounts", "none /cpuset cpuset rw 0 0");
        file("cpuset/cpus", "7");
        let error = without_hwloc(folder.path(), LevelChoice::Auto).unwrap_err();
        assert!(
            matches!(error, TopologyError::NothingLeft { .. }),
            "{error}"
        );
    }
}
