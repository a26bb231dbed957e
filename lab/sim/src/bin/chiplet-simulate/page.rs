//! The figures as one HTML page that needs nothing else.

use chiplet_bench::charts::bars::Rows;
use chiplet_bench::charts::number::quantity;
use chiplet_bench::charts::{Layout, Look, Px, figure};
use maud::{Markup, html};

use super::Report;
use super::text;

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let title = format!("{} on {}, modelled", report.workload.name, report.machine);
    let main = html! {
        header {
            p.kicker { "chiplet-simulate · seed " (report.seed) }
            h1 { (title) }
            p.lede {
                @if report.measured.is_none() { "No machine was measured. " }
                @else { "Modelled, but for the table that puts what was measured beside it. " }
                "The decisions are chiplet's own; caches, links and memory are a model, and "
                "what queries read is recorded from real searches and scaled."
            }
        }
        @if report.workload.shared_tables() > 0 {
            section { h2 { "Throughput at saturation" } (throughput(report)) }
        } @else {
            section { h2 { "Throughput" } (throughput(report)) }
        }
        @if !report.workload.asking.tenants.is_empty() {
            section { h2 { "What became of whose queries" } (text::tenants(report).html()) }
        }
        section { h2 { "All figures" } pre { (text::render(report)) } }
    };
    chiplet_bench::charts::page(&format!("{title} · chiplet-simulate"), &main)
}

/// A bar for each saturated run.
fn throughput(report: &Report) -> Markup {
    let runs: Vec<_> = text::saturated(report).collect();
    let highest = runs.iter().map(|outcome| outcome.qps).fold(1.0, f64::max);
    let mut names: Vec<&str> = Vec::new();
    for outcome in &runs {
        if !names.contains(&outcome.strategy.as_str()) {
            names.push(&outcome.strategy);
        }
    }
    let described: Vec<String> = runs
        .iter()
        .map(|outcome| {
            let (domains, qps) = (outcome.domains, outcome.qps);
            format!(
                "{} on {domains} domains: {qps:.0} queries/s",
                outcome.strategy
            )
        })
        .collect();
    let rows: Vec<String> = runs
        .iter()
        .map(|outcome| format!("{} · {}", outcome.strategy, outcome.domains))
        .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    figure(
        "Throughput at saturation",
        &described.join("; "),
        |layout: Layout| {
            let bars = Rows::new(layout, &rows, 80.0, 20.0);
            let [left, right] = bars.plot;
            let drawing = html! {
                @for (at, outcome) in runs.iter().enumerate() {
                    @let look = names.iter().position(|name| *name == outcome.strategy).unwrap_or(0);
                    @let long = (right - left) * outcome.qps / highest;
                    (bars.name(at, rows[at]))
                    g class=(Look(look).class()) {
                        rect.bar x=(Px(left)) y=(Px(bars.bar(at))) height="13" width=(Px(long)) rx="1.5" {}
                    }
                    (bars.value(at, layout.width(), &quantity(outcome.qps)))
                }
            };
            (bars.bottom(), drawing)
        },
    )
}
