//! The HTML report: one self-contained page that someone who did not run the benchmark can read.
//!
//! Everything is in the file: style, charts as inline SVG, tables, and the report as JSON, which `chiplet compare`
//! reads. Nothing in it runs, and it refers to nothing outside. All text from the report goes through maud, which
//! escapes it. The body is well-formed XML, which the tests hold it to.

use super::chart::{self, section, tiles};
use super::{Report, file, summary, tables};
use chiplet_bench::charts::number::count;
use maud::{Markup, PreEscaped, html};

/// The whole page.
pub fn page(report: &Report) -> String {
    let summary = summary::summary(report);
    chiplet_bench::charts::page(
        &format!("{} · chiplet bench", summary.headline),
        &html! {
            (opening(report, &summary))
            (charts(report))
            (figures(report))
            (reading(report))
            (data(report))
        },
    )
}

/// The report itself, in a block of data that browsers leave alone.
fn data(report: &Report) -> Markup {
    // A report holds numbers, texts and lists alone, and maps with text keys.
    let json = serde_json::to_string(report).expect("a report is JSON");
    // Within a text, JSON allows these escapes; outside of one they do not occur.
    let json = json
        .replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e");
    PreEscaped(format!("{}{json}{}", file::DATA, file::DATA_ENDS))
}

fn opening(report: &Report, summary: &summary::Summary) -> Markup {
    let machine = &report.machine;
    let workload = &report.workload;
    let doubts = super::doubts::of(report);
    html! {
        header {
            p.kicker { "chiplet bench · " time { (report.date) } }
            h1 { (summary.headline) @if !summary.detail.is_empty() { " " span.spread { "(" (summary.detail) ")" } } }
            p.lede { @for sentence in &summary.sentences { (sentence) " " } }
            p.lede { (workload.verdict) }
            @if !summary.tiles.is_empty() {
                (tiles(summary.tiles.iter().map(|tile| (tile.figure.as_str(), tile.what.as_str(), tile.detail.as_str()))))
            }
            p.setting {
                (workload.kind) " · " (workload.tables) " tables of " (count(workload.rows as u64)) " × " (workload.dims)
                " (" (workload.data) ") · " (summary::arrivals(report)) " · " (machine.cpu) ", "
                (machine.cores) @if machine.cores == 1 { " core in " } @else { " cores in " }
                (machine.domains) " " (machine.level) @if machine.domains == 1 { " domain" } @else { " domains" }
            }
            @if !doubts.is_empty() || !report.notes.is_empty() {
                section.notes {
                    h2 { "Before you believe it" }
                    ul { @for note in doubts.iter().chain(&report.notes) { li { (note) } } }
                }
            }
        }
    }
}

fn charts(report: &Report) -> Markup {
    let Report {
        strategies,
        workload,
        ..
    } = report;
    html! {
        (section(
            "What each part gives",
            "Each row compares two strategies that differ in one thing; dots are rounds. A placebo near 1 and a placement above it \
             mean that the gain is the caches'. Beside it: cache lines that loads and software prefetches of a query brought in from beyond the L2, by where they \
             came from.",
            chart::parts::gains(strategies),
        ))
        @if !report.scaling.is_empty() {
            (section(
                "Where placement pays",
                "Above 1 a strategy is better than the blind pool.",
                chart::scaling::sizes(&report.scaling),
            ))
            (section(
                "How throughput grows with domains",
                "Each line is a strategy's throughput over its own on the fewest domains.",
                chart::scaling::domains(&report.scaling),
            ))
        }
        (section(
            "Throughput by strategy",
            "Bar: median. Dots: each round. Ratio: to the first strategy. Longer is better.",
            chart::bars::throughput(strategies),
        ))
        (section(
            "Do the rounds agree?",
            "Each dot is one round, divided by the first strategy's round of the same number; the bar is the median. \
             Dots on both sides of 1 mean that no difference was shown.",
            chart::ratios::ratios(strategies),
        ))
        (section(
            "Latency against load",
            "How long queries take as more of them are sent. Lower is better, and so is a curve that rises further right.",
            chart::load_curve::load_curve(&report.load_curve, strategies, workload),
        ))
        (section(
            "Latency within the round",
            "p99 of each tenth of the round, the median over rounds. A peak that does not fall again is a queue that grew.",
            chart::within_round::within_round(strategies, workload),
        ))
        (section(
            "Placement over time",
            "On which domain each of the busiest tables lived. Few changes mean that caches stay warm.",
            chart::placement::placement(&report.placements, workload),
        ))
        (section(
            "Steals by level",
            "From where workers took their tasks. A task from another domain finds a cache that does not hold its table.",
            chart::bars::steals(strategies),
        ))
    }
}

fn figures(report: &Report) -> Markup {
    html! {
        section {
            h2 { "All figures" }
            (tables::page(report))
        }
        section {
            h2 { "What was run, and where" }
            div.pair {
                (tables::workload(report))
                (tables::machine(&report.machine))
            }
            h3 { "Run it again" }
            pre {
                code {
                    // Whole words, so that a line never breaks inside an option.
                    @for (index, word) in report.command.split(' ').enumerate() { @if index > 0 { " " } span { (word) } }
                }
            }
        }
    }
}

fn reading(report: &Report) -> Markup {
    let first = report
        .strategies
        .first()
        .map_or("the first strategy", |strategy| strategy.name.as_str());
    html! {
        section.reading {
            h2 { "How to read this" }
            dl {
                dt { "Open loop" }
                dd {
                    "At a set rate queries are sent when they are due, whether or not earlier ones have been answered, as users "
                    "do. Saturated, as many queries are outstanding as keep every worker busy; latencies then show queueing by "
                    "design, and only ratios between strategies mean something. A closed loop, where a client waits for its "
                    "answer before it asks again, hides stalls and is there for comparison with other benchmarks only. This run: "
                    (summary::arrivals(report)) "."
                }
                dt { "Latency" }
                dd {
                    "From the time a query was meant to be sent until its answer was there. A query that is sent late because "
                    "the system was busy counts the delay, so nothing is hidden by coordinated omission. p50 is the median, "
                    "p99 the value that one query in a hundred exceeds, p99.9 one in a thousand."
                }
                dt { "Ratios" }
                dd {
                    "Strategies run in interleaved rounds within one process, on the same tables and the same queries. Each "
                    "round is divided by the round of the same number of " (first) "; the ratio is the median of those, and the "
                    "range after it is the lowest and the highest round. For throughput above 1 is better, for latency below 1."
                }
                dt { "Other words" }
                dd {
                    "A domain is a group of cores that share one cache. Recall at 10 is the share of the true ten nearest that "
                    "were found. The Jain index is 1 when every table got the same share of what was asked of it, and 1 divided by the "
                    "number of tables when one got everything. Cores busy is processor time over wall time of the whole "
                    "process, the load generator included."
                }
                dt { "What this does not show" }
                dd {
                    "Other machines: the gain depends on caches, their number and the size of the tables. Other data, indexes and "
                    "traffic than the workload above. Neighbours on the same machine, except through the load average. A network: "
                    "queries come from within the process. Building and updating tables. Runs longer than this one."
                }
            }
        }
    }
}
