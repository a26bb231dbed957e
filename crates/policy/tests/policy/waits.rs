//! Tables that are placed by time: what the planner promises of waits, and of bytes that go cold.

use std::time::Duration;

use chiplet_policy::{
    DomainSpec, PlaceBy, Placement, Planner, PlannerConfig, Remap, RemapReason, Usage,
    predicted_wait,
};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{at, planned_by, table};
use crate::time::{CACHE, MIB, cached_beside_bound, with_caches};

fn planner(config: PlannerConfig, specs: Vec<DomainSpec>, sizes: &[u64]) -> Planner {
    let mut planner = Planner::new(config, specs);
    for (slot, &size) in (0..).zip(sizes) {
        planner.add_table(table(slot), size);
    }
    planner
}

/// One second in which table `i` asks for `loads[i]` core-seconds.
fn second(planner: &mut Planner, now: u64, loads: &[f64], bytes: u64) -> Option<Remap> {
    for (slot, &load) in (0..).zip(loads) {
        let busy = Duration::from_secs_f64(load);
        planner.record(table(slot), at(now), Usage { busy, bytes });
    }
    planner.tick(at(now))
}

/// The predicted wait of all queries together, weighted by load.
fn mean_wait(placement: &Placement, specs: &[DomainSpec], load: impl Fn(u32) -> f64) -> f64 {
    let (mut waits, mut total) = (0.0, 0.0);
    for spec in specs {
        let here: f64 = placement
            .iter()
            .flat_map(|(id, homes)| homes.iter().map(move |home| (id, home)))
            .filter(|(_, home)| home.domain == spec.id)
            .map(|(id, home)| load(id.slot) * home.share())
            .sum();
        waits += here * predicted_wait(spec.cores, here / f64::from(spec.cores));
        total += here;
    }
    if total > 0.0 { waits / total } else { 0.0 }
}

proptest! {
    /// Whatever the load does.
    #[test]
    fn a_remap_lowers_the_predicted_wait(
        phases in proptest::collection::vec(
            (1_u64..60, proptest::collection::vec(prop_oneof![3 => 0.0..0.5, 2 => 0.0..8.0], 12)),
            1..5,
        ),
        sizes in proptest::collection::vec(0..3 * CACHE, 12),
        domain_count in 2_u32..6,
    ) {
        let specs = with_caches(domain_count, 8);
        let config = planned_by(PlaceBy::Time);
        let mut planner = planner(config, specs.clone(), &sizes);
        let mut now = 0;
        for (length, loads) in phases {
            for _ in 0..length {
                now += 1;
                let old = planner.placement();
                let Some(remap) = second(&mut planner, now, &loads, 1_000) else { continue };
                let waits = |load: &dyn Fn(u32) -> f64| {
                    (mean_wait(&old, &specs, load), mean_wait(&remap.placement, &specs, load))
                };
                let (before, after) = waits(&|slot| planner.load(table(slot), at(now)).fast);
                match remap.reason {
                    RemapReason::Imbalance { .. } => prop_assert!(after < before, "{before} {after}"),
                    RemapReason::Resized { .. } => prop_assert!(false, "no worker came or went"),
                }
            }
        }
    }

    #[test]
    fn nothing_moves_at_low_utilisation(
        loads in proptest::collection::vec(0.0..0.4, 2..60),
        homes in any::<u64>(),
        seconds in 11_u64..80,
    ) {
        // On two domains, all that is asked for would keep one of them two fifths busy at most.
        let total: f64 = loads.iter().sum();
        let loads: Vec<f64> = loads.iter().map(|load| load * (3.2 / total).min(1.0)).collect();
        let mut planner = planner(planned_by(PlaceBy::Time), with_caches(2, 8), &vec![MIB; loads.len()]);
        // Which tables are idle, and so how lopsided it is, is left to chance.
        let loads: Vec<f64> = (0..)
            .zip(loads)
            .map(|(slot, load)| if homes >> (slot % 64) & 1 == 1 { load } else { 0.0 })
            .collect();
        for now in 1..seconds {
            let remap = second(&mut planner, now, &loads, 100 * MIB);
            prop_assert!(remap.is_none(), "{:?}", remap.map(|remap| remap.reason));
        }
    }

    /// Whatever the tables' sizes: nobody waits for one of eight workers that are busy for a fifth of their time.
    #[test]
    fn no_table_moves_where_nobody_waits(
        loads in proptest::collection::vec(0.0..0.4, 2..60),
        sizes in proptest::collection::vec(prop_oneof![0..CACHE, 0..1_000 * CACHE], 60),
        seconds in 11_u64..80,
    ) {
        let total: f64 = loads.iter().sum();
        let loads: Vec<f64> = loads.iter().map(|load| load * (1.6 / total).min(1.0)).collect();
        let sizes = &sizes[..loads.len()];
        let mut planner = planner(planned_by(PlaceBy::Time), with_caches(2, 8), sizes);
        for now in 1..seconds {
            let remap = second(&mut planner, now, &loads, 100 * MIB);
            prop_assert!(remap.is_none(), "{:?}", remap.map(|remap| remap.reason));
        }
    }

    #[test]
    fn steady_load_is_remapped_once_at_most(
        loads in proptest::collection::vec(0.0..4.0, 1..40),
        domain_count in 1_u32..9,
    ) {
        let specs = with_caches(domain_count, 8);
        let mut planner = planner(planned_by(PlaceBy::Time), specs, &vec![MIB; loads.len()]);
        let remaps = (1..200)
            .filter(|&now| second(&mut planner, now, &loads, 0).is_some())
            .count();
        prop_assert!(remaps <= 1, "{remaps}");
    }
}

#[test]
fn a_home_that_is_asked_for_more_than_its_time_is_relieved_before_the_window_has_passed() {
    let specs = with_caches(2, 8);
    let mut planner = planner(planned_by(PlaceBy::Time), specs, &[MIB; 6]);
    let mut loads = [1.0; 6];
    for now in 1..=120 {
        assert!(second(&mut planner, now, &loads, 1_000).is_none());
    }
    let placement = planner.placement();
    let home = |slot| {
        placement
            .homes(table(slot))
            .map(|homes| homes.main().domain)
    };
    let neighbours: Vec<u32> = (1..6).filter(|&slot| home(slot) == home(0)).collect();
    // Two tables of one home ask for ten of its eight cores.
    (loads[0], loads[neighbours[0] as usize]) = (5.0, 5.0);
    let remapped = (121..=125).find(|&now| second(&mut planner, now, &loads, 1_000).is_some());
    assert!(remapped.is_some());
    // By traffic nobody knows how full a domain is.
    let mut config = planned_by(PlaceBy::Traffic);
    config.trigger.cooldown = Some(Duration::from_secs(600));
    let mut planner = self::planner(config, with_caches(2, 8), &[MIB; 6]);
    for now in 1..=300 {
        assert!(second(&mut planner, now, &loads, 1_000).is_none());
    }
}

/// The same through the planner, in one run for each.
#[test]
fn the_planners_disagree_in_the_same_way() {
    let (specs, _, asked) = cached_beside_bound();
    let busiest = |placing| {
        // New tables are dealt out in turn, so every other one is of a kind.
        let mut planner = planner(planned_by(placing), specs.clone(), &[4 * MIB; 16]);
        for now in 1..=60 {
            for slot in 0..16 {
                let (load, bytes) = asked[if slot % 2 == 0 { 0 } else { 8 }];
                let usage = Usage {
                    busy: Duration::from_secs_f64(load),
                    bytes: bytes as u64,
                };
                planner.record(table(slot), at(now), usage);
            }
            planner.tick(at(now));
        }
        let placement = planner.placement();
        let load = |id: u32| -> f64 {
            let here = placement
                .iter()
                .filter(|(_, homes)| homes.contains(DomainId(id)));
            here.map(|(table, _)| asked[if table.slot % 2 == 0 { 0 } else { 8 }].0)
                .sum()
        };
        load(0).max(load(1)) / 8.0
    };
    assert!(busiest(PlaceBy::Traffic) > 0.95);
    assert!(busiest(PlaceBy::Time) < 0.75);
}

#[test]
fn tables_that_report_no_bytes_are_placed_by_time() {
    let mut planner = planner(planned_by(PlaceBy::Time), with_caches(2, 8), &[0; 4]);
    let remap = (1..20)
        .find_map(|now| second(&mut planner, now, &[3.6, 0.0, 3.6, 0.0], 0))
        .expect("a domain at 90 % beside an idle one");
    assert_eq!(remap.cold_bytes, 0);
    let placement = planner.placement();
    assert_ne!(placement.homes(table(0)), placement.homes(table(2)));
}

#[test]
fn a_flooded_table_gets_as_many_homes_as_it_would_saturate() {
    // One table asks for what 20 of 96 cores can do; its home serves 8 and refuses the rest.
    let mut planner = planner(planned_by(PlaceBy::Time), with_caches(12, 8), &[MIB; 12]);
    let mut loads = [0.01; 12];
    loads[0] = 20.0;
    for now in 1..60 {
        second(&mut planner, now, &loads, MIB);
    }
    let homes = planner.placement().homes(table(0)).unwrap().clone();
    // At 70 % each: 20 / 5.6.
    assert_eq!(homes.len(), 4, "{homes}");
}

#[test]
fn a_cooldown_of_all_time_keeps_the_placement_still() {
    for placing in [PlaceBy::Time, PlaceBy::Traffic] {
        let mut config = planned_by(placing);
        config.trigger.cooldown = None;
        let mut planner = planner(config, with_caches(2, 8), &[MIB; 4]);
        for now in 1..100 {
            assert!(second(&mut planner, now, &[9.0, 0.0, 9.0, 0.0], 1 << 30).is_none());
        }
        // What has to move, moves.
        assert!(planner.resize(at(100), &[8, 0]).is_some());
        assert!(planner.tick(at(101)).is_none());
    }
}
