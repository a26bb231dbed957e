//! A comparison as a page: bars for the medians, a dot for each run.

use chiplet_caches::spread::Spread;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::table::{by_strategy, parts};
use chiplet_caches::record::{Record, RunRecord};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;\
color:#1c2733;background:#fff}svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#1c2733}\
.bar{fill:#9db8d3}.l0{fill:#2f6fab}.l1{fill:#d99a2b}.l2{fill:#b5443c}.key{width:.8rem;height:.8rem}.small{font-size:11px}.own .bar{fill:#2f6fab}.dot{fill:#1c2733}.axis{stroke:#c5ced8}\
@media(prefers-color-scheme:dark){body{background:#14191f;color:#dde4ec}text{fill:#dde4ec}.dot{fill:#dde4ec}\
.axis{stroke:#3b4652}}";

const WIDTH: f64 = 720.0;
const NAMES: f64 = 130.0;
const VALUES: f64 = 110.0;
const ROW: f64 = 30.0;

/// A chart's title, its unit, how many digits, and what it shows of a run.
type Chart = (&'static str, &'static str, usize, fn(&RunRecord) -> f64);

const CHARTS: [Chart; 4] = [
    ("L3 misses", "a query", 0, |run| {
        run.l3_misses as f64 / run.queries as f64
    }),
    ("Throughput", "thousand queries a second", 0, |run| {
        run.modelled_qps / 1e3
    }),
    ("Latency, 99 %", "microseconds", 0, |run| {
        run.modelled_latency_us[2]
    }),
    ("Written lines from other domains", "a query", 1, |run| {
        run.lines_across as f64 / run.queries as f64
    }),
];

pub fn draw(record: &Record) -> String {
    let title = format!("Strategies on a modelled {}", record.machine.name);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p {
                    "All figures are modelled: the shipped executor ran on emulated caches, in modelled time. "
                    (record.machine.domains) " domains of " (record.machine.cores) " cores, "
                    (record.constants.tables) " tables of " (record.constants.rows) " x " (record.constants.dim)
                    " as " (record.constants.rows_as) ". A bar is the median of the runs, a dot is a run. "
                    "results/lab/2026-11/emulated-caches.md says what this cannot show."
                }
                (gains(record))
                @for chart in &CHARTS { (bars(record, chart)) }
            }
        }
    };
    page.into_string()
}

/// Where the lines of a query came from that its core's L2 did not have.
fn sources(run: &RunRecord) -> [f64; 3] {
    let memory = run.l3_misses.saturating_sub(run.lines_across);
    [run.l3_accesses - run.l3_misses, run.lines_across, memory]
        .map(|lines| lines as f64 / run.queries as f64)
}

const SOURCES: [&str; 3] = ["own L3", "another domain", "memory"];

/// What each part gives: a ratio of throughputs for each pair of strategies that differ in one thing, and the lines a
/// query of the one that has it.
fn gains(record: &Record) -> Markup {
    const NAMES: f64 = 325.0;
    const LINES: [f64; 2] = [510.0, 700.0];
    let groups = by_strategy(record);
    let of_strategy = |name: &str| -> [f64; 3] {
        let runs = groups.iter().find(|(strategy, _)| *strategy == name);
        let runs = runs.map_or(&[][..], |(_, runs)| runs);
        [0, 1, 2].map(|source| Spread::of(runs.iter().map(|run| sources(run)[source])).median)
    };
    let parts = parts(record);
    let most = parts.iter().flat_map(|(.., ratios)| ratios);
    let most = most.copied().fold(1.0, f64::max);
    let lines = parts
        .iter()
        .map(|(_, [of, _], _)| of_strategy(of).iter().sum());
    let lines = lines.fold(f64::MIN_POSITIVE, f64::max);
    let height = 40.0 * parts.len() as f64 + 4.0;
    let at = |ratio: f64| NAMES + (LINES[0] - 30.0 - NAMES) * ratio / most;
    html! {
        @if !parts.is_empty() {
            h2 { "What each part gives: throughput, ratio (modelled)" }
            p {
                "Beside each ratio: lines a query that missed the L2, by where they came from: "
                @for (source, name) in SOURCES.iter().enumerate() {
                    @if source > 0 { ", " }
                    svg.key viewBox="0 0 12 12" { rect class={ "l" (source) } width="12" height="12" {} } " " (name)
                }
            }
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" {
                title { "What each part gives" }
                line.axis x1=(at(1.0)) x2=(at(1.0)) y1="0" y2=(height) {}
                @for (row, (what, [of, to], ratios)) in parts.iter().enumerate() {
                    @let y = 40.0 * row as f64;
                    @let spread = Spread::of(ratios.iter().copied());
                    text x="0" y=(y + 16.0) { (what) ": " (spread.text(2)) }
                    text.small x="0" y=(y + 31.0) { (of) " to " (to) }
                    rect.bar x=(NAMES) y=(y + 8.0) height="16" rx="1.5"
                        width=(format!("{:.1}", at(spread.median) - NAMES)) {}
                    @for ratio in ratios { circle.dot cx=(format!("{:.1}", at(*ratio))) cy=(y + 16.0) r="2.5" {} }
                    @let counts = of_strategy(of);
                    @let long = |counts: &[f64]| (LINES[1] - LINES[0]) * counts.iter().sum::<f64>() / lines;
                    @for (source, count) in counts.iter().enumerate() {
                        rect class={ "l" (source) } y=(y + 8.0) height="16"
                            x=(format!("{:.1}", LINES[0] + long(&counts[..source])))
                            width=(format!("{:.1}", long(&counts[source..=source]))) {
                            title { (format!("{count:.0}")) " lines from " (SOURCES[source]) }
                        }
                    }
                }
            }
        }
    }
}

fn bars(record: &Record, (title, unit, digits, value): &Chart) -> Markup {
    let groups = by_strategy(record);
    let most = groups
        .iter()
        .flat_map(|(_, runs)| runs.iter().map(|run| value(run)));
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    let length = |value: f64| (WIDTH - NAMES - VALUES) * value / most;
    let height = ROW * groups.len() as f64 + 4.0;
    html! {
        h2 { (title) ", " (unit) " (modelled)" }
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" {
            title { (title) " by strategy" }
            @for (index, (strategy, runs)) in groups.iter().enumerate() {
                @let y = ROW * index as f64;
                @let spread = Spread::of(runs.iter().map(|run| value(run)));
                g class=(if strategy.starts_with("ccd-aware") { "own" } else { "other" }) {
                    text x="0" y=(format!("{:.1}", y + 17.0)) { (strategy) }
                    rect.bar x=(NAMES) y=(format!("{:.1}", y + 4.0)) height="16" rx="1.5"
                        width=(format!("{:.1}", length(spread.median))) {}
                    @for run in runs {
                        circle.dot cx=(format!("{:.1}", NAMES + length(value(run)))) r="2.5"
                            cy=(format!("{:.1}", y + 12.0)) {}
                    }
                    text x=(WIDTH) y=(format!("{:.1}", y + 17.0)) text-anchor="end" { (spread.text(*digits)) }
                }
            }
            line.axis x1=(NAMES) x2=(NAMES) y1="0" y2=(height) {}
        }
    }
}
