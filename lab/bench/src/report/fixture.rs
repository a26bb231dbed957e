//! Made-up reports for tests of programs that read them: no figure here was measured, and every page of them says so.

use super::*;

/// A full report over this many strategies: a sweep, placements, a flip, counters for some.
pub fn report(strategies: usize) -> Report {
    let names: Vec<String> = (0..strategies).map(name).collect();
    let rounds: Vec<Vec<Round>> = (0..strategies).map(rounds).collect();
    let strategies: Vec<Strategy> = names
        .iter()
        .enumerate()
        .map(|(index, name)| strategy(index, name, &rounds[index], &rounds[0]))
        .collect();
    Report {
        date: "2026-11-21T07:30:00Z".into(),
        command: "chiplet bench --strategy global-steal,ccd-aware --level l3 --tables 32 --rows 1500 --dims 64 --kind hnsw \
                  --rounds 7 --duration 5 --rate max --report report.html"
            .into(),
        machine: machine(),
        workload: workload(),
        generator: Generator {
            workers: 88,
            senders: 8,
            own_cpus: Some("7,15,23,31,39,47,55,63".into()),
            limit_qps: 9_800_000.0,
            headroom: 120.0,
        },
        load_curve: names.iter().enumerate().flat_map(|(index, name)| curve(index, name)).collect(),
        scaling: Vec::new(),
        placements: vec![history("ccd-aware", 12, 8)],
        notes: vec!["These figures are made up to test the page; none was measured.".into()],
        strategies,
    }
}

/// Points at three sizes on twelve domains, and one on four.
pub fn scaling(strategies: &[Strategy]) -> Vec<ScalePoint> {
    let point = |(domains, size): (usize, f64)| ScalePoint {
        domains,
        workers: 8 * domains - domains / 3,
        size,
        bytes: (300e6 * size) as u64,
        cache_bytes: (domains as u64) << 25,
        strategies: strategies
            .iter()
            .map(|strategy| ScaledStrategy {
                name: strategy.name.clone(),
                throughput_qps: strategy.throughput_qps * domains as f64 / size.sqrt(),
                rounds_qps: Vec::new(),
            })
            .collect(),
    };
    [(12, 1.0), (12, 0.1), (12, 10.0), (4, 1.0)]
        .map(point)
        .into()
}

/// Names as they come, then longer ones, the last of 24 characters.
fn name(index: usize) -> String {
    const NAMES: [&str; 12] = [
        "global-steal",
        "ccd-aware",
        "placebo",
        "ccd-aware-fifo",
        "rayon",
        "spawn-blocking",
        "faiss-openmp",
        "global-steal+usearch",
        "ccd-aware+usearch",
        "round-robin+usearch",
        "rayon+usearch",
        "spawn-blocking+usearch-x",
    ];
    NAMES
        .get(index)
        .map_or_else(|| format!("strategy-{index}"), |name| (*name).to_owned())
}

/// A small, repeatable deviation from 1, within 4 %.
fn jitter(seed: usize) -> f64 {
    let mixed = (seed as u64 + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    0.96 + (mixed >> 40) as f64 / (1u64 << 24) as f64 * 0.08
}

/// How much better than the first a strategy is made to look.
fn gain(index: usize) -> f64 {
    [
        1.0, 1.38, 0.86, 0.61, 0.97, 0.93, 1.04, 1.02, 1.44, 0.88, 0.99, 0.95,
    ][index % 12]
}

fn rounds(index: usize) -> Vec<Round> {
    let gain = gain(index);
    let round = |round: usize| {
        let off = |what: usize| jitter(index * 31 + round * 17 + what * 101);
        let p99 = 2_150.0 / gain * off(2);
        Round {
            throughput_qps: 41_236.0 * gain * off(0),
            latency_us: Latency {
                p50: 386.0 / gain * off(1),
                p99,
                p999: 6_900.0 / gain * off(3),
            },
            p99_us_by_tenth: (0..10)
                .map(|tenth| p99 * jitter(tenth * 3 + round) * if tenth == 5 { 2.6 } else { 1.0 })
                .collect(),
        }
    };
    (0..7).map(round).collect()
}

/// The middle of an odd number of values, and their ends.
fn middle(values: impl Iterator<Item = f64>) -> (f64, [f64; 2]) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (
        values[values.len() / 2],
        [values[0], values[values.len() - 1]],
    )
}

fn strategy(index: usize, name: &str, rounds: &[Round], first: &[Round]) -> Strategy {
    let gain = gain(index);
    let median = |of: fn(&Round) -> f64| middle(rounds.iter().map(of)).0;
    let ratio = |of: fn(&Round) -> f64| {
        middle(
            rounds
                .iter()
                .zip(first)
                .map(|(this, first)| of(this) / of(first)),
        )
    };
    let throughput = ratio(|round| round.throughput_qps);
    let p50 = ratio(|round| round.latency_us.p50);
    let p99 = ratio(|round| round.latency_us.p99);
    let p999 = ratio(|round| round.latency_us.p999);
    let latency_us = Latency {
        p50: median(|round| round.latency_us.p50),
        p99: median(|round| round.latency_us.p99),
        p999: median(|round| round.latency_us.p999),
    };
    Strategy {
        name: name.into(),
        throughput_qps: median(|round| round.throughput_qps),
        latency_us,
        recall_at_10: 0.968,
        steals: (index != 4).then_some(match index % 3 {
            0 => Steals {
                own: 612_345,
                domain: 210_400,
                remote: 405_210,
                moved: 0,
            },
            1 => Steals {
                own: 1_534_210,
                domain: 101_233,
                remote: 8_214,
                moved: 1_102,
            },
            _ => Steals {
                own: 1_000_000,
                domain: 0,
                remote: 0,
                moved: 0,
            },
        }),
        ratio_to_first: Ratios {
            throughput: throughput.0,
            p50: p50.0,
            p99: p99.0,
            p999: p999.0,
        },
        ratio_spread: RatioSpread {
            throughput: throughput.1,
            p50: p50.1,
            p99: p99.1,
            p999: p999.1,
        },
        worst_table: WorstTable {
            name: "table-31".into(),
            latency_us: Latency {
                p99: 4_321.0 / gain,
                ..latency_us
            },
        },
        goodput_qps: Some(40_100.0 * gain),
        fairness_jain: 0.994,
        cpu_cores: 1.97,
        sender_cores: 0.21,
        busiest_sender: 0.21,
        send_lag_p99_us: Some(38.5),
        refused: 0,
        remaps: (index == 1).then_some(14),
        flip: None,
        counters: (index < 2).then_some(Counters {
            cycles: Some(121_350.0 / gain),
            instructions: Some(98_200.0),
            llc_misses: Some(312.4 / gain),
            stalled_share: Some(0.46 / gain),
            ..Counters::default()
        }),
        rounds: rounds.to_vec(),
    }
}

fn curve(index: usize, name: &str) -> Vec<CurvePoint> {
    [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.05]
        .into_iter()
        .map(|load: f64| {
            let capacity = 41_236.0 * gain(index);
            let rate_qps = 41_236.0 * load;
            let busy = (rate_qps / capacity).min(0.995);
            let waits = 1.0 / (1.0 - busy);
            CurvePoint {
                strategy: name.into(),
                load,
                rate_qps,
                throughput_qps: rate_qps.min(capacity * 0.99),
                latency_us: Latency {
                    p50: 60.0 * waits.powf(0.6),
                    p99: 180.0 * waits,
                    p999: 420.0 * waits,
                },
            }
        })
        .collect()
}

/// Homes that move when the hot set does, a little differently a table.
pub fn history(strategy: &str, domains: usize, tables: usize) -> PlacementHistory {
    let table = |index: usize| PlacedTable {
        name: format!("table-{index:02}"),
        share: 0.21 / (index + 1) as f64,
        homes: (0..7)
            .flat_map(|round| {
                let start = round as f64 * 6.0;
                let home = |step: usize| ((index * 5 + round * step) % domains) as u32;
                [
                    Placed {
                        at_s: start,
                        domain: home(0),
                    },
                    Placed {
                        at_s: start + 3.6 + index as f64 * 0.07,
                        domain: home(1 + index % 3),
                    },
                ]
            })
            .collect(),
    };
    PlacementHistory {
        strategy: strategy.into(),
        domains,
        length_s: 42.0,
        tables: (0..tables).map(table).collect(),
    }
}

fn machine() -> Machine {
    Machine {
        cpu: "AMD EPYC 9654 96-Core Processor".into(),
        kernel: "6.1.0-18-amd64".into(),
        cpus: 192,
        cores: 96,
        smt: 2,
        packages: 1,
        nodes: 1,
        level: "L3".into(),
        domains: 12,
        layout: (0..12)
            .map(|domain| Domain {
                cpus: format!("{}-{}", domain * 8, domain * 8 + 7),
                cores: 8,
                cache_bytes: 32 << 20,
                package: 0,
                node: 0,
            })
            .collect(),
        taken_away: Vec::new(),
        hypervisor: None,
        governor: Some("performance".into()),
        huge_pages: Some("madvise".into()),
        reserved_huge_pages: Some(0),
        domain_cache_bytes: [32 << 20, 32 << 20],
        memory_bytes: Some(384 << 30),
        counters: "cycles, instructions, last-level misses, stalls".into(),
        load_average: Some(0.42),
        numa_balancing: Some(true),
        settings: KernelSettings {
            command_line: Some("mitigations=off isolcpus=2-7".into()),
            smt_control: Some("on".into()),
            sched_ext: Some("disabled".into()),
            cache_aware_scheduling: Some("not readable".into()),
        },
        version: "0.1.0".into(),
    }
}

fn workload() -> Workload {
    Workload {
        data: "synthetic clusters".into(),
        kind: "hnsw".into(),
        indexes: vec!["chiplet HNSW".into()],
        tables: 32,
        verdict: "The tables fit all caches together and not one of them.".into(),
        rows: 1_500,
        dims: 64,
        k: 10,
        ef: 32,
        nprobe: 8,
        lists: None,
        queries: 1_000,
        recipe: None,
        recipe_tables: None,
        size: 1.0,
        bytes: 18_743_296,
        table_skew: 0.9,
        query_skew: 0.5,
        arrivals: "saturated".into(),
        outstanding: None,
        rate_qps: None,
        saturation_qps: Some(41_236.0),
        flip_s: Some(2.5),
        deadline_us: Some(5_000.0),
        rounds: 7,
        round_s: 5.0,
        warmup_s: 1.0,
        seed: 42,
    }
}
