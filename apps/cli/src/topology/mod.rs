//! `chiplet topology`: the domains of this machine or of another one that was saved or described.

mod copy;
mod memory;
mod probe;

use chiplet_topology::{
    Domain, DomainList, DomainsError, LevelChoice, NumaMemory, ReadOptions, Topology, TopologyError,
};
use serde::Serialize;
use std::path::PathBuf;

/// Show the machine: domains, their cores and caches, who is near whom, what may be used, memory by NUMA node.
///
/// A domain is a set of cores that share a last-level cache (a CCD, or a CCX where a CCD holds two). By
/// default this machine is shown, as far as the cpuset, the affinity mask and the CPU quota let this
/// process use it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Show the machine in this hwloc XML file (made by: lstopo machine.xml)
    #[arg(long, value_name = "FILE", group = "machine")]
    xml: Option<PathBuf>,

    /// Show the machine whose saved /sys and /proc are below DIR (made by: hwloc-gather-topology, unpacked)
    #[arg(long, value_name = "DIR", group = "machine")]
    sysfs: Option<PathBuf>,

    /// Show a machine that an hwloc synthetic description makes up
    #[arg(long, value_name = "SPEC", group = "machine")]
    synthetic: Option<String>,

    /// The cache that makes a domain. auto takes the outermost one that splits the machine into parts
    /// of several cores; l3 and l2 are taken even if there is only one, or one per core
    #[arg(long, value_name = "LEVEL", default_value = "auto", value_parser = clap::builder::ValueParser::new(level))]
    level: LevelChoice,

    /// The domains, where the system does not tell them or tells them wrong. A comma stands between domains and a plus
    /// between ranges of one domain: 0-7,8-15 or, with second cpus of cores, 0-7+16-23,8-15+24-31
    #[arg(long, value_name = "LIST", conflicts_with = "level", value_parser = clap::builder::ValueParser::new(domains))]
    domains: Option<DomainList>,

    /// Whether the machine is virtual: then L3s that hypervisors make up are not believed. Without it as the
    /// processor's flag `hypervisor` says; --xml and --synthetic do not tell
    #[arg(long, value_name = "YES|NO", value_parser = clap::builder::ValueParser::new(yes_or_no))]
    virtual_machine: Option<bool>,

    /// Measure which cores of this machine are near each other, draw it, and propose domains. Keeps two cores busy at a
    /// time, for a second or two and at most 20 s; changes nothing and needs no rights
    #[arg(long, conflicts_with_all = ["machine", "domains"])]
    probe: bool,

    /// Measure what it takes to have memory on another NUMA node: 16 MiB to 2.5 GiB, copied into small and into huge
    /// pages, and moved by the kernel; between the first two nodes, both ways, or on one node from it to itself. Takes
    /// half a minute to two, one core, and at most half of the memory that is free; changes nothing and needs no rights
    #[arg(long, conflicts_with_all = ["machine", "domains", "probe"])]
    copy: bool,

    /// With --copy: no more than so many MiB at a time
    #[arg(long, value_name = "MIB", requires = "copy", value_parser = clap::value_parser!(u64).range(16..))]
    copy_up_to: Option<u64>,

    /// Write JSON for a program instead of text for a person
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  chiplet topology                          this machine
  chiplet topology --level l2               this machine, by its level-2 caches
  chiplet topology --json | jq .domains     for a program
  chiplet topology --xml epyc.xml           another machine, saved by lstopo
  chiplet topology --synthetic 'package:2 l3:6(size=32MiB) core:8 pu:2'
  chiplet topology --probe                  measure which cores are near each other
  chiplet topology --domains 0-7,8-15       this machine with these two domains
  chiplet topology --copy                   measure what copying and moving memory between NUMA nodes takes

JSON: {\"source\", \"level\", \"reason\", \"domains\": [{\"id\", \"cache_bytes\", \"node\", \"package\",
\"cores\": [[cpu, ...], ...], \"speed\"}], \"worker_limit\", \"warnings\", \"memory\": [{\"node\", \"total_bytes\",
\"free_bytes\"}], \"numa_balancing\"}; level is L3, L2, or Node, Package or Machine where no cache is shared, or Given;
cache_bytes is 0 where the size is not known; speed is what one core does, 1.0 being the fastest of the machine;
free_bytes counts file cache that no process has mapped, less a part for the kernel; memory is empty where it is not
known (--xml, --synthetic); numa_balancing is whether automatic NUMA balancing is on, or null.
With --probe: {\"finding\", \"domains\", \"cpus\", \"nanoseconds\": [[number or null, ...], ...]}; finding is domains,
alike, too few, too noisy or unfinished, and domains is what to give to --domains.
With --copy: {\"copies\": [{\"from\", \"to\", \"bytes\", \"small\", \"huge\", \"huge_share\", \"moved\"}], \"left_out\":
[{\"from\", \"to\", \"bytes\"}], \"notes\"}; small, huge and moved are {\"milliseconds\", \"gb_per_s\"}; huge_share is how
much of the copy lies in huge pages, of 1; moved is null where nothing was moved; left_out is what has no room.

Exit status: 0, or 2 if the machine cannot be read or has too little free memory to copy.";

fn level(text: &str) -> Result<LevelChoice, TopologyError> {
    text.parse()
}

fn domains(text: &str) -> Result<DomainList, DomainsError> {
    text.parse()
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("say yes or no".to_owned()),
    }
}

/// What is to be printed.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let mut machine = machine(arguments)?;
    if arguments.probe {
        return Ok(probe::run(&machine, arguments.json)?);
    }
    if arguments.copy {
        return copy::run(&machine, arguments.copy_up_to, arguments.json);
    }
    if let Some(domains) = &arguments.domains {
        machine = machine.with_domains(domains)?;
    }
    let memory = memory::of(&machine);
    if !arguments.json {
        return Ok(machine.to_string() + &memory::lines(&memory));
    }
    let mut json = serde_json::to_string_pretty(&Json::of(&machine, &memory))
        .expect("numbers and strings always make JSON");
    json.push('\n');
    Ok(json)
}

fn machine(arguments: &Arguments) -> anyhow::Result<Topology> {
    let Arguments {
        xml,
        sysfs,
        synthetic,
        level,
        virtual_machine,
        ..
    } = arguments;
    let mut options = ReadOptions::from(*level);
    if let Some(is_virtual) = virtual_machine {
        options = options.virtual_machine(*is_virtual);
    }
    if let Some(root) = sysfs {
        return Ok(Topology::from_sysfs(root, options)?);
    }
    #[cfg(feature = "hwloc")]
    if let Some(path) = xml {
        return Ok(chiplet_bench::hwloc::from_xml(path, options)?);
    } else if let Some(spec) = synthetic {
        return Ok(chiplet_bench::hwloc::from_synthetic(spec, options)?);
    }
    #[cfg(not(feature = "hwloc"))]
    if xml.is_some() || synthetic.is_some() {
        anyhow::bail!(
            "this chiplet was built without the feature hwloc, which --xml and --synthetic need"
        );
    }
    Ok(Topology::detect(options)?)
}

/// The form that programs read; its fields are a promise.
#[derive(Serialize)]
struct Json<'a> {
    source: String,
    level: String,
    reason: &'a str,
    domains: Vec<JsonDomain<'a>>,
    worker_limit: usize,
    warnings: Vec<String>,
    memory: Vec<memory::Json>,
    numa_balancing: Option<bool>,
}

#[derive(Serialize)]
struct JsonDomain<'a> {
    id: u32,
    cache_bytes: u64,
    node: u32,
    package: u32,
    cores: Vec<&'a [u32]>,
    speed: f64,
}

impl<'a> Json<'a> {
    fn of(machine: &'a Topology, memory: &NumaMemory) -> Self {
        let domain = |domain: &'a Domain| JsonDomain {
            id: domain.id.0,
            cache_bytes: domain.cache_bytes,
            node: domain.node,
            package: domain.package,
            cores: domain.cores.iter().map(|core| &core.cpus[..]).collect(),
            speed: domain.speed(),
        };
        Self {
            source: machine.source().to_string(),
            level: machine.level().to_string(),
            reason: machine.reason(),
            domains: machine.domains().iter().map(domain).collect(),
            worker_limit: machine.worker_limit(),
            warnings: machine.warnings().iter().map(ToString::to_string).collect(),
            memory: memory::Json::of(memory),
            numa_balancing: memory.balancing(),
        }
    }
}
