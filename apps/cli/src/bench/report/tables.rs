//! Every figure of the run as tables, for a terminal and for those who want the numbers behind the charts of a page.

use chiplet_bench::charts::number::{
    ABSENT, bytes, count, duration, fixed, percent, quantity, ratio, spread,
};
use chiplet_bench::charts::table::Grid;
use chiplet_bench::stats;
use maud::{Markup, html};

use super::summary::arrivals;
use super::{Domain, Generator, Latency, Machine, Report, Round, Steals, Strategy, Workload};
use super::{counter, parts};

/// What a strategy does not tell, or has no such thing.
const UNSAID: &str = "does not say";
/// What only an open loop has.
const NOT_OPEN: &str = "no open loop";
/// What this machine does not grant.
const UNAVAILABLE: &str = "not available here";

/// The columns of a latency.
const LATENCY: [&str; 3] = ["p50,\u{a0}µs", "p99,\u{a0}µs", "p99.9,\u{a0}µs"];

fn latency(latency: Latency) -> Vec<String> {
    [latency.p50, latency.p99, latency.p999]
        .map(quantity)
        .to_vec()
}

/// A row for each strategy.
fn each(
    report: &Report,
    caption: impl Into<String>,
    columns: &[&str],
    row: impl Fn(&Strategy) -> Vec<String>,
) -> Grid {
    let rows = report.strategies.iter();
    let rows = rows.map(|strategy| [vec![strategy.name.clone()], row(strategy)].concat());
    Grid::new(caption, [&["strategy"], columns].concat()).rows(rows)
}

/// A value, and the lowest and the highest of its rounds.
fn ranged(value: f64, range: [f64; 2]) -> String {
    match value.is_finite() {
        true => format!("{} ({})", ratio(value), spread(range)),
        false => ABSENT.into(),
    }
}

/// All strategies: medians, ratios with their spread, what each part gives, and what else was measured. None is empty.
pub fn strategies(report: &Report) -> Vec<Grid> {
    let name = report.strategies.first().map(|first| first.name.as_str());
    let mut grids = vec![
        each(
            report,
            "Throughput and latency, medians over the rounds",
            &[
                &["queries/s"],
                &LATENCY[..],
                &["recall at 10", "refused or failed"],
            ]
            .concat(),
            |strategy| {
                let mut row = vec![quantity(strategy.throughput_qps)];
                row.extend(latency(strategy.latency_us));
                row.extend([fixed(strategy.recall_at_10, 4), count(strategy.refused)]);
                row
            },
        ),
        each(
            report,
            format!(
                "Ratio to {}: median of the rounds (lowest to highest)",
                name.unwrap_or_default()
            ),
            &["throughput", "p50", "p99", "p99.9"],
            |strategy| {
                let (to, range) = (strategy.ratio_to_first, strategy.ratio_spread);
                vec![
                    ranged(to.throughput, range.throughput),
                    ranged(to.p50, range.p50),
                    ranged(to.p99, range.p99),
                    ranged(to.p999, range.p999),
                ]
            },
        ),
        each(
            report,
            "Between tables: the one with the highest p99, and how even the answers were",
            &[
                "worst table",
                "its p50,\u{a0}µs",
                "its p99,\u{a0}µs",
                "its p99.9,\u{a0}µs",
                "in time, queries/s",
                "Jain index",
            ],
            |strategy| {
                let mut row = vec![strategy.worst_table.name.clone()];
                row.extend(latency(strategy.worst_table.latency_us));
                row.push(strategy.goodput_qps.map_or(NOT_OPEN.into(), quantity));
                row.push(fixed(strategy.fairness_jain, 3));
                row
            },
        ),
        each(
            report,
            "What it took: processor time, the sender, steals and moves",
            &[
                "cores busy",
                "of it the senders",
                "send lag p99,\u{a0}µs",
                "tasks from own queue",
                "from same domain",
                "stolen from other domain",
                "moved at submit",
                "remaps",
            ],
            |strategy| {
                let steals = |pick: fn(Steals) -> u64| {
                    strategy
                        .steals
                        .map_or(UNSAID.into(), |steals| count(pick(steals)))
                };
                vec![
                    fixed(strategy.cpu_cores, 2),
                    fixed(strategy.sender_cores, 2),
                    strategy.send_lag_p99_us.map_or(ABSENT.into(), quantity),
                    steals(|steals| steals.own),
                    steals(|steals| steals.domain),
                    steals(|steals| steals.remote),
                    steals(|steals| steals.moved),
                    strategy.remaps.map_or(UNSAID.into(), count),
                ]
            },
        ),
    ];
    if report.strategies.len() == 1 {
        grids.remove(1);
    }
    grids.push(gains(report));
    grids.extend(points(report));
    // A column that no strategy has would only repeat the same words.
    let (given, _) = counter::given(&report.strategies);
    if !given.is_empty() {
        let titles: Vec<&str> = given.iter().map(|counter| counter.title).collect();
        grids.push(each(
            report,
            "Hardware counters, per query",
            &titles,
            |strategy| {
                let counters = strategy.counters.unwrap_or_default();
                let cell = |counter: &&counter::Counter| {
                    (counter.of)(&counters).map_or(UNAVAILABLE.into(), counter.text)
                };
                given.iter().map(cell).collect()
            },
        ));
    }
    grids.retain(|grid| !grid.is_empty());
    grids
}

/// What each part gives, where the strategies were run that tell.
fn gains(report: &Report) -> Grid {
    let parts = parts::parts(&report.strategies).into_iter().map(|part| {
        let pair = format!("{} to {}", part.of.name, part.to.name);
        [
            part.what.to_owned(),
            pair,
            ranged(part.median, part.spread()),
        ]
    });
    Grid::new(
        "What each part gives: median of the rounds (lowest to highest)",
        ["part", "between", "throughput"],
    )
    .rows(parts)
}

/// Throughput at each size and number of domains.
fn points(report: &Report) -> impl Iterator<Item = Grid> {
    report.scaling.iter().map(|point| {
        let caption = format!(
            "{} domains, rows x {}: tables of {}, caches of {}",
            point.domains,
            point.size,
            bytes(point.bytes),
            bytes(point.cache_bytes)
        );
        let first = point.strategies.first();
        let rows = point.strategies.iter().map(|strategy| {
            let rounds = first.into_iter().flat_map(|first| &first.rounds_qps);
            let ratios = strategy.rounds_qps.iter().zip(rounds);
            let ratios: Vec<f64> = ratios.map(|(mine, other)| mine / other).collect();
            let range = stats::spread(&ratios);
            [
                strategy.name.clone(),
                quantity(strategy.throughput_qps),
                ranged(stats::median(ratios), range),
            ]
        });
        Grid::new(caption, ["strategy", "queries/s", "to the first"]).rows(rows)
    })
}

/// What hardware counters mean, or why there are none.
pub fn counters(report: &Report) -> Vec<String> {
    let (given, missing) = counter::given(&report.strategies);
    if given.is_empty() {
        let why = &report.machine.counters;
        return vec![format!("Hardware counters: {UNAVAILABLE} ({why}).")];
    }
    let mut notes = vec![
        "Counters are of the workers and of the measured time. AMD counts lines that the first-level data cache took in, by loads \
         and prefetches; those that the L2's prefetchers brought into it are apart, and in the misses. Intel counts loads \
         that retired: a line that a prefetch brought in time counts as a hit where it then was, so its misses are fewer \
         than the lines that moved."
            .to_owned(),
    ];
    if !missing.is_empty() {
        let titles: Vec<&str> = missing.iter().map(|counter| counter.title).collect();
        notes.push(format!("Not available here: {}.", titles.join(", ")));
    }
    notes
}

/// Every round of every strategy.
pub fn rounds(strategies: &[Strategy]) -> Grid {
    let row = |(strategy, (number, round)): (&Strategy, (usize, &Round))| {
        let name = format!("{}, {}", strategy.name, number + 1);
        [
            vec![name, quantity(round.throughput_qps)],
            latency(round.latency_us),
        ]
        .concat()
    };
    let rounds = strategies.iter().flat_map(|strategy| {
        let rounds = strategy.rounds.iter().enumerate();
        rounds.map(move |round| (strategy, round))
    });
    let columns = [&["strategy, round", "queries/s"], &LATENCY[..]].concat();
    Grid::new("Medians are taken over these", columns).rows(rounds.map(row))
}

/// Every point of the load curve.
pub fn curve(report: &Report) -> Grid {
    let rows = report.load_curve.iter().map(|point| {
        let rates = [point.rate_qps, point.throughput_qps].map(quantity);
        let named = vec![point.strategy.clone(), percent(point.load)];
        [named, rates.to_vec(), latency(point.latency_us)].concat()
    });
    let columns = ["strategy", "of saturation", "sent/s", "answered/s"];
    Grid::new("Latency against load", [&columns, &LATENCY[..]].concat()).rows(rows)
}

/// All of it, for a page.
pub fn page(report: &Report) -> Markup {
    if report.strategies.is_empty() {
        return html! { p { "No strategy was run, so there are no tables." } };
    }
    let curve = curve(report);
    html! {
        @for grid in strategies(report) { (grid.html()) }
        @for note in counters(report) { p.caption { (note) } }
        details { summary { "Every round" } (rounds(&report.strategies).html()) }
        @if !curve.is_empty() {
            details { summary { "Every point of the load curve" } (curve.html()) }
        }
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
pub fn senders(generator: &Generator) -> String {
    let noun = if generator.senders == 1 {
        "sender"
    } else {
        "senders"
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
