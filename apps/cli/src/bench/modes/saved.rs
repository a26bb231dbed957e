//! The tables of a run in a folder: built once by the command, read by each of its instances into memory of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::super::arguments::{Arguments, Graph};
use super::super::tables::{BuiltTable, Tables};
use super::ranking;
use chiplet_bench::modes::Model;

/// Writes all tables to `folder`, and features where the model wants them.
pub(super) fn save(folder: &Path, tables: &Tables, arguments: &Arguments) -> anyhow::Result<()> {
    write(folder, tables, arguments).with_context(|| {
        format!(
            "the tables cannot be kept in {}; TMPDIR says where to",
            folder.display()
        )
    })
}

fn write(folder: &Path, tables: &Tables, arguments: &Arguments) -> anyhow::Result<()> {
    let mut names = Vec::new();
    for (number, table) in tables.all.iter().enumerate() {
        table.save(&file(folder, number, "table"))?;
        if arguments.modes.at.model == Model::Ranking {
            let rows = table.index(Graph::Own).len();
            let path = file(folder, number, "features");
            ranking::save_features(&path, rows, arguments.seed ^ number as u64)?;
        }
        names.push(table.name.as_str());
    }
    let text = serde_json::to_string(&names)?;
    Ok(std::fs::write(folder.join("tables.json"), text)?)
}

/// Reads what [`save`] wrote.
pub(super) fn load(folder: &Path, arguments: &Arguments) -> anyhow::Result<Vec<BuiltTable>> {
    let text = std::fs::read_to_string(folder.join("tables.json"))?;
    let names: Vec<String> = serde_json::from_str(&text)?;
    let tables = names.into_iter().enumerate();
    let one = |(number, name)| {
        let failed = format!("table {name} was not read");
        let path = file(folder, number, "table");
        let table = BuiltTable::load(name, &path, |inner| match arguments.modes.at.model {
            Model::Search => Ok(Arc::new(inner)),
            Model::Ranking => {
                ranking::ranked(inner, &file(folder, number, "features"), arguments.seed)
            }
        });
        table.context(failed)
    };
    tables.map(one).collect()
}

fn file(folder: &Path, number: usize, kind: &str) -> PathBuf {
    folder.join(format!("{number}.{kind}"))
}
