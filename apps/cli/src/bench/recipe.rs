//! `--workload`: the simulator's workloads, whose tables are built here and asked for real.

use anyhow::{Context as _, ensure};
use chiplet_bench::recipes::{Recipe, Table, Workload};
use chiplet_index::RowFormat;

use super::arguments::Arguments;

/// Reads the workload that `arguments` names, if any, with its tables cut to `--size` and `--tables`.
pub(super) fn read(arguments: &Arguments) -> anyhow::Result<Option<Workload>> {
    let Some(name) = &arguments.workload else {
        return Ok(None);
    };
    let recipe = Recipe::open(name).with_context(|| format!("--workload {name}"))?;
    let mut recipe = recipe.resized(arguments.size());
    if let Some(tables) = arguments.tables {
        recipe = recipe.counting(tables as usize);
    }
    let workload = recipe.workload(arguments.seed);
    check(&workload).with_context(|| format!("--workload {name}"))?;
    Ok(Some(workload))
}

/// What [`Recipe::open`] was given, for the report: the file's text without its comments, or the name of a built-in
/// workload.
pub(super) fn text(arguments: &Arguments) -> Option<String> {
    let name = arguments.workload.as_ref()?;
    match Recipe::built_in(name) {
        Some(_) => Some(name.clone()),
        None => Recipe::plain(&std::fs::read_to_string(name).ok()?),
    }
}

fn check(workload: &Workload) -> anyhow::Result<()> {
    workload.check_real()?;
    let lists = |table: &Table| matches!(table, Table::Lists { .. });
    ensure!(
        cfg!(feature = "faiss") || !workload.tables.iter().any(lists),
        "inverted lists need a chiplet that was built with --features faiss"
    );
    Ok(())
}

/// Bytes that building its tables takes: their rows as they are drawn, and the tables.
pub(super) fn need(workload: &Workload) -> u64 {
    let tables = workload.tables.iter();
    tables
        .map(|table| table.bytes() + table.rows() * u64::from(table.dim()) * 4)
        .sum()
}

/// The Faiss description of lists that keep rows so, as many as `rows` rows can be learned for.
pub(super) fn factory(lists: usize, rows: usize, format: RowFormat) -> String {
    let kept = match format {
        RowFormat::F16 => "SQfp16",
        RowFormat::Bf16 => "SQbf16",
        RowFormat::Sq8 => "SQ8",
        _ => "Flat",
    };
    format!("IVF{},{kept}", learnable(lists, rows))
}

/// Faiss wants 39 rows for each list that it learns.
pub(super) fn learnable(lists: usize, rows: usize) -> usize {
    lists.clamp(1, rows / 39 + 1)
}
