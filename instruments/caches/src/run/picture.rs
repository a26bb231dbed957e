//! A comparison as a page: bars for the medians, a dot for each run.

use chiplet_caches::spread::Spread;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::table::by_strategy;
use chiplet_caches::record::{Record, Run};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;\
color:#1c2733;background:#fff}svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#1c2733}\
.bar{fill:#9db8d3}.own .bar{fill:#2f6fab}.dot{fill:#1c2733}.axis{stroke:#c5ced8}\
@media(prefers-color-scheme:dark){body{background:#14191f;color:#dde4ec}text{fill:#dde4ec}.dot{fill:#dde4ec}\
.axis{stroke:#3b4652}}";

const WIDTH: f64 = 720.0;
const NAMES: f64 = 130.0;
const VALUES: f64 = 110.0;
const ROW: f64 = 30.0;

/// A chart's title, its unit, how many digits, and what it shows of a run.
type Chart = (&'static str, &'static str, usize, fn(&Run) -> f64);

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
                    "docs/emulated-caches.md says what this cannot show."
                }
                @for chart in &CHARTS { (bars(record, chart)) }
            }
        }
    };
    page.into_string()
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
