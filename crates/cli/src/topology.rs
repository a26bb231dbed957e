//! `chiplet topology`: the domains of this machine or of another one that was saved or described.

use chiplet_topology::{Domain, LevelChoice, Topology, TopologyError};
use serde::Serialize;
use std::path::PathBuf;

/// Show the machine: domains, their cores and caches, who is near whom, what may be used.
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

JSON: {\"source\", \"level\", \"reason\", \"domains\": [{\"id\", \"cache_bytes\", \"node\", \"package\",
\"cores\": [[cpu, ...], ...]}], \"worker_limit\"}; level is L3, L2, or Node, Package or Machine where no
cache is shared, and cache_bytes is 0 where the size is not known.

Exit status: 0, or 2 if the machine cannot be read.";

fn level(text: &str) -> Result<LevelChoice, TopologyError> {
    text.parse()
}

/// What is to be printed.
pub(crate) fn run(arguments: &Arguments) -> Result<String, TopologyError> {
    let machine = machine(arguments)?;
    if !arguments.json {
        return Ok(machine.describe());
    }
    let mut json = serde_json::to_string_pretty(&Json::of(&machine))
        .expect("numbers and strings always make JSON");
    json.push('\n');
    Ok(json)
}

fn machine(arguments: &Arguments) -> Result<Topology, TopologyError> {
    let Arguments {
        xml,
        sysfs,
        synthetic,
        level,
        ..
    } = arguments;
    if let Some(root) = sysfs {
        return Topology::from_sysfs(root, *level);
    }
    #[cfg(feature = "hwloc")]
    if let Some(path) = xml {
        return Topology::from_hwloc_xml(path, *level);
    } else if let Some(spec) = synthetic {
        return Topology::from_hwloc_synthetic(spec, *level);
    }
    #[cfg(not(feature = "hwloc"))]
    if xml.is_some() || synthetic.is_some() {
        return Err(TopologyError::Hwloc(
            "this chiplet was built without the feature hwloc, which --xml and --synthetic need"
                .to_owned(),
        ));
    }
    Topology::detect(*level)
}

/// The form that programs read; its fields are a promise.
#[derive(Serialize)]
struct Json<'a> {
    source: String,
    level: String,
    reason: &'a str,
    domains: Vec<JsonDomain<'a>>,
    worker_limit: usize,
}

#[derive(Serialize)]
struct JsonDomain<'a> {
    id: u32,
    cache_bytes: u64,
    node: u32,
    package: u32,
    cores: Vec<&'a [u32]>,
}

impl<'a> Json<'a> {
    fn of(machine: &'a Topology) -> Self {
        let domain = |domain: &'a Domain| JsonDomain {
            id: domain.id.0,
            cache_bytes: domain.cache_bytes,
            node: domain.node,
            package: domain.package,
            cores: domain.cores.iter().map(|core| &core.cpus[..]).collect(),
        };
        Self {
            source: machine.source().to_string(),
            level: machine.level().to_string(),
            reason: machine.reason(),
            domains: machine.domains().iter().map(domain).collect(),
            worker_limit: machine.worker_limit(),
        }
    }
}
