//! Homes and placements keep their invariants; a diff says exactly what changed.

use std::collections::BTreeMap;

use chiplet_policy::{Home, Homes, Placement, TableId};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{assert_valid, domains, table};

fn any_homes() -> impl Strategy<Value = Homes> {
    let share = prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        -1.0..0.0,
        1e-9..1e9,
        0.5..2.0
    ];
    proptest::collection::vec((0_u32..12, share), 1..14).prop_filter_map("no share", |shares| {
        Homes::from_shares(shares.into_iter().map(|(id, share)| (DomainId(id), share)))
    })
}

fn any_placement() -> impl Strategy<Value = BTreeMap<TableId, Homes>> {
    proptest::collection::btree_map((0_u32..20).prop_map(table), any_homes(), 0..20)
}

proptest! {
    #[test]
    fn homes_are_sorted_and_their_weights_make_a_whole(homes in any_homes()) {
        assert_valid(&homes, &domains(12, 8));
        prop_assert!(homes.contains(homes.main().domain));
    }

    #[test]
    fn weights_make_the_same_homes_again(homes in any_homes()) {
        let mut weights = homes.as_slice().to_vec();
        weights.reverse();
        prop_assert_eq!(Homes::from_weights(weights.clone()), Some(homes));
        let first = weights[0];
        weights[0].weight += 1;
        prop_assert_eq!(Homes::from_weights(weights.clone()), None, "more than a whole");
        weights[0].weight = first.weight - 1;
        weights.push(Home { weight: 1, ..first });
        prop_assert_eq!(Homes::from_weights(weights.clone()), None, "a domain twice");
        weights.pop();
        weights[0] = first;
        weights.push(Home { domain: DomainId(99), weight: 0 });
        prop_assert_eq!(Homes::from_weights(weights), None, "a home without weight");
    }

    #[test]
    fn weights_are_within_a_part_of_their_exact_shares(
        shares in proptest::collection::vec(1.0..100.0, 2..12),
    ) {
        let total: f64 = shares.iter().sum();
        let named = shares.iter().zip(0..).map(|(&share, id)| (DomainId(id), share));
        let homes = Homes::from_shares(named).unwrap();
        for (home, share) in homes.iter().zip(&shares) {
            let exact = share / total * f64::from(Home::WHOLE);
            let slack = 1.0 + shares.len() as f64;
            prop_assert!((f64::from(home.weight) - exact).abs() <= slack, "{home:?} {exact}");
        }
    }

    #[test]
    fn a_whole_of_turns_gives_each_home_exactly_its_weight(homes in any_homes(), first in any::<u32>()) {
        let mut turns: BTreeMap<DomainId, u32> = BTreeMap::new();
        for turn in 0..Home::WHOLE {
            *turns.entry(homes.pick(first.wrapping_add(turn))).or_default() += 1;
        }
        let expected: BTreeMap<_, _> = homes.iter().map(|home| (home.domain, home.weight)).collect();
        prop_assert_eq!(turns, expected);
    }

    #[test]
    fn few_turns_are_spread_in_proportion_already(homes in any_homes(), first in any::<u32>()) {
        let turns = 200;
        for home in &homes {
            let got = (0..turns).filter(|turn| homes.pick(first.wrapping_add(*turn)) == home.domain);
            let exact = home.share() * f64::from(turns);
            // A golden-ratio sequence strays from proportion by a few turns, whatever its length.
            prop_assert!((got.count() as f64 - exact).abs() <= 6.0, "{home:?} {exact}");
        }
    }

    #[test]
    fn a_diff_turns_the_old_placement_into_the_new(old in any_placement(), new in any_placement()) {
        let old = Placement::default().next(old);
        let new = old.next(new);
        let moves = new.diff(&old);
        prop_assert!(moves.is_sorted_by(|a, b| a.table < b.table));
        let mut rebuilt: BTreeMap<TableId, Homes> =
            old.iter().map(|(table, homes)| (table, homes.clone())).collect();
        for step in &moves {
            prop_assert_ne!(&step.from, &step.to);
            prop_assert_eq!(step.from.as_ref(), old.homes(step.table));
            match step.to.clone() {
                Some(homes) => rebuilt.insert(step.table, homes),
                None => rebuilt.remove(&step.table),
            };
        }
        prop_assert_eq!(old.next(rebuilt), new.clone());
        prop_assert!(new.diff(&new).is_empty());
        prop_assert_eq!(new.version(), old.version() + 1);
    }

    #[test]
    fn a_move_gains_and_leaves_what_only_one_side_names(from in any_homes(), to in any_homes()) {
        prop_assume!(from != to);
        let old = Placement::default().next([(table(0), from.clone())]);
        let moves = old.next([(table(0), to.clone())]).diff(&old);
        for id in (0..12).map(DomainId) {
            let gained = moves[0].gained().any(|domain| domain == id);
            let left = moves[0].left().any(|domain| domain == id);
            prop_assert_eq!(gained, to.contains(id) && !from.contains(id));
            prop_assert_eq!(left, from.contains(id) && !to.contains(id));
        }
    }
}

#[test]
fn no_positive_share_makes_no_homes() {
    let shares = [0.0, -1.0, f64::NAN, f64::INFINITY].map(|share| (DomainId(0), share));
    assert_eq!(Homes::from_shares(shares), None);
}

#[test]
fn moves_print_for_a_log_line() {
    let several = Homes::from_shares([(DomainId(1), 0.4), (DomainId(2), 0.6)]).unwrap();
    let old = Placement::default().next([
        (table(0), Homes::single(DomainId(0))),
        (table(1), Homes::single(DomainId(0))),
    ]);
    let new = old.next([(table(0), several), (table(2), Homes::single(DomainId(3)))]);
    let lines: Vec<String> = new.diff(&old).iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "table 0: domain 0 -> domain 1 (40 %), domain 2 (60 %)",
            "table 1: domain 0 -> removed",
            "table 2: new -> domain 3",
        ]
    );
}
