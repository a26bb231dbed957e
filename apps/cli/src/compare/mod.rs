//! `chiplet compare`: two runs of `chiplet bench` side by side.
//!
//! What differs in the machine and in the workload comes first: a ratio of two runs means something only where those
//! are alike. Ratios to each run's own first strategy can be compared across machines.

mod check;
mod counters;
mod differences;
mod machines;
mod pairs;
mod text;

#[cfg(test)]
pub(crate) use check::render as checked;

use std::path::{Path, PathBuf};

use crate::bench::report::file::read;

/// Put two runs of chiplet bench side by side: what differs in the machine, then the figures with their spread.
///
/// Reads what chiplet bench writes with --json or --report; a page carries its figures.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run to compare with
    #[arg(value_name = "A.json|A.html", required_unless_present_any = ["check", "table"])]
    first: Option<PathBuf>,

    /// The run that is compared
    #[arg(value_name = "B.json|B.html", required_unless_present_any = ["check", "table"])]
    second: Option<PathBuf>,

    /// Say instead what is missing from these reports and what in them is doubtful, before they are sent to others
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["first", "second"])]
    check: Vec<PathBuf>,

    /// Write the table of machines in this page anew, from the reports in its folder
    #[arg(long, value_name = "README.md", conflicts_with_all = ["first", "second", "check"])]
    table: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  chiplet compare before.json after.json         the same machine, before a change and after it
  chiplet compare genoa.html turin.html          two machines: look at the ratios to each run's first strategy
  chiplet compare --check bench.html             is it fit to be sent?

\"no clear difference\" says that the ranges of the two runs' rounds overlap. The range of a few rounds is narrow by
chance now and then: repeat both runs before you believe a small difference.
Exit status: 0, whatever --check has found; 2 if a file cannot be read or is no report.";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<String> {
    if let Some(readme) = &arguments.table {
        let text = machines::renewed(readme)?;
        chiplet_bench::output::write(readme, &text)?;
        return Ok(String::new());
    }
    if !arguments.check.is_empty() {
        let texts = arguments.check.iter().map(|path| {
            let report = read(path)?;
            Ok(check::render(&name(path), &report))
        });
        return texts.collect();
    }
    let (Some(one), Some(other)) = (&arguments.first, &arguments.second) else {
        unreachable!("clap asks for both");
    };
    let (first, second) = (read(one)?, read(other)?);
    Ok(text::render((&name(one), &first), (&name(other), &second)))
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
