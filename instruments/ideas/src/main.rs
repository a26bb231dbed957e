//! What ideas would give that the executor does not have: the tables of `results/ideas.md`, all modelled.
//!
//! `cargo run --release -p chiplet-ideas -- regions` (or `near`, `together`, `budgets`, `stop`). Ratios are
//! to `ccd-aware` as it is, on a Genoa of 12 CCDs: the middle, least and most of three seeds. `--queries N` counts so
//! many in each run, `--case TEXT` runs the cases with that in their names alone. `--rows-as F` and `--rerank F` keep rows so, in
//! the cases whose tables can.

mod lists;
mod near;
mod runs;
mod stop;

use chiplet_sim::{Budgets, Ideas, Machine, Recipe};
use runs::{Case, Counted, Try, compare};

const USAGE: &str = "usage: ideas regions|near|together|budgets|stop [--queries N] [--case TEXT] \
    [--rows-as f32|f16|bf16|sq8|sq4] [--rerank f32|f16|bf16|sq8]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [idea, options @ ..] = &arguments[..] else {
        return Err(USAGE.into());
    };
    let mut counted = Counted::default();
    for option in options.chunks(2) {
        match *option {
            ["--queries", queries] => counted.queries = queries.parse()?,
            ["--case", name] => counted.case = name.to_owned(),
            ["--rows-as", format] => counted.rows_as = Some(format.parse()?),
            ["--rerank", format] => counted.rerank = Some(format.parse()?),
            _ => return Err(USAGE.into()),
        }
    }
    match *idea {
        "regions" => regions(&counted),
        "near" => near::print(),
        "together" => {
            together(&counted);
            Ok(())
        }
        "budgets" => budgets(&counted),
        "stop" => stop::run(&counted),
        _ => Err(USAGE.into()),
    }
}

/// A table of eight L3s.
const ONE_GRAPH: &str = "name = 'one graph'\nquery_skew = 0.8\n[[tables]]\nkind = 'hnsw'\ncount = 1\n\
    rows = [400_000, 400_000]\ndims = [96]\nk = [100]\nm = 32";
const ONE_IVF: &str = "name = 'one ivf'\nquery_skew = 0.8\n[[tables]]\nkind = 'ivf'\ncount = 1\n\
    rows = [500_000, 500_000]\ndims = [128]";

/// Queries of tables that are not scaled: so many that a region's are not known by heart.
const RECORDINGS: usize = 6_000;

/// The same with the recorded lists themselves, so that which lists queries share is not scaled.
const FEW_LISTS: &str = "name = 'few lists'\nquery_skew = 0.8\n[[tables]]\nkind = 'ivf'\ncount = 1\n\
    rows = [500_000, 500_000]\ndims = [128]\nlists = 128\nprobes = 8";

/// A graph of as many rows as are recorded, so that nothing of it is scaled: 12 caches of 4 MiB.
const RECORDED: &str = "name = 'recorded'\nquery_skew = 0.8\n[[tables]]\nkind = 'hnsw'\ncount = 1\n\
    rows = [65_536, 65_536]\ndims = [128]\nk = [20]\nm = 32";

fn regions(counted: &Counted) -> Result<(), Box<dyn std::error::Error>> {
    let recorded = Case {
        machine: Machine::preset_with("genoa-9654", Some(4 << 20))?,
        recorded: RECORDINGS,
        ..Case::new(
            "one graph of 12 L3s of 4 MiB, as recorded",
            RECORDED.parse()?,
        )
    };
    let few_lists = Case {
        recorded: RECORDINGS,
        ..Case::new("the same, 128 lists, as recorded", FEW_LISTS.parse()?)
    };
    let cases = [
        Case::new("one graph of 8 L3s", ONE_GRAPH.parse()?),
        Case::new("one IVF table of 8 L3s", ONE_IVF.parse()?),
        few_lists,
        recorded,
        Case::paper("ivf x 0.02, 50 % to one", "paper-ivf", 0.02).hot(0.5),
        Case::paper("ivf x 0.02, 90 % to one", "paper-ivf", 0.02).hot(0.9),
        Case::paper("hnsw x 0.02, 50 % to one", "paper-hnsw", 0.02).hot(0.5),
        Case::paper("hnsw x 0.02, 90 % to one", "paper-hnsw", 0.02).hot(0.9),
        Case::paper("paper-ivf", "paper-ivf", 1.0),
    ];
    let tries = [12, 36].map(|regions| {
        let ideas = Ideas {
            regions,
            ..Ideas::default()
        };
        Try::new(format!("{regions} regions"), ideas)
    });
    compare(&cases, &tries, counted);
    Ok(())
}

fn together(counted: &Counted) {
    let cases = [
        Case::paper("paper-ivf", "paper-ivf", 1.0),
        Case::paper("paper-ivf, 90 % to one", "paper-ivf", 1.0).hot(0.9),
        Case::paper("ivf x 0.1", "paper-ivf", 0.1),
        Case::paper("ivf x 0.02", "paper-ivf", 0.02),
    ];
    let tries = [4, 16, 64].map(|together| {
        let ideas = Ideas {
            together,
            ..Ideas::default()
        };
        Try::new(format!("up to {together}"), ideas)
    });
    compare(&cases, &tries, counted);
}

/// Graphs that caches hold beside lists that none holds.
const MIXED: &str = "name = 'mixed'\ntable_skew = 0.8\nquery_skew = 0.8\n\
    [[tables]]\nkind = 'hnsw'\ncount = 36\nrows = [4_000, 40_000]\ndims = [64, 96, 128]\nk = [50]\nm = 32\n\
    [[tables]]\nkind = 'ivf'\ncount = 6\nrows = [200_000, 2_000_000]\ndims = [64, 96, 128]";

fn budgets(counted: &Counted) -> Result<(), Box<dyn std::error::Error>> {
    let cases = [
        Case::paper("paper-ivf", "paper-ivf", 1.0),
        Case::paper("ivf x 0.02", "paper-ivf", 0.02),
        Case::new("graphs beside lists", MIXED.parse::<Recipe>()?),
        Case::paper("hnsw x 0.002", "paper-hnsw", 0.002),
    ];
    let kept = [
        "time",
        "cache",
        "link",
        "time, cache",
        "time, link",
        "cache, link",
    ];
    let tries = kept.map(|kept| {
        let budgets = Budgets {
            time: kept.contains("time"),
            cache: kept.contains("cache"),
            link: kept.contains("link"),
        };
        let ideas = Ideas {
            budgets,
            ..Ideas::default()
        };
        Try::new(kept, ideas)
    });
    compare(&cases, &tries, counted);
    Ok(())
}
