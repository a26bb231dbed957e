//! `chiplet bench --direct`: the search of one table, called in a loop without an executor.
//!
//! What a table costs by itself, for comparing tables with one another and with other libraries. A point is one value
//! of `--ef` or `--nprobe` on one number of threads. It is measured in three steps:
//!
//! 1. Once, all queries are asked on one thread, and the answers give the recall.
//! 2. In each round each searcher goes through its share of the queries once, to warm up.
//! 3. Then it goes through its whole share again and again, for at least `--duration`. Its queries a second are added
//!    to those of the others.
//!
//! Rounds go through all points, each starting with another one, so that whatever else the machine does falls on all;
//! a point's figure is its median over rounds.
//!
//! With `--cue` another program says when a round runs, so that it can measure something else in between.

mod allowed;
mod build;
mod measure;
mod show;

use std::io::{BufRead as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail, ensure};
use indicatif::{MultiProgress, ProgressBar};

use super::arguments::Arguments;
use super::dataset;
use allowed::Allowed;
use build::Built;
use chiplet_bench::output::{style, write};
use measure::{Bench, Point};

/// Builds the table, measures, and returns what goes to standard output.
pub(crate) fn run(arguments: &Arguments, stop: &AtomicBool) -> anyhow::Result<String> {
    // `--tables` is refused beside `--direct`.
    let mut arguments = arguments.clone();
    arguments.tables = Some(1);
    let options = &arguments.direct;
    if options.fit.is_none()
        && let Err((value, accepted)) = options.rows_as.check_rerank(options.rerank)
    {
        bail!("--rerank is {value}, it must be {accepted}");
    }
    let source = dataset::read(&arguments)?;
    let most = source.queries.len();
    ensure!(
        options
            .threads
            .iter()
            .all(|&threads| threads as usize <= most),
        "--threads: more searchers than the {most} queries that they share; give more --queries"
    );
    let allowed = Allowed::find(&arguments, &source)?;
    let bars = MultiProgress::new();
    let built = build::build(&arguments, &source, &bars)?;
    let mut bench = Bench::new(&arguments, &built, &source, &allowed, stop);
    if options.cue {
        answer_cues(&mut bench, &arguments, &built)?;
        return Ok(String::new());
    }
    let points = all_points(&arguments, arguments.direct_params());
    let rounds = arguments.rounds as usize;
    let bar = bars.add(ProgressBar::new((rounds * points.len()) as u64));
    bar.set_style(style("{msg} {bar:30} {pos}/{len}, {eta} left"));
    for round in 0..rounds {
        for turn in 0..points.len() {
            let point = points[(turn + round) % points.len()];
            bar.set_message(format!(
                "{} on {}",
                options.index.param(point.param),
                point.threads
            ));
            bench.measure(point)?;
            bar.inc(1);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    bar.finish_and_clear();
    let entries = show::entries(&arguments, &built, &source, &bench.results(&points));
    ensure!(!entries.is_empty(), "stopped before anything was measured");
    if let Some(path) = &arguments.json {
        write(path, &(serde_json::to_string_pretty(&entries)? + "\n"))?;
    }
    Ok(show::render(&source.name, &built, &entries))
}

/// One round for each line of standard input, of the parameters that it names, or of all if it is empty. Each is
/// answered by one line: a JSON list.
fn answer_cues(bench: &mut Bench<'_>, arguments: &Arguments, built: &Built) -> anyhow::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line.context("standard input cannot be read")?;
        let params = match line.trim() {
            "" => arguments.direct_params().to_vec(),
            list => params(list)?,
        };
        let points = all_points(arguments, &params);
        for &point in &points {
            bench.measure(point)?;
        }
        let entries = show::entries(arguments, built, bench.source(), &bench.results(&points));
        bench.forget();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&entries)?)
            .and_then(|()| out.flush())
            .context("the answer to a cue cannot be written")?;
    }
    Ok(())
}

/// Parameters of a cue.
fn params(list: &str) -> anyhow::Result<Vec<u32>> {
    let number = |text: &str| text.trim().parse().ok().filter(|&number: &u32| number > 0);
    let numbers: Option<Vec<u32>> = list.split(',').map(number).collect();
    numbers.with_context(|| {
        format!("the cue {list:?} is no list of parameters: give numbers above 0, as 20,40, or an empty line")
    })
}

/// Each parameter on each number of threads.
fn all_points(arguments: &Arguments, params: &[u32]) -> Vec<Point> {
    let on = |param| {
        let threads = arguments.direct.threads.iter();
        threads.map(move |&threads| Point { param, threads })
    };
    params.iter().copied().flat_map(on).collect()
}
