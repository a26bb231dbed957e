//! Why the planner remaps, and where it puts a new table: each against a count from nothing.

use chiplet_policy::{
    Balance, DomainSpec, DomainTally, Home, Homes, RemapReason, TriggerConfig, assign_home,
};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{ROUNDING, at, secs, table, usage};
use crate::planner::{MIB, planner, second};

/// A second's bytes of a table: many cold, few hot, some far too hot for one domain.
fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 4 => 0..10 * MIB, 3 => 50 * MIB..300 * MIB, 1 => 500 * MIB..3_000 * MIB]
}

proptest! {
    /// Whatever the traffic does, a remap comes after its pause, says truly why, and is worth it.
    #[test]
    fn every_remap_has_a_cause_and_a_gain(
        phases in proptest::collection::vec(
            (1_u64..90, proptest::collection::vec(any_bytes(), 12)),
            1..6,
        ),
        domain_count in 2_u32..5,
    ) {
        let mut planner = planner(domain_count, 12);
        let config = TriggerConfig::default();
        let cooldown = config.cooldown.expect("placements change");
        let (mut now, mut free_at) = (0, cooldown);
        for (length, bytes) in phases {
            for _ in 0..length {
                now += 1;
                for (slot, &bytes) in (0..).zip(&bytes) {
                    planner.record(table(slot), at(now), usage(bytes));
                }
                let before = planner.balance(at(now));
                let Some(remap) = planner.tick(at(now)) else {
                    continue;
                };
                prop_assert!(secs(now) >= free_at, "{now}: {}", remap.reason);
                free_at = secs(now) + cooldown;
                let after = planner.balance(at(now));
                let lowered = |before: Balance, after: Balance| {
                    after.peak <= before.peak * (1.0 - config.min_gain) * ROUNDING
                };
                match remap.reason {
                    RemapReason::Imbalance { before: was, after: is } => {
                        prop_assert_eq!((was, is), (before.0.imbalance(), after.0.imbalance()));
                        prop_assert!(lowered(before.0, after.0), "{before:?} {after:?}");
                    }
                    RemapReason::Resized { .. } => prop_assert!(false, "no worker came or went"),
                }
            }
        }
    }

    /// Against a count from nothing: the planner keeps its tallies up to date as tables come, go and move.
    #[test]
    fn a_new_table_goes_where_a_fresh_count_says(
        bytes in proptest::collection::vec(any_bytes(), 1..20),
        removed in proptest::collection::btree_set(0_u32..20, 0..10),
        domain_count in 1_u32..6,
        seconds in 0_u64..40,
    ) {
        // Sizes of any order, so that bytes and tables count differently.
        let size = |slot: u32| u64::from(slot * 7 % 5) * MIB;
        let mut planner = planner(domain_count, 0);
        for slot in 0..bytes.len() as u32 {
            planner.add_table(table(slot), size(slot));
        }
        for now in 1..=seconds {
            second(&mut planner, now, &bytes);
        }
        for &slot in &removed {
            planner.remove_table(table(slot));
        }
        let placement = planner.placement();
        let tallies: Vec<DomainTally> = (0..domain_count)
            .map(|id| {
                let here = || placement.iter().filter(move |(_, homes)| homes.contains(DomainId(id)));
                let share = |homes: &Homes| {
                    homes.iter().find(|home| home.domain.0 == id).map_or(0.0, Home::share)
                };
                let rate = |table| planner.traffic(table, at(seconds)).slow;
                DomainTally {
                    spec: DomainSpec::new(DomainId(id), 8),
                    load: here().map(|(table, homes)| rate(table) * share(homes)).sum(),
                    bytes: here().map(|(table, _)| size(table.slot) as f64).sum(),
                    tables: here().count() as u32,
                }
            })
            .collect();
        let tally = |homes: &Homes| tallies[homes.main().domain.0 as usize];
        let got = tally(&planner.add_table(table(99), MIB));
        let expected = *assign_home(&tallies).unwrap();
        // Sums in another order differ by a rounding, and then either is right.
        let nearly = (got.load - expected.load).abs() <= 1e-3;
        prop_assert!(nearly, "{got:?} {expected:?}");
        if tallies.iter().all(|tally| tally.load == 0.0) {
            prop_assert_eq!(got, expected);
        }
    }
}
