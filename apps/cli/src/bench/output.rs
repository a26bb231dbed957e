//! Files that are written, and the look of progress bars.

use std::path::Path;

use anyhow::Context as _;
use indicatif::ProgressStyle;

/// Finds out whether a file can be written, and leaves none behind.
pub(crate) fn writable(path: &Path) -> anyhow::Result<()> {
    let existed = path.exists();
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    if !existed {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{} could not be written", path.display()))
}

pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates in this folder are valid")
}
