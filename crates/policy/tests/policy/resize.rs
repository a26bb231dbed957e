//! Domains lose cores and get them back while tables have homes there.

use chiplet_policy::{Planner, RemapReason};
use proptest::prelude::*;

use crate::common::{at, domains, planned_by_traffic, table, usage};

fn planner(domain_count: u32, tables: u32) -> Planner {
    let mut planner = Planner::new(planned_by_traffic(), domains(domain_count, 8));
    for slot in 0..tables {
        planner.add_table(table(slot), 1 << 20);
    }
    planner
}

#[test]
fn tables_leave_a_domain_without_cores_at_once_and_the_others_stay() {
    let mut planner = planner(4, 12);
    let before = planner.placement();
    let remap = planner
        .resize(at(1), &[8, 0, 8, 8])
        .expect("three tables are homeless");
    assert_eq!(
        remap.reason,
        RemapReason::Resized {
            workers_before: 32,
            workers_after: 24
        }
    );
    assert_eq!(remap.moves.len(), 3);
    for moved in &remap.moves {
        let from = before.homes(moved.table).unwrap();
        assert_eq!(from.main().domain.0, 1, "{moved}");
        assert_ne!(moved.to.as_ref().unwrap().main().domain.0, 1, "{moved}");
    }
    // One each: idle tables go where the fewest are.
    let mut receivers: Vec<u32> = remap
        .moves
        .iter()
        .map(|moved| moved.to.as_ref().unwrap().main().domain.0)
        .collect();
    receivers.sort_unstable();
    assert_eq!(receivers, [0, 2, 3]);
    assert!(planner.resize(at(2), &[8, 0, 8, 8]).is_none());
}

#[test]
fn a_domain_that_comes_back_gets_its_share_of_the_traffic() {
    let mut planner = planner(2, 4);
    planner.resize(at(1), &[8, 0]);
    for second in 2..70 {
        for slot in 0..4 {
            planner.record(table(slot), at(second), usage(1 << 30));
        }
        planner.tick(at(second));
    }
    let remap = planner
        .resize(at(70), &[8, 8])
        .expect("half of the traffic is worth moving");
    assert_eq!(remap.moves.len(), 2, "{:?}", remap.moves);
    let (fast, slow) = planner.balance(at(70));
    assert!(fast.imbalance() < 0.01 && slow.imbalance() < 0.01);
}

proptest! {
    #[test]
    fn homes_have_cores_whatever_comes_and_goes(
        steps in proptest::collection::vec((proptest::collection::vec(0_u32..4, 5), proptest::collection::vec(0_u64..1 << 32, 20)), 1..20),
    ) {
        let mut planner = planner(5, 20);
        for (now, (cores, bytes)) in (0..).map(|step| step * 7).zip(steps) {
            for (slot, &bytes) in (0..).zip(&bytes) {
                planner.record(table(slot), at(now), usage(bytes));
            }
            let mut cores = cores;
            cores[(now % 5) as usize] = 1;
            let before = planner.placement();
            let remap = planner.resize(at(now), &cores);
            let placement = planner.placement();
            prop_assert_eq!(placement.iter().len(), 20);
            prop_assert_eq!(placement.version(), before.version() + u64::from(remap.is_some()));
            for (table, homes) in placement.iter() {
                for home in homes {
                    prop_assert!(cores[home.domain.0 as usize] > 0, "{} lives on {}", table, homes);
                }
            }
            // A second look at the same machine moves nothing.
            prop_assert!(planner.resize(at(now), &cores).is_none());
            planner.tick(at(now + 1));
            for (table, homes) in planner.placement().iter() {
                for home in homes {
                    prop_assert!(cores[home.domain.0 as usize] > 0, "{} moved to {}", table, homes);
                }
            }
        }
    }
}
