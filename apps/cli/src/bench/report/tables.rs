//! Every figure of the run as tables, for those who want the numbers behind the charts.

use super::counter::{self, Counter};
use super::summary::arrivals;
use super::{CurvePoint, Domain, Generator, Latency, Machine, Report, Strategy, Workload};
use chiplet_bench::charts::number::{
    ABSENT, bytes, count, duration, fixed, percent, quantity, ratio, spread,
};
use maud::{Markup, html};

/// What a strategy does not tell, or has no such thing.
const UNSAID: &str = "does not say";
/// What only an open loop has.
const NOT_OPEN: &str = "no open loop";
/// What this machine does not grant.
const UNAVAILABLE: &str = "not available here";

/// A table in a box of its own that scrolls sideways when it is too wide. The first cell of a row is its header.
fn table(caption: &str, columns: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        // Outside the box, so that the title stays where it is when the table scrolls.
        h3 { (caption) }
        div.scroll role="region" tabindex="0" aria-label=(caption) {
            table aria-label=(caption) {
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (index, cell) in row.iter().enumerate() {
                                @if index == 0 { th scope="row" { (cell) } } @else { (figure(cell)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A cell; words in place of a figure are set back.
fn figure(cell: &str) -> Markup {
    html! {
        @if [ABSENT, UNSAID, NOT_OPEN, UNAVAILABLE].contains(&cell) { td.words { (cell) } } @else { td { (cell) } }
    }
}

/// Names with their values.
fn facts(caption: &str, facts: &[(&str, String)]) -> Markup {
    html! {
        table.facts {
            caption { (caption) }
            tbody { @for (name, value) in facts { tr { th scope="row" { (name) } td { (value) } } } }
        }
    }
}

/// All strategies: medians, ratios with their spread, and what else was measured.
pub fn strategies(report: &Report) -> Markup {
    let all = &report.strategies;
    let Some(first) = all.first() else {
        return html! { p { "No strategy was run, so there are no tables." } };
    };
    let rows = |row: &dyn Fn(&Strategy) -> Vec<String>| -> Vec<Vec<String>> {
        all.iter()
            .map(|strategy| [vec![strategy.name.clone()], row(strategy)].concat())
            .collect()
    };
    let latency = |latency: Latency| {
        [latency.p50, latency.p99, latency.p999]
            .map(quantity)
            .to_vec()
    };
    html! {
        (table(
            "Throughput and latency, medians over the rounds",
            &["strategy", "queries/s", "p50,\u{a0}µs", "p99,\u{a0}µs", "p99.9,\u{a0}µs", "recall at 10", "refused or failed"],
            &rows(&|strategy| [
                vec![quantity(strategy.throughput_qps)],
                latency(strategy.latency_us),
                vec![fixed(strategy.recall_at_10, 3), count(strategy.refused)],
            ].concat()),
        ))
        (table(
            &format!("Ratio to {}: median of the rounds (lowest to highest)", first.name),
            &["strategy", "throughput", "p50", "p99", "p99.9"],
            &rows(&|strategy| {
                let (to, range) = (strategy.ratio_to_first, strategy.ratio_spread);
                let both = |value: f64, range: [f64; 2]| match value.is_finite() {
                    true => format!("{} ({})", ratio(value), spread(range)),
                    false => ABSENT.into(),
                };
                vec![
                    both(to.throughput, range.throughput),
                    both(to.p50, range.p50),
                    both(to.p99, range.p99),
                    both(to.p999, range.p999),
                ]
            }),
        ))
        (table(
            "Between tables: the one with the highest p99, and how even the answers were",
            &["strategy", "worst table", "its p50,\u{a0}µs", "its p99,\u{a0}µs", "its p99.9,\u{a0}µs", "in time, queries/s", "Jain index"],
            &rows(&|strategy| [
                vec![strategy.worst_table.name.clone()],
                latency(strategy.worst_table.latency_us),
                vec![strategy.goodput_qps.map_or(NOT_OPEN.into(), quantity), fixed(strategy.fairness_jain, 3)],
            ].concat()),
        ))
        (table(
            "What it took: processor time, the sender, steals and moves",
            &[
                "strategy", "cores busy", "of it the senders", "send lag p99,\u{a0}µs", "tasks from own queue", "from same domain",
                "from other domain", "remaps",
            ],
            &rows(&|strategy| {
                let steals = |pick: fn(super::Steals) -> u64| strategy.steals.map_or(UNSAID.into(), |s| count(pick(s)));
                vec![
                    fixed(strategy.cpu_cores, 2),
                    fixed(strategy.sender_cores, 2),
                    strategy.send_lag_p99_us.map_or(ABSENT.into(), quantity),
                    steals(|steals| steals.own),
                    steals(|steals| steals.domain),
                    steals(|steals| steals.remote),
                    strategy.remaps.map_or(UNSAID.into(), count),
                ]
            }),
        ))
        (counters(report))
        (rounds(all))
        @if !report.load_curve.is_empty() { (curve(&report.load_curve)) }
    }
}

/// Hardware counters per query; one sentence if there are none at all.
fn counters(report: &Report) -> Markup {
    // A column that no strategy has would only repeat the same words.
    let (given, missing) = counter::given(&report.strategies);
    if given.is_empty() {
        return html! { p { "Hardware counters: " (UNAVAILABLE) " (" (report.machine.counters) ")." } };
    }
    let columns: Vec<&str> = ["strategy"]
        .into_iter()
        .chain(given.iter().map(|counter| counter.title))
        .collect();
    let rows: Vec<Vec<String>> = report
        .strategies
        .iter()
        .map(|strategy| {
            let counters = strategy.counters.unwrap_or_default();
            let cell = |counter: &&'static Counter| {
                (counter.of)(&counters).map_or(UNAVAILABLE.into(), counter.text)
            };
            [strategy.name.clone()]
                .into_iter()
                .chain(given.iter().map(cell))
                .collect()
        })
        .collect();
    html! {
        (table("Hardware counters, per query", &columns, &rows))
        p.caption {
            "Of the workers and of the measured time. AMD counts lines that the first-level data cache took in, by loads \
             and prefetches; those that the L2's prefetchers brought into it are apart, and in the misses. Intel counts loads that retired: a line that a prefetch brought in time counts as a hit where \
             it then was, so its misses are fewer than the lines that moved."
        }
        @if !missing.is_empty() {
            p.caption {
                "Not available here: "
                @for (index, counter) in missing.iter().enumerate() { @if index > 0 { ", " } (counter.title) }
                "."
            }
        }
    }
}

fn rounds(strategies: &[Strategy]) -> Markup {
    let rows: Vec<Vec<String>> = strategies
        .iter()
        .flat_map(|strategy| {
            strategy.rounds.iter().enumerate().map(|(number, round)| {
                vec![
                    format!("{}, {}", strategy.name, number + 1),
                    quantity(round.throughput_qps),
                    quantity(round.latency_us.p50),
                    quantity(round.latency_us.p99),
                    quantity(round.latency_us.p999),
                ]
            })
        })
        .collect();
    html! {
        details {
            summary { "Every round" }
            (table("Medians are taken over these", &["strategy, round", "queries/s", "p50,\u{a0}µs", "p99,\u{a0}µs", "p99.9,\u{a0}µs"], &rows))
        }
    }
}

fn curve(points: &[CurvePoint]) -> Markup {
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            vec![
                point.strategy.clone(),
                percent(point.load),
                quantity(point.rate_qps),
                quantity(point.throughput_qps),
                quantity(point.latency_us.p50),
                quantity(point.latency_us.p99),
                quantity(point.latency_us.p999),
            ]
        })
        .collect();
    let columns = [
        "strategy",
        "of saturation",
        "sent/s",
        "answered/s",
        "p50,\u{a0}µs",
        "p99,\u{a0}µs",
        "p99.9,\u{a0}µs",
    ];
    html! {
        details { summary { "Every point of the load curve" } (table("Load curve", &columns, &rows)) }
    }
}

pub fn machine(machine: &Machine) -> Markup {
    let [smallest, largest] = machine.domain_cache_bytes.map(bytes);
    let cache = if smallest == largest {
        format!("{smallest} each")
    } else {
        format!("{smallest} to {largest}")
    };
    let domains = if machine.domains == 1 {
        "domain"
    } else {
        "domains"
    };
    facts(
        "Machine",
        &[
            ("processor", machine.cpu.clone()),
            (
                "cores",
                format!(
                    "{} cores, {} logical processors ({} a core)",
                    count_of(machine.cores),
                    count_of(machine.cpus),
                    machine.smt
                ),
            ),
            (
                "sockets and nodes",
                format!("{} and {}", machine.packages, machine.nodes),
            ),
            (
                "domains",
                format!(
                    "{} {domains} by {}, {cache}",
                    count_of(machine.domains),
                    machine.level
                ),
            ),
            ("memory", machine.memory_bytes.map_or(ABSENT.into(), bytes)),
            ("each domain", layout(&machine.layout)),
            (
                "taken away",
                match machine.taken_away.is_empty() {
                    true => "nothing".into(),
                    false => machine.taken_away.join("; "),
                },
            ),
            (
                "hypervisor",
                said(&machine.hypervisor, "none that it tells of"),
            ),
            ("clock rates by", said(&machine.governor, UNSAID)),
            (
                "huge pages",
                format!(
                    "transparent: {}; reserved: {}",
                    said(&machine.huge_pages, UNSAID),
                    machine.reserved_huge_pages.map_or(UNSAID.into(), count)
                ),
            ),
            ("kernel", machine.kernel.clone()),
            (
                "kernel's command line",
                match machine.settings.command_line.as_deref() {
                    Some("") => "nothing that matters here".into(),
                    line => line.unwrap_or(UNSAID).into(),
                },
            ),
            ("SMT", said(&machine.settings.smt_control, UNSAID)),
            (
                "NUMA balancing",
                match machine.numa_balancing {
                    Some(true) => "on".into(),
                    Some(false) => "off".into(),
                    None => UNSAID.into(),
                },
            ),
            (
                "sched_ext",
                said(&machine.settings.sched_ext, "the kernel has none"),
            ),
            (
                "scheduling by cache",
                said(&machine.settings.cache_aware_scheduling, UNSAID),
            ),
            ("hardware counters", machine.counters.clone()),
            (
                "load average before",
                machine
                    .load_average
                    .map_or(ABSENT.into(), |load| fixed(load, 2)),
            ),
            ("chiplet", machine.version.clone()),
        ],
    )
}

fn said(value: &Option<String>, otherwise: &str) -> String {
    value.clone().unwrap_or_else(|| otherwise.to_owned())
}

/// Cpus of each domain, those of one node together.
fn layout(domains: &[Domain]) -> String {
    let parts = domains.chunk_by(|one, next| one.node == next.node);
    let parts = parts.map(|part| {
        let cpus: Vec<&str> = part.iter().map(|domain| &*domain.cpus).collect();
        format!("node {}: {}", part[0].node, cpus.join(" | "))
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// Who sent, and how much more they could have sent.
fn senders(generator: &Generator) -> String {
    let noun = if generator.senders == 1 {
        "thread"
    } else {
        "threads"
    };
    let cores = match &generator.own_cpus {
        Some(cpus) => format!("on cpus of their own, {cpus}"),
        None => "on the workers' cores".into(),
    };
    format!(
        "{} {noun} {cores}; alone they make {} queries/s, {} times the highest throughput",
        count_of(generator.senders),
        quantity(generator.limit_qps),
        fixed(generator.headroom, 1)
    )
}

pub fn workload(report: &Report) -> Markup {
    let Workload {
        data,
        kind,
        indexes,
        tables,
        rows,
        dims,
        k,
        ef,
        nprobe,
        ..
    } = &report.workload;
    let workload = &report.workload;
    let seconds = |value: f64| match value.is_finite() {
        true => format!("{} s", quantity(value)),
        false => ABSENT.into(),
    };
    let noun = if *tables == 1 { "table" } else { "tables" };
    facts(
        "Workload",
        &[
            ("data", data.clone()),
            ("index", format!("{kind} ({})", indexes.join(", "))),
            (
                "tables",
                format!(
                    "{} {noun} of {} rows × {} dimensions",
                    count_of(*tables),
                    count_of(*rows),
                    count_of(*dims)
                ),
            ),
            ("size of all tables", bytes(workload.bytes)),
            ("search", format!("k {k}, ef {ef}, nprobe {nprobe}")),
            (
                "skew over tables",
                format!("Zipf {}", fixed(workload.table_skew, 2)),
            ),
            (
                "skew over queries",
                format!("Zipf {}", fixed(workload.query_skew, 2)),
            ),
            ("arrivals", arrivals(report)),
            ("workers", count_of(report.generator.workers)),
            ("senders", senders(&report.generator)),
            (
                "saturation",
                workload.saturation_qps.map_or(ABSENT.into(), |rate| {
                    format!("{} queries/s", quantity(rate))
                }),
            ),
            (
                "hot set moves",
                workload.flip_s.map_or("no".into(), |flip| {
                    format!("{} into a round", seconds(flip))
                }),
            ),
            (
                "deadline",
                workload.deadline_us.map_or("none".into(), duration),
            ),
            (
                "rounds",
                format!(
                    "{} a strategy, {} each after {} of warm-up, strategies interleaved",
                    count_of(workload.rounds),
                    seconds(workload.round_s),
                    seconds(workload.warmup_s)
                ),
            ),
            ("seed", workload.seed.to_string()),
        ],
    )
}

fn count_of(value: usize) -> String {
    count(value as u64)
}
