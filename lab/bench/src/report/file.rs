//! A report from the file that `chiplet bench` wrote: JSON, or the page, which carries it.

use std::path::Path;

use anyhow::{Context as _, bail};

use super::Report;

/// Reads a report of this version.
///
/// # Errors
/// If the file cannot be read, is neither JSON nor such a page, or lacks a field; the message names file and field.
pub fn read(path: &Path) -> anyhow::Result<Report> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
    let json = match data_in(&text) {
        Some(json) => json,
        None if text.trim_start().starts_with('{') => &text,
        None => bail!(
            "{name} is no report: give a file that chiplet bench --json or --report has written"
        ),
    };
    let mut json = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut json).with_context(|| {
        format!(
            "{name} is no report of this version ({}): run chiplet bench again",
            env!("CARGO_PKG_VERSION")
        )
    })
}

/// How the block of JSON in a page begins.
pub const DATA: &str = "<script id=\"chiplet-bench\" type=\"application/json\">";
/// And how it ends.
pub const DATA_ENDS: &str = "</script>";

/// The JSON in a page of `chiplet bench --report`.
pub fn data_in(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(DATA)?;
    Some(rest.split_once(DATA_ENDS)?.0)
}
