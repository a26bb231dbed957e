//! `chiplet compare`: two runs of `chiplet bench` side by side.
//!
//! What differs in the machine and in the workload comes first: a ratio of two runs means something only where those
//! are alike. Ratios to each run's own first strategy can be compared across machines.

mod counters;
mod differences;
mod text;

use std::path::{Path, PathBuf};

use crate::bench::report::file::read;

/// Put two runs of chiplet bench side by side: what differs in the machine, then the figures with their spread.
///
/// Reads what chiplet bench writes with --json or --report; a page carries its figures.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run to compare with
    #[arg(value_name = "A.json|A.html")]
    first: PathBuf,

    /// The run that is compared
    #[arg(value_name = "B.json|B.html")]
    second: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  chiplet compare before.json after.json         the same machine, before a change and after it
  chiplet compare genoa.html turin.html          two machines: look at the ratios to each run's first strategy

\"no clear difference\" says that the ranges of the two runs' rounds overlap. The range of a few rounds is narrow by
chance now and then: repeat both runs before you believe a small difference.
Exit status: 0; 2 if a file cannot be read or is no report.";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let first = read(&arguments.first)?;
    let second = read(&arguments.second)?;
    Ok(text::render(
        (&name(&arguments.first), &first),
        (&name(&arguments.second), &second),
    ))
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
