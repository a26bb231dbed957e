//! A machine through hwloc: the running one, or one that `chiplet-hwloc` makes it load.
//!
//! hwloc is asked to include what is disallowed, so that the level is chosen on the whole machine and
//! what the container took away is known; it is taken away afterwards, and the result is what lstopo
//! shows.

use crate::assemble::assemble;
use crate::cpuset::{CpuSet, MAX_CPU};
use crate::error::TopologyError;
use crate::limits::Limits;
use crate::machine::{Cache, Machine, MachineCore, Processor};
use crate::model::{Core, Source, Topology};
use crate::options::ReadOptions;
use hwlocality::Topology as Hwloc;
use hwlocality::bitmap::BitmapRef;
use hwlocality::cpu::cpuset::CpuSet as HwlocCpuSet;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A machine other than the running one, as hwloc loads it from `source`; `name` says in words where it comes from. For
/// the crate `chiplet-hwloc`, which checks the source first.
///
/// # Errors
/// [`TopologyError::Hwloc`] with hwloc's words, [`TopologyError::NoSuchLevel`], [`TopologyError::NothingLeft`].
pub fn from_hwloc(
    source: impl FnOnce(TopologyBuilder) -> Result<TopologyBuilder, String>,
    name: String,
    options: impl Into<ReadOptions>,
) -> Result<Topology, TopologyError> {
    let Found {
        machine, limits, ..
    } = load(source).map_err(TopologyError::Hwloc)?;
    let source = Source::Described(name);
    assemble(&machine, limits, options.into(), source, false)
}

/// The running machine. If the environment makes hwloc load another one (`HWLOC_XMLFILE`,
/// `HWLOC_SYNTHETIC`), that is what is returned, and it does not count as this machine.
pub(crate) fn this_machine(options: ReadOptions) -> Result<Topology, TopologyError> {
    let Found {
        mut machine,
        mut limits,
        this_machine,
    } = load(Ok).map_err(TopologyError::Hwloc)?;
    if this_machine {
        limits.affinity = crate::pin::affinity_set();
        limits.quota = crate::sysfs::quota_of_this_process();
        machine.is_virtual = crate::sysfs::this_is_virtual();
        crate::sysfs::weigh_this(&mut machine)?;
    }
    assemble(&machine, limits, options, Source::Hwloc, this_machine)
}

/// What hwloc loaded.
struct Found {
    machine: Machine,
    limits: Limits,
    this_machine: bool,
}

/// Loads a machine from what `source` sets; errors are hwloc's words.
fn load(
    source: impl FnOnce(TopologyBuilder) -> Result<TopologyBuilder, String>,
) -> Result<Found, String> {
    let load = || {
        let builder = source(TopologyBuilder::new())?;
        let builder = builder
            .with_flags(BuildFlags::INCLUDE_DISALLOWED)
            .map_err(|error| error.to_string())?;
        let hwloc = builder.build().map_err(|error| match error.errno {
            Some(errno) => format!("loading it failed ({errno})"),
            None => "loading it failed".to_owned(),
        })?;
        let (machine, limits) = read(&hwloc);
        Ok(Found {
            machine,
            limits,
            this_machine: hwloc.is_this_system(),
        })
    };
    // The binding panics on what hwloc does not document: an errno that libxml2 leaves, a number in a
    // damaged file that its types cannot hold. Nothing outlives the call that a panic could spoil.
    catch_unwind(AssertUnwindSafe(load))
        .unwrap_or_else(|_| Err("it failed in an unforeseen way".to_owned()))
}

/// The whole machine, and what hwloc knows to be offline or disallowed.
fn read(hwloc: &Hwloc) -> (Machine, Limits) {
    let packages: Vec<_> = hwloc.objects_with_type(ObjectType::Package).collect();
    let nodes = Nodes::of(hwloc);
    // Cores in the order of their first PU, each with its PUs; a PU under no core is one itself.
    let mut cores = BTreeMap::<_, (&TopologyObject, CpuSet)>::new();
    let mut seen = CpuSet::new();
    for pu in hwloc.objects_with_type(ObjectType::PU) {
        let core = pu.first_ancestor_with_type(ObjectType::Core).unwrap_or(pu);
        let Some(cpu) = os_index(pu).filter(|&cpu| cpu <= MAX_CPU) else {
            continue;
        };
        // A damaged file that HWLOC_XMLFILE names may have a cpu twice; the first counts.
        if !seen.insert(cpu) {
            continue;
        }
        cores
            .entry(core.global_persistent_index())
            .or_insert((core, CpuSet::new()))
            .1
            .insert(cpu);
    }
    let mut machine = Machine::default();
    for (core, cpus) in cores.into_values() {
        let first = *cpus.first().expect("a core is entered with its first cpu");
        let package = core.first_ancestor_with_type(ObjectType::Package);
        machine.cores.push(MachineCore {
            capacity: Core::FULL,
            l2: cache_of(core, ObjectType::L2Cache),
            l3: cache_of(core, ObjectType::L3Cache),
            die: core
                .first_ancestor_with_type(ObjectType::Die)
                .filter(|die| !is_whole(die, package))
                .map(logical),
            node: nodes.of_cpu(first),
            package: package.and_then(os_index).unwrap_or(0),
            cpus: cpus.into_iter().collect(),
        });
    }
    machine.cores.sort_by_key(|core| core.cpus[0]);
    machine.processor = packages
        .first()
        .map_or_else(Processor::default, |package| processor(package));
    machine.pair_ccxs();

    let online: CpuSet = machine.cpus().collect();
    let allowed = hwloc.allowed_cpuset();
    let disallowed = online.iter().any(|&cpu| !allowed.is_set(cpu as usize));
    let limits = Limits {
        offline: offline(&hwloc.complete_cpuset(), &online),
        cpuset: disallowed.then(|| {
            online
                .iter()
                .copied()
                .filter(|&cpu| allowed.is_set(cpu as usize))
                .collect()
        }),
        affinity: None,
        quota: None,
    };
    (machine, limits)
}

/// The cpus that exist and are not online. A set without end, as some files have, tells nothing.
fn offline(complete: &BitmapRef<'_, HwlocCpuSet>, online: &CpuSet) -> CpuSet {
    if complete.is_set(MAX_CPU as usize) {
        return CpuSet::new();
    }
    (0..MAX_CPU)
        .filter(|cpu| complete.is_set(*cpu as usize) && !online.contains(cpu))
        .collect()
}

fn os_index(object: &TopologyObject) -> Option<u32> {
    object
        .os_index()
        .and_then(|index| u32::try_from(index).ok())
}

fn logical(object: &TopologyObject) -> u32 {
    object.logical_index() as u32
}

/// Whether a die is all of its package.
fn is_whole(die: &TopologyObject, package: Option<&TopologyObject>) -> bool {
    package.is_some_and(|package| die.cpuset() == package.cpuset())
}

fn cache_of(core: &TopologyObject, kind: ObjectType) -> Option<Cache> {
    let cache = core.first_ancestor_with_type(kind)?;
    let bytes = match cache.attributes() {
        Some(ObjectAttributes::Cache(attributes)) => attributes.size().map_or(0, |size| size.get()),
        _ => 0,
    };
    Some(Cache {
        key: logical(cache),
        bytes,
        os_id: os_index(cache),
    })
}

fn processor(package: &TopologyObject) -> Processor {
    let info = |key: &str| {
        package
            .info(key)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    let number = |key| info(key).and_then(|value| value.parse().ok()).unwrap_or(0);
    let amd = matches!(info("CPUVendor"), Some("AuthenticAMD" | "HygonGenuine"));
    Processor {
        amd,
        family: number("CPUFamilyNumber"),
        model: number("CPUModelNumber"),
    }
}

/// The NUMA nodes by how near they are to a cpu.
struct Nodes<'hwloc> {
    /// Best first: ordinary memory before high-bandwidth or device memory, few cpus before many.
    by_preference: Vec<&'hwloc TopologyObject>,
}

impl<'hwloc> Nodes<'hwloc> {
    fn of(hwloc: &'hwloc Hwloc) -> Self {
        let mut nodes: Vec<_> = hwloc.objects_with_type(ObjectType::NUMANode).collect();
        nodes.sort_by_key(|node| {
            let subtype = node.subtype().and_then(|subtype| subtype.to_str().ok());
            let special = subtype.is_some_and(|subtype| subtype != "DRAM");
            let cpus = node
                .cpuset()
                .and_then(|cpus| cpus.weight())
                .unwrap_or(usize::MAX);
            (special, cpus, os_index(node))
        });
        Self {
            by_preference: nodes,
        }
    }

    fn of_cpu(&self, cpu: u32) -> u32 {
        let is_local =
            |node: &&TopologyObject| node.cpuset().is_some_and(|cpus| cpus.is_set(cpu as usize));
        self.by_preference
            .iter()
            .copied()
            .find(is_local)
            .and_then(os_index)
            .unwrap_or(0)
    }
}
