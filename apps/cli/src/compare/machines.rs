//! The table of machines in `results/README.md`, from the reports that lie beside it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::check;
use crate::bench::report::{Report, Strategy, file};

/// Between these lines the table stands.
const BEGINS: &str = "<!-- machines: written by chiplet compare --table -->";
const ENDS: &str = "<!-- end of machines -->";

/// The text of `readme` with its table made anew.
///
/// # Errors
/// If it cannot be read or lacks the two markers, or a report beside it cannot be read.
pub(super) fn renewed(readme: &Path) -> anyhow::Result<String> {
    let name = readme.display();
    let text = std::fs::read_to_string(readme).with_context(|| format!("{name} cannot be read"))?;
    let parts = text.split_once(BEGINS).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(ENDS)?;
        Some((before, after))
    });
    let (before, after) = parts
        .with_context(|| format!("{name} has no table: it needs the lines {BEGINS} and {ENDS}"))?;
    let folder = readme.parent().unwrap_or(Path::new("."));
    let table = table(&reports(folder)?);
    Ok(format!("{before}{BEGINS}\n\n{table}\n{ENDS}{after}"))
}

/// All reports of a folder with their names, in order of these.
fn reports(folder: &Path) -> anyhow::Result<Vec<(String, Report)>> {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| format!("{} cannot be read", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    paths.retain(|path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("json" | "html"))
    });
    paths.sort();
    let mut reports = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        ensure!(
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)),
            "{name}: give the file a name of letters, digits, dots and dashes"
        );
        reports.push((name, file::read(&path)?));
    }
    Ok(reports)
}

fn table(reports: &[(String, Report)]) -> String {
    if reports.is_empty() {
        return "No report is here yet.\n".into();
    }
    let mut table = String::from(
        "| machine | domains | workload | `ccd-aware` | placebo | misses | doubts | report |\n\
         | --- | --- | --- | --- | --- | --- | --: | --- |\n",
    );
    for (name, report) in reports {
        table += &row(name, report);
    }
    table
}

fn row(name: &str, report: &Report) -> String {
    let (machine, workload) = (&report.machine, &report.workload);
    let mut cpu = plain(&machine.cpu);
    if machine.hypervisor.is_some() {
        cpu += ", virtual";
    }
    let found = check::check(report);
    let cells = [
        format!("{cpu}, {} cores", machine.cores),
        format!("{} by {}", machine.domains, plain(&machine.level)),
        format!(
            "{} {} tables of {} x {}, {}",
            workload.tables,
            plain(&workload.kind),
            workload.rows,
            workload.dims,
            plain(&workload.arrivals)
        ),
        throughput(report, "ccd-aware"),
        throughput(report, "placebo"),
        misses(report),
        (found.missing.len() + found.doubtful.len()).to_string(),
        format!(
            "[{}]({name})",
            plain(report.date.get(..10).unwrap_or(&report.date))
        ),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// A stranger's text as words of a cell: nothing in it is Markdown or HTML.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for char in text.chars() {
        match char {
            '|' | '`' | '\\' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '#' | '~' => {
                plain.push_str(&format!("&#{};", u32::from(char)));
            }
            char if char.is_control() => plain.push(' '),
            char => plain.push(char),
        }
    }
    plain
}

fn find<'a>(report: &'a Report, name: &str) -> Option<&'a Strategy> {
    let mut strategies = report.strategies.iter();
    strategies.find(|strategy| strategy.name == name)
}

/// Throughput against the first strategy's, with its range.
fn throughput(report: &Report, name: &str) -> String {
    match (report.strategies.first(), find(report, name)) {
        (Some(first), Some(strategy)) if first.name != name => {
            let [low, high] = strategy.ratio_spread.throughput;
            format!(
                "{:.2} ({low:.2}-{high:.2}) of {}",
                strategy.ratio_to_first.throughput,
                plain(&first.name)
            )
        }
        _ => "-".into(),
    }
}

/// Misses a query under `ccd-aware` against those under the first strategy.
fn misses(report: &Report) -> String {
    let of = |strategy: &Strategy| strategy.counters.as_ref()?.llc_misses;
    let first = report.strategies.first();
    let pair = first
        .and_then(of)
        .zip(find(report, "ccd-aware").and_then(of));
    match pair {
        Some((first, ours)) if first > 0.0 => format!("{:.2}", ours / first),
        _ => "not counted".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::fixture;

    #[test]
    fn a_strangers_text_is_no_markdown() {
        let mut report = fixture::report(2);
        report.machine.cpu = "x\n<!-- end of machines -->[y](https://z)|**<b>".to_owned();
        let row = row("a.json", &report);
        assert_eq!(row.matches('\n').count(), 1, "{row}");
        for bad in ["<", "](https", "**", "|x"] {
            assert!(!row.contains(bad), "{bad} in {row}");
        }
    }

    const README: &str = "# Machines\n\n<!-- machines: written by chiplet compare --table -->\nold\n<!-- end of machines -->\n\nAfter.\n";

    #[test]
    fn a_table_has_a_row_for_each_report_and_the_rest_of_the_page_stays() {
        let folder = tempfile::tempdir().unwrap();
        let readme = folder.path().join("README.md");
        std::fs::write(&readme, README).unwrap();
        let none = renewed(&readme).unwrap();
        assert!(none.contains("No report is here yet."), "{none}");
        assert!(
            none.starts_with("# Machines\n") && none.ends_with("\nAfter.\n"),
            "{none}"
        );
        assert!(!none.contains("old"), "{none}");

        let report = fixture::report(2);
        let file = folder.path().join("epyc-9654.json");
        std::fs::write(&file, serde_json::to_string(&report).unwrap()).unwrap();
        let page = crate::bench::report::html::page(&report);
        std::fs::write(folder.path().join("other.html"), page).unwrap();
        let one = renewed(&readme).unwrap();
        let rows: Vec<_> = one
            .lines()
            .filter(|line| line.contains("EPYC 9654"))
            .collect();
        assert_eq!(rows.len(), 2, "{one}");
        assert!(rows[0].contains("[2026-11-21](epyc-9654.json)"), "{one}");
        assert!(rows[0].contains("of global-steal"), "{one}");
        // What was written once is written again alike.
        std::fs::write(&readme, &one).unwrap();
        assert_eq!(renewed(&readme).unwrap(), one);
    }

    #[test]
    fn a_page_without_markers_and_a_file_that_is_no_report_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let readme = folder.path().join("README.md");
        std::fs::write(&readme, "# Machines\n").unwrap();
        assert!(
            renewed(&readme)
                .unwrap_err()
                .to_string()
                .contains("has no table")
        );
        std::fs::write(&readme, README).unwrap();
        std::fs::write(folder.path().join("x.json"), "{}").unwrap();
        assert!(renewed(&readme).unwrap_err().to_string().contains("x.json"));
    }

    #[test]
    fn the_table_in_results_is_that_of_its_files() {
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/README.md");
        // The crate alone, as it is published, has no results.
        if !readme.exists() {
            return;
        }
        let text = std::fs::read_to_string(&readme).unwrap();
        assert_eq!(
            text,
            renewed(&readme).unwrap(),
            "run chiplet compare --table results/README.md"
        );
    }
}
