//! The tables of a run in a folder: built once by the command, read by each of its instances into memory of its own.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::super::arguments::{Arguments, Graph};
use super::super::tables::{BuiltTable, Tables};
use super::ranking;
use crate::modes::Model;

/// What is said of one table beside its file.
#[derive(Serialize, Deserialize)]
struct Kept {
    name: String,
    graph: bool,
}

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
    let mut list = Vec::new();
    for (number, table) in tables.all.iter().enumerate() {
        table.save(&file(folder, number, "table"))?;
        if arguments.modes.at.model == Model::Ranking {
            let rows = table.index(Graph::Own).len();
            let path = file(folder, number, "features");
            ranking::save_features(&path, rows, arguments.seed ^ number as u64)?;
        }
        list.push(Kept {
            name: table.name.clone(),
            graph: tables.is_graph(number),
        });
    }
    let text = serde_json::to_string(&list)?;
    Ok(std::fs::write(folder.join("tables.json"), text)?)
}

/// Reads what [`save`] wrote.
pub(super) fn load(folder: &Path, arguments: &Arguments) -> anyhow::Result<Vec<BuiltTable>> {
    let text = std::fs::read_to_string(folder.join("tables.json"))?;
    let list: Vec<Kept> = serde_json::from_str(&text)?;
    let tables = list.into_iter().enumerate();
    let one = |(number, Kept { name, graph })| {
        let failed = format!("table {name} was not read");
        let path = file(folder, number, "table");
        let table = BuiltTable::load(name, &path, graph, |inner| match arguments.modes.at.model {
            Model::Search => Ok(inner.into()),
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
