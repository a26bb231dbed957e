//! Machines in hwloc's words: XML files of another machine (`from_xml`), and synthetic descriptions
//! (`from_synthetic`). For tools; a service detects its machine (`Topology::detect`) or makes one up
//! (`Topology::builder`).
//!
//! hwloc trusts what it is given: it would build a description of a billion cores, and a set that is
//! missing from an XML file ends the process. So descriptions are checked before hwloc sees them
//! (`synthetic.rs`), and files are written anew (`xml.rs`).

#![cfg(feature = "hwloc")]

mod synthetic;
mod xml;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use chiplet_topology::{ReadOptions, Topology, TopologyError, from_hwloc};

/// The XML of a large machine with all its devices is about 10 MiB.
const MAX_XML_BYTES: u64 = 64 << 20;

/// Why hwloc's file or description makes no machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HwlocError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// hwloc refused an XML file.
    #[error("{} is not an hwloc XML file that hwloc can load: {problem} (write one with: lstopo machine.xml)", path.display())]
    Xml {
        /// The file.
        path: PathBuf,
        /// What hwloc said.
        problem: String,
    },
    /// hwloc refused a synthetic description.
    #[error(
        "hwloc cannot read the synthetic description \"{spec}\": {problem} (an example: \"package:2 l3:6 core:8 pu:2\")"
    )]
    Synthetic {
        /// The description.
        spec: String,
        /// What hwloc said.
        problem: String,
    },
    /// The machine is not what it was asked to be.
    #[error(transparent)]
    Machine(TopologyError),
}

/// Reads an hwloc XML file, of format 1 or 2, as `lstopo machine.xml` writes it.
///
/// Cpus that the file says its writer was not allowed to use are taken away. Nothing of the
/// running machine counts. The file need not be trusted: one that contradicts itself is an error. A
/// pipe is read to its end.
///
/// # Errors
/// [`HwlocError::Read`] if the file cannot be read, [`HwlocError::Xml`] if hwloc cannot load
/// it, [`TopologyError::NoSuchLevel`] if the machine lacks the level that was asked for.
pub fn from_xml(
    path: impl AsRef<Path>,
    options: impl Into<ReadOptions>,
) -> Result<Topology, HwlocError> {
    let path = path.as_ref();
    let xml = read_bounded(path).map_err(|source| HwlocError::Read {
        path: path.to_owned(),
        source,
    })?;
    let problem = |problem: String| HwlocError::Xml {
        path: path.to_owned(),
        problem,
    };
    let xml = xml::sound(&xml).map_err(problem)?;
    let name = format!("hwloc XML {}", path.display());
    from_hwloc(
        |builder| builder.from_xml(&xml).map_err(|error| error.to_string()),
        name,
        options,
    )
    .map_err(|error| of_hwloc(error, problem))
}

/// Builds a machine from an hwloc synthetic description, such as `package:2 l3:6 core:8 pu:2`.
///
/// ```
/// use chiplet_topology::LevelChoice;
/// let spec = "package:1 l3:12(size=32MiB) core:8 pu:2";
/// let genoa = chiplet_hwloc::from_synthetic(spec, LevelChoice::Auto)?;
/// assert_eq!(genoa.domains().len(), 12);
/// assert_eq!(genoa.domains()[0].cache_bytes, 32 << 20);
/// # Ok::<(), chiplet_hwloc::HwlocError>(())
/// ```
///
/// # Errors
/// [`HwlocError::Synthetic`] if hwloc does not understand it, if it describes more than 8192 cpus or
/// so many objects side by side that hwloc would take very long, or if a count is not a plain decimal
/// number; [`TopologyError::NoSuchLevel`] if the machine lacks the level that was asked for.
pub fn from_synthetic(spec: &str, options: impl Into<ReadOptions>) -> Result<Topology, HwlocError> {
    let problem = |problem: String| HwlocError::Synthetic {
        spec: spec.to_owned(),
        problem,
    };
    if spec.trim().is_empty() {
        return Err(problem("it is empty".to_owned()));
    }
    synthetic::check(spec).map_err(problem)?;
    let name = format!("hwloc synthetic \"{spec}\"");
    let source = |builder: hwlocality::topology::builder::TopologyBuilder| {
        let built = builder.from_synthetic(spec);
        built.map_err(|error| error.to_string())
    };
    from_hwloc(source, name, options).map_err(|error| of_hwloc(error, problem))
}

/// What hwloc said is about the file or description; anything else about the machine in it.
fn of_hwloc(error: TopologyError, problem: impl Fn(String) -> HwlocError) -> HwlocError {
    match error {
        TopologyError::Hwloc(words) => problem(words),
        other => HwlocError::Machine(other),
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut xml = String::new();
    let file = std::fs::File::open(path)?;
    file.take(MAX_XML_BYTES).read_to_string(&mut xml)?;
    Ok(xml)
}
