//! The planner as its owner uses it: tables come and go, traffic changes, time goes by.

use chiplet_policy::{Homes, Planner, Rates, Remap, Time};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{
    any_placing, assert_valid, at, domains, planned_by, planned_by_traffic, table, usage,
};

pub const MIB: u64 = 1 << 20;

pub fn planner(domain_count: u32, tables: u32) -> Planner {
    let mut planner = Planner::new(planned_by_traffic(), domains(domain_count, 8));
    for slot in 0..tables {
        planner.add_table(table(slot), MIB);
    }
    planner
}

/// One second in which table `i` pulls `bytes[i]`.
pub fn second(planner: &mut Planner, now: u64, bytes: &[u64]) -> Option<Remap> {
    for (slot, &bytes) in (0..).zip(bytes) {
        planner.record(table(slot), at(now), usage(bytes));
    }
    planner.tick(at(now))
}

#[derive(Clone, Debug)]
enum Act {
    Add(u32, u64),
    Remove(u32),
    Record(u32, u64),
    Tick(u64),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0_u32..30, 0_u64..1 << 30).prop_map(|(slot, size)| Act::Add(slot, size)),
        (0_u32..30).prop_map(Act::Remove),
        (0_u32..30, 0_u64..1 << 34).prop_map(|(slot, bytes)| Act::Record(slot, bytes)),
        (0_u64..20).prop_map(Act::Tick),
    ]
}

proptest! {
    #[test]
    fn versions_rise_by_one_and_diffs_are_exact_whatever_happens(
        acts in proptest::collection::vec(any_act(), 1..150),
        placing in any_placing(),
    ) {
        let specs = domains(5, 4);
        let mut planner = Planner::new(planned_by(placing), specs.clone());
        let mut now = 0;
        for act in acts {
            let old = planner.placement();
            let changed = match act {
                Act::Add(slot, size) => {
                    let homes = planner.add_table(table(slot), size);
                    let placement = planner.placement();
                    prop_assert_eq!(placement.homes(table(slot)), Some(&homes));
                    old.homes(table(slot)).is_none()
                }
                Act::Remove(slot) => {
                    planner.remove_table(table(slot));
                    prop_assert!(planner.placement().homes(table(slot)).is_none());
                    prop_assert_eq!(planner.traffic(table(slot), at(now)), Rates::default());
                    old.homes(table(slot)).is_some()
                }
                Act::Record(slot, bytes) => {
                    planner.record(table(slot), at(now), usage(bytes));
                    false
                }
                Act::Tick(dt) => {
                    now += dt;
                    let remap = planner.tick(at(now));
                    if let Some(remap) = &remap {
                        prop_assert!(!remap.moves.is_empty());
                        prop_assert_eq!(&remap.moves, &remap.placement.diff(&old));
                        prop_assert_eq!(&remap.placement, &planner.placement());
                        prop_assert_eq!(remap.placement.iter().len(), old.iter().len());
                    }
                    remap.is_some()
                }
            };
            let new = planner.placement();
            prop_assert_eq!(new.version(), old.version() + u64::from(changed));
            if !changed {
                prop_assert!(new.diff(&old).is_empty());
            }
            for (_, homes) in new.iter() {
                assert_valid(homes, &specs);
            }
        }
    }

    #[test]
    fn equal_histories_give_equal_decisions(
        acts in proptest::collection::vec(any_act(), 1..100),
        placing in any_placing(),
    ) {
        let run = || {
            let mut planner = Planner::new(planned_by(placing), domains(5, 4));
            let (mut now, mut remaps) = (0, Vec::new());
            for act in acts.clone() {
                match act {
                    Act::Add(slot, size) => {
                        planner.add_table(table(slot), size);
                    }
                    Act::Remove(slot) => planner.remove_table(table(slot)),
                    Act::Record(slot, bytes) => planner.record(table(slot), at(now), usage(bytes)),
                    Act::Tick(dt) => {
                        now += dt;
                        let remap = planner.tick(at(now));
                        remaps.extend(remap.map(|remap| (remap.placement, remap.reason)));
                    }
                }
            }
            (planner.placement(), remaps)
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn steady_traffic_is_remapped_once_at_most(
        bytes in proptest::collection::vec(0_u64..500 * MIB, 1..40),
        domain_count in 1_u32..9,
    ) {
        let mut planner = planner(domain_count, bytes.len() as u32);
        let remaps = (1..200)
            .filter(|&now| second(&mut planner, now, &bytes).is_some())
            .count();
        prop_assert!(remaps <= 1, "{remaps}");
    }
}

#[test]
fn new_tables_without_traffic_are_dealt_out_evenly() {
    let planner = planner(4, 40);
    let placement = planner.placement();
    for id in 0..4 {
        let here = placement
            .iter()
            .filter(|(_, homes)| homes.contains(DomainId(id)));
        assert_eq!(here.count(), 10);
    }
    assert_eq!(placement.version(), 40);
}

#[test]
fn many_new_tables_do_not_all_go_to_the_domain_with_the_least_traffic() {
    let mut planner = planner(4, 4);
    for now in 1..20 {
        second(
            &mut planner,
            now,
            &[100 * MIB, 100 * MIB, 100 * MIB, 90 * MIB],
        );
    }
    let mut new_on = [0; 4];
    for slot in 100..120 {
        let homes = planner.add_table(table(slot), MIB);
        new_on[homes.main().domain.0 as usize] += 1;
    }
    assert_eq!(new_on, [5, 5, 5, 5]);
}

#[test]
fn nothing_moves_before_the_first_cooldown() {
    let mut early = planner(2, 4);
    for now in 1..10 {
        assert!(second(&mut early, now, &[900 * MIB, 0, 900 * MIB, 0]).is_none());
    }
    assert!(second(&mut early, 10, &[900 * MIB, 0, 900 * MIB, 0]).is_some());
}

#[test]
fn old_traffic_in_the_slow_window_does_not_undo_what_the_fast_one_did() {
    let mut planner = planner(4, 16);
    let hot = |first: u32| -> Vec<u64> {
        // Tables first, first + 4, ...: all on one domain at the start.
        (0..16)
            .map(|slot| if slot % 4 == first { 200 * MIB } else { MIB })
            .collect()
    };
    let mut remaps = Vec::new();
    for now in 1..=300 {
        let bytes = if now <= 150 { hot(0) } else { hot(1) };
        if let Some(remap) = second(&mut planner, now, &bytes) {
            remaps.push((now, remap.reason));
        }
    }
    assert_eq!(remaps.len(), 2, "one for each hot set: {remaps:?}");
    assert!((151..=160).contains(&remaps[1].0), "{remaps:?}");
    assert!(planner.balance(at(300)).0.imbalance() < 0.1);
}

#[test]
fn a_table_that_cools_down_may_stay_beside_one_that_was_hot_before() {
    let mut planner = planner(2, 4);
    let mut remaps = Vec::new();
    for now in 1..=250 {
        // Tables 0 and 1 live apart, 0 and 2 together: when 2 turns hot, table 0 has to go, and meets
        // table 1, which the slow window still takes for hot.
        let bytes = if now <= 150 {
            [200, 200, 1, 1]
        } else {
            [100, 1, 300, 1]
        };
        if let Some(remap) = second(&mut planner, now, &bytes.map(|mib| mib * MIB)) {
            remaps.push((now, remap.reason));
        }
    }
    assert_eq!(remaps.len(), 1, "{remaps:?}");
    let placement = planner.placement();
    assert_eq!(placement.homes(table(0)), placement.homes(table(1)));
}

/// A machine that can serve no more than its capacities, and one table that asks for 60 % of all.
#[test]
fn a_table_with_60_percent_of_all_traffic_grows_over_the_machine_though_its_traffic_is_capped() {
    let capacity = 1_000.0 * MIB as f64;
    let mut planner = planner(12, 41);
    let asked = |slot: u32| if slot == 0 { 0.6 } else { 0.01 } * 0.9 * 12.0 * capacity;
    let mut remaps = Vec::new();
    for now in 1..=300 {
        let placement = planner.placement();
        let mut load = [0.0; 12];
        for (id, homes) in placement.iter() {
            for home in homes {
                load[home.domain.0 as usize] += asked(id.slot) * home.share();
            }
        }
        let bytes: Vec<u64> = placement
            .iter()
            .map(|(id, homes)| {
                let served = |home: &chiplet_policy::Home| {
                    let full = capacity / load[home.domain.0 as usize];
                    asked(id.slot) * home.share() * full.min(1.0)
                };
                homes.iter().map(served).sum::<f64>() as u64
            })
            .collect();
        if let Some(remap) = second(&mut planner, now, &bytes) {
            remaps.push((now, remap.reason.to_string()));
        }
    }
    let placement = planner.placement();
    let homes = placement.homes(table(0)).unwrap();
    assert!((7..=9).contains(&homes.len()), "{homes}: {remaps:#?}");
    // A gain of less than a fifth is left.
    assert!(planner.balance(at(300)).0.imbalance() < 0.25, "{remaps:#?}");
    assert!(remaps.len() <= 5, "{remaps:#?}");
}

#[test]
fn a_removed_table_is_not_brought_back_by_its_last_queries() {
    let mut planner = planner(2, 2);
    planner.remove_table(table(0));
    planner.record(table(0), at(1), usage(MIB));
    assert_eq!(planner.traffic(table(0), at(1)), Rates::default());
    assert_eq!(planner.placement().iter().len(), 1);
}

#[test]
fn a_domain_whose_hot_tables_were_removed_is_the_first_to_get_a_new_one() {
    let mut planner = planner(3, 6);
    let bytes = [0, 0, 105_938_923, 0, 0, 1_686_606];
    for now in 1..=18 {
        second(&mut planner, now, &bytes);
    }
    // Taken off one by one, their traffics leave a rounding error behind, and that is no traffic.
    planner.remove_table(table(2));
    planner.remove_table(table(5));
    let empty = DomainId(2);
    assert!(
        planner
            .placement()
            .iter()
            .all(|(_, homes)| !homes.contains(empty))
    );
    assert_eq!(planner.add_table(table(6), MIB), Homes::single(empty));
}

#[test]
fn a_table_that_has_grown_is_in_the_way_of_new_ones() {
    let mut planner = planner(2, 2);
    let version = planner.placement().version();
    let of = |planner: &Planner, n| planner.placement().homes(table(n)).unwrap().main().domain;
    let (grown, other) = (of(&planner, 0), of(&planner, 1));
    assert_ne!(grown, other);
    planner.set_memory(table(0), 10 * MIB, None);
    planner.set_memory(table(9), 10 * MIB, None);
    assert_eq!(planner.placement().version(), version, "nothing has moved");
    let mut shrunk = planner.clone();
    assert_eq!(planner.add_table(table(2), MIB), Homes::single(other));
    shrunk.set_memory(table(0), 1, None);
    assert_eq!(shrunk.add_table(table(2), MIB), Homes::single(grown));
}

#[test]
fn a_table_that_grows_where_it_is_counts_as_one_that_was_replaced() {
    let mut planner = planner(2, 2);
    let mut replaced = planner.clone();
    planner.set_size(table(0), 10 * MIB);
    planner.set_size(table(9), 10 * MIB);
    replaced.set_memory(table(0), 10 * MIB, None);
    for slot in 2..6 {
        let homes = planner.add_table(table(slot), MIB);
        assert_eq!(homes, replaced.add_table(table(slot), MIB));
    }
    // What was added of its size is taken away with it, no more and no less.
    for planner in [&mut planner, &mut replaced] {
        planner.remove_table(table(0));
    }
    let next = planner.add_table(table(6), MIB);
    assert_eq!(next, replaced.add_table(table(6), MIB));
}

#[test]
fn snapshots_stay_as_they_were() {
    let mut planner = planner(2, 1);
    let before = planner.placement();
    assert_eq!(planner.add_table(table(1), MIB), Homes::single(DomainId(1)));
    assert_eq!((before.iter().len(), before.version()), (1, 1));
    assert_eq!(planner.placement().version(), 2);
}

#[test]
fn time_that_runs_backwards_does_no_harm() {
    let mut planner = planner(2, 4);
    for now in [50, 10, 70, 0] {
        second(&mut planner, now, &[900 * MIB, 0, 900 * MIB, 0]);
    }
    assert!(planner.tick(Time::MAX).is_none());
    assert_eq!(planner.placement().iter().len(), 4);
}

#[test]
#[should_panic(expected = "at least one domain")]
fn a_planner_without_domains_is_refused() {
    Planner::new(planned_by_traffic(), Vec::new());
}
