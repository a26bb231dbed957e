//! `--workload`: the simulator's workloads, whose tables are built here and asked for real.

use anyhow::{Context as _, ensure};
use chiplet_index::RowFormat;
use chiplet_sim::{Recipe, Table, Topics, Workload};
use chiplet_workload::dataset::{Clusters, VectorSet, about};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::arguments::Arguments;
use super::machine;

/// Vectors and queries that are drawn for one table, and the queries.
pub(super) struct Drawn {
    pub(super) rows: VectorSet,
    pub(super) queries: VectorSet,
}

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

/// What [`Recipe::open`] was given, for the report: the file's text, or the name of a built-in workload.
pub(super) fn text(arguments: &Arguments) -> Option<String> {
    let name = arguments.workload.as_ref()?;
    match Recipe::built_in(name) {
        Some(_) => Some(name.clone()),
        None => std::fs::read_to_string(name).ok(),
    }
}

/// What only the simulator can do.
fn check(workload: &Workload) -> anyhow::Result<()> {
    let plain = workload.asking.is_plain();
    let tasks = workload
        .tables
        .iter()
        .any(|table| matches!(table, Table::Task { .. }));
    ensure!(
        plain && !tasks,
        "tasks, and tables with clients or terms of their own, are simulated alone (chiplet simulate --workload): leave \
         out kind = \"task\", asks, stalls, weight, queue_limit, home, class and deadline_ms"
    );
    for table in &workload.tables {
        ensure!(
            !matches!(
                table,
                Table::Graph {
                    scoring: Some(_),
                    ..
                }
            ),
            "a ranking model (scoring) is simulated alone, or measured by chiplet bench --modes --model ranking"
        );
        ensure!(
            !matches!(table, Table::Lists { .. }) || cfg!(feature = "faiss"),
            "inverted lists need a chiplet that was built with --features faiss"
        );
        ensure!(
            table_rows(table) >= 2,
            "a table has {} rows: give a larger --size",
            table_rows(table)
        );
    }
    let bytes: u64 = workload.tables.iter().map(need).sum();
    if let Some(memory) = machine::memory() {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        ensure!(
            bytes < memory / 10 * 8,
            "building {} tables takes about {:.1} GiB and the machine has {:.1}: give a smaller --size or fewer --tables",
            workload.tables.len(),
            gib(bytes),
            gib(memory)
        );
    }
    Ok(())
}

/// Bytes that building a table takes: its rows as they are drawn, and the table.
fn need(table: &Table) -> u64 {
    table.bytes() + table_rows(table) * u64::from(table.dim()) * 4
}

pub(super) fn table_rows(table: &Table) -> u64 {
    match *table {
        Table::Graph { rows, .. } | Table::Lists { rows, .. } => rows,
        Table::Task { .. } => 0,
    }
}

/// Vectors of a table around random centres, and queries that are none of them: some near the centres of `topics`.
pub(super) fn draw(
    (table, number): (&Table, usize),
    (queries, topics): (usize, Option<Topics>),
    seed: u64,
) -> Drawn {
    let centres = topics.map_or(0, |topics| topics.count as usize);
    let rows = table_rows(table) as usize;
    let seed = seed ^ ((number as u64 + 1) << 20);
    let drawn = VectorSet::clusters(&Clusters {
        rows: rows + queries + centres,
        dim: table.dim() as usize,
        seed,
        ..Clusters::default()
    });
    let (rest, asked) = drawn.hold_out(queries + centres);
    Drawn {
        rows: rest,
        queries: match topics {
            None => asked,
            Some(topics) => of_topics(&asked, queries, topics, seed),
        },
    }
}

/// The first `queries` of `drawn`, of which a part is about topics; the vectors after them are the topics' centres.
fn of_topics(drawn: &VectorSet, queries: usize, topics: Topics, seed: u64) -> VectorSet {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut values = Vec::with_capacity(queries * drawn.dim());
    for query in 0..queries {
        let own = drawn.row(query);
        let centre = queries + random.random_range(0..topics.count) as usize;
        match random.random_bool(topics.share) {
            true => values.extend(about(drawn.row(centre), own, topics.spread as f32)),
            false => values.extend_from_slice(own),
        }
    }
    VectorSet::new(values, drawn.dim()).expect("as many components as those drawn")
}

/// How a graph keeps its rows, the second time too.
pub(super) fn formats(table: &Table) -> (RowFormat, Option<RowFormat>) {
    (table.rows_as(), table.rerank().map(|rerank| rerank.rows_as))
}

/// The part of a Faiss description that says how lists keep rows.
pub(super) fn faiss_rows(format: RowFormat) -> &'static str {
    match format {
        RowFormat::F16 => "SQfp16",
        RowFormat::Bf16 => "SQbf16",
        RowFormat::Sq8 => "SQ8",
        _ => "Flat",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(text: &str) -> Workload {
        let recipe: Result<Recipe, _> = text.parse();
        recipe
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .workload(1)
    }

    #[test]
    fn what_only_the_simulator_can_do_is_named() {
        for (text, named) in [
            ("kind='task'\nmicros=5", "simulate"),
            ("kind='hnsw'\nrows=[50,50]\ndims=[8]\nweight=2.0", "weight"),
            (
                "kind='hnsw'\nrows=[50,50]\ndims=[8]\nscoring={candidates=10,feature_bytes=8,micros=1.0}",
                "ranking",
            ),
            ("kind='hnsw'\nrows=[1,1]\ndims=[8]", "--size"),
            (
                "kind='hnsw'\nrows=[4_000_000_000,4_000_000_000]\ndims=[256]",
                "smaller --size",
            ),
        ] {
            let text = format!("name='a'\n[[tables]]\ncount=1\n{text}");
            let error = check(&workload(&text)).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn queries_of_topics_are_nearer_each_other_than_others() {
        let text = "name='a'\n[[tables]]\nkind='hnsw'\ncount=1\nrows=[50,50]\ndims=[64]";
        let tables = workload(text).tables;
        let topics = Topics {
            share: 1.0,
            count: 1,
            spread: 0.2,
        };
        let far = |drawn: &Drawn| -> f32 {
            let pairs = drawn.queries.row(0).iter().zip(drawn.queries.row(1));
            pairs.map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let anywhere = draw((&tables[0], 0), (10, None), 1);
        let near = draw((&tables[0], 0), (10, Some(topics)), 1);
        assert_eq!((near.rows.len(), near.queries.len()), (50, 10));
        assert!(far(&near) * 10.0 < far(&anywhere));
        let other = draw((&tables[0], 1), (10, None), 1);
        assert_ne!(other.queries.row(0), anywhere.queries.row(0));
    }
}
