//! A comparison in seconds: the model of `lab/caches` is told what one core reads, without QEMU around it.
//!
//! So both sides have the same reads, and what differs is how caches are modelled: an L1 and addresses there, rows and
//! links that lie one after the other here.

use chiplet::index::{HnswConfig, HnswTable, Metric, Part as Section};
use chiplet_caches::model::core::Access;
use chiplet_caches::model::parts::Part;
use chiplet_caches::model::{Machine, Wiring};
use chiplet_caches::record::{Constants, Record, RunRecord};
use chiplet_validate::case::{self, Case};
use chiplet_validate::emulated;
use chiplet_validate::graphs::{self, Searched};
use chiplet_workload::dataset::{Clusters, VectorSet};
use chiplet_workload::traffic::{Arrivals, Group, Traffic};

const ROWS: usize = 3_000;
const DIM: usize = 32;
const EF: usize = 40;
const QUERIES: usize = 300;
/// Queries that warm the caches, and as many that count.
const COUNTED: usize = 600;

/// Each section begins at a page of its own.
const SECTION: u64 = 1 << 30;

fn graph() -> (HnswTable, Vec<Vec<f32>>) {
    let drawn = VectorSet::clusters(&Clusters {
        rows: ROWS + QUERIES,
        dim: DIM,
        ..Clusters::default()
    });
    let (rows, asked) = drawn.hold_out(QUERIES);
    let table = HnswTable::build(rows.as_slice(), DIM, &HnswConfig::new(Metric::L2)).unwrap();
    (table, asked.rows().map(<[f32]>::to_vec).collect())
}

/// One core, whose caches hold a third of the graph.
fn part() -> Part {
    Part {
        domains: 1,
        cores: 1,
        l1_bytes: 4 << 10,
        l2_bytes: 32 << 10,
        l3_bytes: 256 << 10,
        ..Part::named("genoa-9654").unwrap()
    }
}

/// What the model counts of a run with one worker, as a record of emulated caches.
fn record(graph: &HnswTable, asked: &[Vec<f32>]) -> Record {
    let machine = Machine::new(part(), Wiring::Straight, 4096, false);
    let mut core = machine.core(Some(0));
    let traffic = Traffic::new(1, Arrivals::Steady { rate: 1.0 }).group(Group::new(0..1, QUERIES));
    let arrivals = traffic.stream().unwrap().take(2 * COUNTED);
    for (number, arrival) in arrivals.enumerate() {
        if number == COUNTED {
            machine.begin();
        }
        let mut read = |read: chiplet::index::Read| {
            let section = match read.part {
                Section::Rows => 0,
                Section::Links => SECTION,
                Section::Upper => 2 * SECTION,
                Section::Full => 3 * SECTION,
            };
            let access = Access {
                address: section + read.offset,
                bytes: read.bytes.into(),
                write: false,
                atomic: false,
                pc: 0,
            };
            core.access(&machine, access);
        };
        let query = &asked[arrival.query];
        graph.search_observed(query, 10, EF, &mut read).unwrap();
    }
    let counts = machine.counts()[0];
    Record {
        note: String::new(),
        machine: part(),
        constants: Constants {
            skew: 0.0,
            tables: 1,
            rows: ROWS,
            dim: DIM,
            ef: EF,
            warm: COUNTED,
            queries: COUNTED,
            under_way: 1,
            ..Constants::default()
        },
        runs: vec![RunRecord {
            strategy: "ccd-aware".to_owned(),
            queries: COUNTED as u64,
            instructions: 1,
            l3_misses: counts.l3_misses,
            lines_across: counts.lines_across,
            ..RunRecord::default()
        }],
    }
}

/// The cases where the simulator is told of an L3 of so many bytes.
fn compare(record: &Record, searched: &Searched, l3_bytes: u64) -> Vec<Case> {
    let part = Part { l3_bytes, ..part() };
    let mut machine = emulated::machine(&part, DIM);
    // The model is not told of anything but rows and links.
    machine.costs.own_bytes = 0;
    emulated::cases(record, &machine, searched).unwrap()
}

#[test]
fn the_same_reads_miss_as_often_and_a_simulator_with_another_cache_is_found_out() {
    let (graph, asked) = graph();
    let record = record(&graph, &asked);
    let searched = graphs::recorded([Ok((graph, asked))].into_iter(), EF, 0.0).unwrap();
    let right = compare(&record, &searched, 256 << 10);
    assert_eq!(right.len(), 2);
    for case in &right {
        assert!(case.measured.median > 50.0, "{case:?}");
        assert!(case.is_within(), "{case:?}");
    }
    for wrong in [128, 512] {
        for case in compare(&record, &searched, wrong << 10) {
            assert!(!case.is_within(), "{wrong} KiB: {case:?}");
        }
    }
    let text = case::show(&right);
    assert_eq!(text.matches("within").count(), 2, "{text}");
}
