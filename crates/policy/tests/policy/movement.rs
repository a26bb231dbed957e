//! Remaps move as little as balance allows.

use chiplet_policy::{Demand, DomainSpec, Home, Homes, Placement, assign_homes, balance};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{
    ROUNDING, any_domains, any_traffic, by_traffic, demands, domains, placed, whole,
};

/// Bytes per second that are served elsewhere than before.
fn moved_traffic(demands: &[Demand], old: &Placement, new: &Placement) -> f64 {
    demands
        .iter()
        .map(|demand| {
            let weight = |placement: &Placement, domain| {
                let homes = placement.homes(demand.table).expect("placed");
                homes
                    .iter()
                    .find(|home| home.domain == domain)
                    .map_or(0, |home| home.weight)
            };
            let gained: u32 = new
                .homes(demand.table)
                .expect("placed")
                .iter()
                .map(|home| home.weight.saturating_sub(weight(old, home.domain)))
                .sum();
            demand.load * f64::from(gained) / f64::from(Home::WHOLE)
        })
        .sum()
}

proptest! {
    #[test]
    fn nothing_moves_when_traffic_is_unchanged(
        traffic in any_traffic(),
        domains in any_domains(),
    ) {
        let config = by_traffic();
        let demands = demands(traffic);
        let first = placed(&assign_homes(&demands, &domains, None, &config));
        let second = placed(&assign_homes(&demands, &domains, Some(&first), &config));
        prop_assert!(second.diff(&first).is_empty(), "{:?}", second.diff(&first));
    }

    #[test]
    fn nothing_moves_twice_after_any_change(
        before in any_traffic(),
        after in any_traffic(),
        domains in any_domains(),
    ) {
        let config = by_traffic();
        let old = placed(&assign_homes(&demands(before), &domains, None, &config));
        let demands = demands(after);
        let first = placed(&assign_homes(&demands, &domains, Some(&old), &config));
        let second = placed(&assign_homes(&demands, &domains, Some(&first), &config));
        prop_assert!(second.diff(&first).is_empty(), "{:?}", second.diff(&first));
    }

    /// With thresholds that the plan reaches by a hair: what counts is the balance under the rounded weights.
    #[test]
    fn nothing_moves_twice_however_narrowly_the_goal_is_reached(
        hot in proptest::collection::vec(300.0..1_000.0, 1..4),
        others in proptest::collection::vec(0.0..60.0, 4..30),
        shift in 1_usize..30,
        cores in proptest::collection::vec(1_u32..16, 3..12),
    ) {
        let ids = (0..).map(DomainId);
        let domains: Vec<_> = ids.zip(cores).map(|(id, cores)| DomainSpec::new(id, cores)).collect();
        let mut traffic = [hot, others].concat();
        let config = |stay| by_traffic().stay(stay);
        let old = placed(&assign_homes(&demands(traffic.clone()), &domains, None, &config(0.1)));
        let tables = traffic.len();
        traffic.rotate_right(shift % tables);
        let demands = demands(traffic);
        let best = assign_homes(&demands, &domains, Some(&Placement::default()), &config(0.0)).balance.peak;
        let near = assign_homes(&demands, &domains, Some(&old), &config(0.1)).balance.peak;
        for hair in -10..=10 {
            // The goal counts as reached a fifth of a per cent above it.
            let stay = near / (best * 1.002) - 1.0 + f64::from(hair) * 2e-6;
            if stay < 0.0 {
                continue;
            }
            let first = placed(&assign_homes(&demands, &domains, Some(&old), &config(stay)));
            let second = placed(&assign_homes(&demands, &domains, Some(&first), &config(stay)));
            prop_assert!(second.diff(&first).is_empty(), "{:?} {stay}", second.diff(&first));
        }
    }

    #[test]
    fn the_busiest_domain_ends_within_stay_of_the_best(
        before in any_traffic(),
        after in any_traffic(),
        domains in any_domains(),
    ) {
        // Whole tables only, so that the greedy is the whole of the best plan.
        let config = whole();
        let old = placed(&assign_homes(&demands(before), &domains, None, &config));
        let demands = demands(after);
        let best = assign_homes(&demands, &domains, None, &config).balance.peak;
        let got = assign_homes(&demands, &domains, Some(&old), &config).balance.peak;
        prop_assert!(got <= best * (1.0 + config.stay) * 1.003, "{got} {best}");
    }

    /// Wherever the tables are: a balance that is good enough, or no worse than the greedy's, is left alone.
    #[test]
    fn nothing_moves_without_a_reason(
        traffic in any_traffic(),
        domains in any_domains(),
        homes in proptest::collection::vec(any::<prop::sample::Index>(), 120),
        gathered in any::<bool>(),
    ) {
        let config = whole();
        let demands = demands(traffic);
        // Half the time from where the mapper itself would put them, a few astray; else from anywhere.
        let own = assign_homes(&demands, &domains, None, &config).homes;
        let old = Placement::default().next(demands.iter().zip(homes).map(|(demand, home)| {
            let astray = domains[home.index(domains.len())].id;
            let keep = gathered && home.index(40) > 0;
            let homes = if keep { own[&demand.table].clone() } else { Homes::single(astray) };
            (demand.table, homes)
        }));
        let new = placed(&assign_homes(&demands, &domains, Some(&old), &config));
        let under = |placement: &Placement| {
            balance(demands.iter().copied(), |table| placement.homes(table), &domains)
        };
        let best = assign_homes(&demands, &domains, None, &config).balance.peak;
        let goal = best * (1.0 + config.stay);
        let moves = new.diff(&old);
        if under(&old).peak <= goal / ROUNDING {
            prop_assert!(moves.is_empty(), "{:?} {goal}: {moves:?}", under(&old));
        }
        // Otherwise only domains above the goal give, unless nothing but the greedy's own balance will do.
        let level = |id: DomainId| {
            let cores = domains.iter().find(|spec| spec.id == id).expect("known").cores;
            let here = |demand: &&Demand| old.homes(demand.table) == Some(&Homes::single(id));
            demands.iter().filter(here).map(|demand| demand.load).sum::<f64>() / f64::from(cores)
        };
        let left_in_peace = moves.iter().flat_map(|step| step.left()).find(|&id| level(id) < goal / ROUNDING);
        if let Some(id) = left_in_peace {
            prop_assert!(under(&new).peak <= best * ROUNDING, "{id:?} gave for {:?}", under(&new));
        }
    }

    /// With many small tables the excess can always be moved piecewise, and nothing else should be.
    #[test]
    fn only_the_excess_leaves_an_overloaded_domain(
        traffic in proptest::collection::vec(1.0..3.0, 400..600),
        count in 2_u32..6,
        factor in 1.2..3.0,
    ) {
        let domains = domains(count, 8);
        let config = by_traffic().hot_share(1e9);
        let mut demands = demands(traffic);
        let old = placed(&assign_homes(&demands, &domains, None, &config));
        let hot_home = Homes::single(DomainId(0));
        for demand in &mut demands {
            if old.homes(demand.table) == Some(&hot_home) {
                demand.load *= factor;
            }
        }
        let new = placed(&assign_homes(&demands, &domains, Some(&old), &config));
        for step in new.diff(&old) {
            prop_assert_eq!(step.from, Some(hot_home.clone()), "only the hot domain gives");
        }
        let total: f64 = demands.iter().map(|demand| demand.load).sum();
        let on_hot = |placement: &Placement| -> f64 {
            demands
                .iter()
                .filter(|demand| placement.homes(demand.table) == Some(&hot_home))
                .map(|demand| demand.load)
                .sum()
        };
        let limit = total / f64::from(count) * (1.0 + config.stay);
        let excess = (on_hot(&old) - limit).max(0.0);
        let hottest = 3.0 * factor;
        prop_assert!(moved_traffic(&demands, &old, &new) <= excess + hottest);
        prop_assert!(on_hot(&new) <= limit * 1.02);
    }

    #[test]
    fn tables_without_traffic_stay_where_they_are(
        before in any_traffic(),
        after in any_traffic(),
        domains in any_domains(),
    ) {
        let config = by_traffic();
        let old = placed(&assign_homes(&demands(before), &domains, None, &config));
        let demands = demands(after);
        let new = placed(&assign_homes(&demands, &domains, Some(&old), &config));
        for demand in demands.iter().filter(|demand| demand.load == 0.0) {
            if let Some(homes) = old.homes(demand.table) {
                let expected = Homes::single(homes.main().domain);
                prop_assert_eq!(new.homes(demand.table), Some(&expected));
            }
        }
    }
}

#[test]
fn one_table_that_turns_hot_moves_alone() {
    let domains = domains(8, 8);
    let config = by_traffic();
    let mut demands = demands([10.0; 80]);
    let old = placed(&assign_homes(&demands, &domains, None, &config));
    demands[0].load = 50.0;
    let new = placed(&assign_homes(&demands, &domains, Some(&old), &config));
    let moved = moved_traffic(&demands, &old, &new);
    assert!(moved <= 50.0, "{moved} moved: {:?}", new.diff(&old));
}

#[test]
fn a_domain_that_is_gone_leaves_the_others_alone() {
    let all = domains(4, 8);
    let config = by_traffic();
    let demands = demands([1.0; 400]);
    let old = placed(&assign_homes(&demands, &all, None, &config));
    let new = placed(&assign_homes(&demands, &all[..3], Some(&old), &config));
    for step in new.diff(&old) {
        assert_eq!(step.from, Some(Homes::single(DomainId(3))));
    }
    assert_eq!(new.diff(&old).len(), 100);
}

/// Prints how long a remap of many tables takes; run with
/// `cargo test --release -p chiplet-policy --test policy -- --ignored --nocapture 10_000`.
#[test]
#[ignore = "prints a timing; nothing to assert"]
fn remap_of_10_000_tables_over_64_domains() {
    let domains = domains(64, 8);
    let config = by_traffic();
    // Popularity falls with the square root of a rank that is scattered over the tables.
    let skewed = |turn: u32| {
        let rank = |slot: u32| (slot.wrapping_mul(7_919) + turn) % 10_000;
        demands((0..10_000).map(|slot| 1e6 / f64::from(rank(slot) + 1).sqrt()))
    };
    let (before, after) = (skewed(0), skewed(5_000));
    let old = placed(&assign_homes(&before, &domains, None, &config));
    for (what, demands, current) in [
        ("from scratch", &before, None),
        ("unchanged", &before, Some(&old)),
        ("all ranks shifted", &after, Some(&old)),
    ] {
        let start = std::time::Instant::now();
        let assignment = assign_homes(demands, &domains, current, &config);
        let took = start.elapsed();
        let new = placed(&assignment);
        let moves = current.map_or(0, |old| new.diff(old).len());
        let imbalance = assignment.balance.imbalance();
        println!("{what}: {took:?}, {moves} moves, imbalance {imbalance:.3}");
    }
}
