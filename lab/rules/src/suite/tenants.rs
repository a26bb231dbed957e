//! Tables with clients of their own, each on its terms.

use super::{Cell, Machines, Seeds};

/// Cores of a domain.
const CORES: f64 = 8.0;

/// A table by itself, or several alike: tasks of so many microseconds, their terms, who asks.
fn tables(name: &str, count: u32, micros: f64, terms: &str, asks: &[String]) -> String {
    let asks: Vec<String> = asks
        .iter()
        .map(|ask| format!("[[tables.asks]]\n{ask}\n"))
        .collect();
    format!(
        "[[tables]]\nname = '{name}'\nkind = 'task'\ncount = {count}\nmicros = {micros:?}\n{terms}\n{}",
        asks.concat()
    )
}

fn cell(name: String, domains: u32, seconds: f64, tables: &[String]) -> Cell {
    Cell {
        name,
        machine: Machines::Uniform(domains, CORES as u32),
        workload: format!(
            "name = 'tenants'\nwarm = 2\nseconds = {seconds:?}\n{}",
            tables.concat()
        ),
        load: None,
        flip: None,
        queries: 0,
        still: false,
        seeds: Seeds::All,
    }
}

/// Twenty tables of 2 ms that ask for this part of a domain, at home there.
fn quiet(part: f64) -> String {
    quiet_from(part, 0.0)
}

/// The same from so many seconds on.
fn quiet_from(part: f64, from: f64) -> String {
    let rate = part * CORES / 0.002 / 20.0;
    let asks = [format!("rate = {rate:?}\nfrom = {from:?}")];
    tables("quiet", 20, 2_000.0, "home = 0", &asks)
}

const HOME: &str = "home = 0\ntimes = 'exponential'";

fn flood(name: &str, micros: f64, terms: &str, clients: u32) -> String {
    tables(
        name,
        1,
        micros,
        &format!("{HOME}\n{terms}"),
        &[format!("outstanding = {clients}")],
    )
}

pub(super) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (domains, parts) in [
        (1, &[0.2, 0.4, 0.6, 0.9][..]),
        (2, &[0.2, 0.4, 0.9]),
        (12, &[0.4]),
    ] {
        for &part in parts {
            let told = format!("{domains} domains, others {:.0} %", 100.0 * part);
            let beside = |what: &str, floods: &[String]| {
                let tables = [floods, &[quiet(part)]].concat();
                cell(format!("{what}, {told}"), domains, 6.0, &tables)
            };
            let bulk = "class = 'bulk'";
            cells.extend([
                beside("a flood", &[flood("flood", 2_000.0, "", 600)]),
                beside(
                    "two floods",
                    &[
                        flood("flood", 2_000.0, "", 300),
                        flood("flood 2", 500.0, "weight = 3.0", 400),
                    ],
                ),
                beside("bulk work", &[flood("bulk", 2_000.0, bulk, 1_000)]),
                beside(
                    "bulk work and a flood",
                    &[
                        flood("bulk", 2_000.0, bulk, 500),
                        flood("flood", 1_000.0, "", 300),
                    ],
                ),
            ]);
        }
    }
    for part in [0.5, 0.8, 1.1, 1.5] {
        let told = format!("{:.0} %", 100.0 * part);
        let rate = part * 2.0 * CORES / 0.001 / 20.0;
        let asks = |deadline: f64| format!("rate = {rate:?}\ndeadline_ms = {deadline:?}");
        let deadlines = tables(
            "deadlines",
            20,
            1_000.0,
            "times = 'exponential'",
            &[asks(20.0)],
        );
        cells.push(cell(format!("deadlines, {told}"), 2, 10.0, &[deadlines]));
        let short = tables("short", 10, 1_000.0, "", &[asks(10.0)]);
        let long = tables("long", 10, 1_000.0, "", &[asks(200.0)]);
        cells.push(cell(
            format!("short and long deadlines, {told}"),
            2,
            10.0,
            &[short, long],
        ));
    }
    for part in [0.5, 0.8, 0.95] {
        cells.extend(stalls(part));
    }
    for part in [0.3, 0.6] {
        cells.extend(lengths(part));
    }
    for part in [0.3, 0.8] {
        cells.extend(comers(part));
    }
    for what in [700, 1_100] {
        let floods = ["flood", "flood 2"].map(|name| flood(name, 1_000.0, "", what));
        let told = format!("two floods of {what} clients");
        cells.push(cell(told, 1, 6.0, &[&floods[..], &[quiet(0.3)]].concat()));
    }
    for domains in [2, 12] {
        let clients = |count: u32| {
            tables(
                "clients",
                8,
                1_000.0,
                "",
                &[format!("outstanding = {count}")],
            )
        };
        for each in [1, 4, 80] {
            let told = format!("{each} clients of each of 8 tables, {domains} domains");
            cells.push(cell(told, domains, 5.0, &[clients(each)]));
        }
        let unequal = |weight: f64| {
            tables(
                &format!("weight {weight}"),
                4,
                1_000.0,
                &format!("weight = {weight:?}"),
                &["outstanding = 40".to_owned()],
            )
        };
        cells.push(cell(
            format!("weights, {domains} domains"),
            domains,
            5.0,
            &[unequal(1.0), unequal(4.0)],
        ));
    }
    cells
}

/// Tables that ask for this part of a domain come to one that flooded alone, or a table that nobody knows comes to them.
fn comers(part: f64) -> [Cell; 3] {
    let told = format!("{:.0} %", 100.0 * part);
    let flood = flood("flood", 2_000.0, "", 600);
    let new = |class: &str| {
        let terms = format!("home = 0\nclass = '{class}'");
        tables(
            "flood",
            1,
            5_000.0,
            &terms,
            &["burst = 600\nfrom = 4.0".to_owned()],
        )
    };
    [
        ("others come to a flood", [flood, quiet_from(part, 3.0)]),
        ("a burst of a new table", [new("interactive"), quiet(part)]),
        ("bulk work of a new table", [new("bulk"), quiet(part)]),
    ]
    .map(|(name, tables)| cell(format!("{name}, {told}"), 1, 8.0, &tables))
}

/// Twenty tables of 1 ms with deadlines, of which some tasks take far longer.
fn stalls(part: f64) -> [Cell; 2] {
    let rate = part * 2.0 * CORES / 0.001 / 20.0;
    let asks = [format!("rate = {rate:?}\ndeadline_ms = 50.0")];
    let table = |name: &str, count: u32, stall: &str| tables(name, count, 1_000.0, stall, &asks);
    let rare = "[[tables.stalls]]\nchance = 0.0005\nms = 100.0";
    let rare = [table("stalls", 20, rare)];
    let two = "[[tables.stalls]]\nat = 4.0\ntasks = 2\nms = 500.0";
    let two = [table("stalls", 1, two), table("others", 19, "")];
    let told = format!("{:.0} %", 100.0 * part);
    [("rare stalls", &rare[..]), ("two stalls of a table", &two)]
        .map(|(name, tables)| cell(format!("{name}, {told}"), 2, 10.0, tables))
}

/// Tables whose queries differ in length, or come in bursts, that ask for this part of a domain, a third of it beside
/// them.
fn lengths(part: f64) -> [Cell; 2] {
    let rate = |part: f64, micros: f64| part * CORES / (micros * 1e-6);
    let beside = format!("rate = {:?}", rate(part / 3.0, 1_000.0) / 4.0);
    let beside = tables("beside", 4, 1_000.0, "home = 0", &[beside]);
    // As much time goes to queries of 0.5 ms as to those of 60 ms.
    let (short, long) = (rate(part / 3.0, 500.0), rate(part / 3.0, 60_000.0));
    let mixed = [
        format!("rate = {short:?}\ndeadline_ms = 25.0"),
        format!("rate = {long:?}\nwork = 120.0"),
    ];
    let mixed = tables("mixed", 1, 500.0, "home = 0", &mixed);
    // Four tables in turn, 32 queries each.
    let every = 4.0 * 32.0 / rate(part / 1.5, 1_000.0);
    let bursts = (0..4).map(|at| {
        let from = f64::from(at) * every / 4.0;
        let ask = format!("burst = 32\nevery = {every:?}\nfrom = {from:?}");
        tables(&format!("bursts {at}"), 1, 1_000.0, "home = 0", &[ask])
    });
    let bursts = [bursts.collect(), beside.clone()];
    let told = format!("{:.0} %", 100.0 * part);
    [
        cell(
            format!("short and long queries of a table, {told}"),
            1,
            20.0,
            &[mixed, beside],
        ),
        cell(format!("bursts, {told}"), 1, 20.0, &bursts),
    ]
}
