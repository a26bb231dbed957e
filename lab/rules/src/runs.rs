//! Runs the suite with each variant of the rules, in processes of their own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use chiplet_bench::output::style;
use indicatif::ProgressBar;

use crate::kept::{Kept, Run};
use crate::list::List;
use crate::source;
use crate::suite::Part;
use crate::variant::Variant;

/// A variant that takes longer is given up: without some rules nothing ends.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Seeds that tell the spread of the shipped rules' figures, at least.
const SPREAD: u64 = 4;

/// The program of the copy in `folder`.
fn program(folder: &Path) -> PathBuf {
    folder.join("target/release/chiplet-rules")
}

/// Copies the sources below `root` with switches to `folder`, and builds them.
pub(crate) fn build(root: &Path, folder: &Path, list: &List) -> anyhow::Result<()> {
    let tree = folder.join("tree");
    source::copy(root, &tree, list)?;
    let built = Command::new("cargo")
        .args("build --release --locked --quiet -p chiplet-rules --target-dir".split(' '))
        .arg(std::path::absolute(folder.join("target"))?)
        .current_dir(&tree)
        // Edits are to be short, not neat.
        .env("RUSTFLAGS", "-Awarnings")
        .env(source::SWITCHED, "1")
        .status()
        .context("cargo builds the copy with switches")?;
    ensure!(
        built.success(),
        "the copy with switches does not build, as cargo says above: an edit in lab/rules/rules.toml is wrong, or {} is \
         to be removed",
        tree.display()
    );
    Ok(())
}

/// Runs what has not been run: the shipped rules first, as what a workload can reach with them is everybody's load,
/// then `jobs` variants at a time.
pub(crate) fn run(
    folder: &Path,
    part: &Part,
    variants: &[Variant],
    jobs: usize,
) -> anyhow::Result<()> {
    let kept = Kept::of(folder, part)?;
    let shipped = Variant::shipped();
    if kept.read(&shipped)?.is_none() {
        let bar = ProgressBar::new_spinner();
        bar.set_message("all rules as they are shipped, in one process");
        bar.enable_steady_tick(Duration::from_millis(200));
        one(folder, &kept, part, &shipped, "{}")?;
        bar.finish_and_clear();
    }
    let reach = kept.shipped()?.into_iter().map(|row| (row.cell, row.reach));
    let reach = serde_json::to_string(&reach.collect::<BTreeMap<_, _>>())?;
    let mut left = Vec::new();
    for variant in variants {
        if kept.read(variant)?.is_none() {
            left.push(variant);
        }
    }
    let bar = ProgressBar::new(left.len() as u64)
        .with_style(style("{bar:40} {pos}/{len} variants, {eta} left: {msg}"));
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        while let Some(variant) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            bar.set_message(variant.name.clone());
            if let Err(error) = one(folder, &kept, part, variant, &reach) {
                next.store(left.len(), Ordering::Relaxed);
                return Err(error);
            }
            if let Some(Run::Failed(why)) = kept.read(variant)? {
                bar.println(format!("{}: {why}", variant.name));
            }
            bar.inc(1);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join());
        let results = results.map(|result| result.expect("a worker reports its errors"));
        results.collect::<anyhow::Result<()>>()
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// Runs one variant and keeps what it gives, also that it does not end.
fn one(
    folder: &Path,
    kept: &Kept,
    part: &Part,
    variant: &Variant,
    reach: &str,
) -> anyhow::Result<()> {
    let seeds = match variant.is_shipped() {
        true => part.seeds.max(SPREAD),
        false => part.seeds,
    };
    let program = program(folder);
    let mut child = Command::new(&program)
        .args(["suite", "--seeds", &seeds.to_string()])
        .args(["--cells", &part.cells])
        .env("CHIPLET_RULES", &variant.switches)
        .env("CHIPLET_REACH", reach)
        .stdin(Stdio::null())
        .stdout(kept.begin(variant)?)
        .spawn()
        .with_context(|| format!("{}", program.display()))?;
    let begun = Instant::now();
    let failed = loop {
        match child.try_wait()? {
            Some(status) if status.success() => break None,
            Some(status) => break Some(format!("it ends with {status}")),
            None if begun.elapsed() > LONGEST => {
                child.kill()?;
                child.wait()?;
                break Some(format!("it takes longer than {} s", LONGEST.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    kept.end(variant, failed.as_deref())
}
