//! A look costs as much as the tables that are in use, and decides as if it had seen all.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn table(slot: u32) -> TableId {
    let generation = 1;
    TableId { slot, generation }
}

fn planner(placing: PlaceBy, packages: u32) -> Planner {
    let mapper = MapperConfig::new().placing(placing);
    let domain = |id| DomainSpec {
        cache_bytes: 1 << 20,
        package: id % packages,
        ..DomainSpec::new(DomainId(id), 4)
    };
    let config = PlannerConfig::new().mapper(mapper);
    let mut planner = Planner::new(config, (0..4).map(domain).collect());
    planner.set_memory_budget(8 << 20);
    planner
}

fn usage(millis: u64) -> Usage {
    Usage {
        busy: Duration::from_millis(millis),
        bytes: millis << 20,
    }
}

#[test]
fn a_look_sees_the_tables_in_use() {
    let mut planner = planner(PlaceBy::Time, 1);
    for slot in 0..10_000 {
        planner.add_table(table(slot), 1 << 20);
    }
    let mut seen = Vec::new();
    for second in 0..200_u64 {
        if second < 60 {
            (0..100).for_each(|slot| {
                planner.record(table(slot * 7), Time::from_secs(second), usage(10));
            });
        }
        planner.tick(Time::from_secs(second));
        seen.push(planner.see(planner.latest).slow.len());
    }
    assert_eq!((seen[0], seen[59], seen[100]), (100, 100, 100));
    assert_eq!(
        seen[199], 0,
        "nobody has asked for anything for two minutes"
    );
}

#[derive(Clone, Debug)]
enum Act {
    Add(u32, u64, Option<u32>),
    Remove(u32),
    Resize(u32, u64),
    /// So much by each of so many tables.
    Use(u32, u32, u64),
    Tick(u64),
    Cores([u32; 4]),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (0_u32..24, 0_u64..4 << 20, proptest::option::of(0_u32..2))
            .prop_map(|(slot, size, package)| Act::Add(slot, size, package)),
        1 => (0_u32..24).prop_map(Act::Remove),
        1 => (0_u32..24, 0_u64..4 << 20).prop_map(|(slot, size)| Act::Resize(slot, size)),
        6 => (0_u32..24, 1_u32..6, 0_u64..40_000).prop_map(|(slot, count, millis)| Act::Use(slot, count, millis)),
        6 => prop_oneof![1_u64..3, 5_u64..90].prop_map(Act::Tick),
        1 => proptest::array::uniform4(0_u32..5).prop_map(Act::Cores),
    ]
}

proptest! {
    #[test]
    fn it_decides_as_if_it_had_seen_all(
        acts in proptest::collection::vec(any_act(), 1..200),
        by_time: bool,
        packages in 1_u32..3,
    ) {
        let placing = if by_time { PlaceBy::Time } else { PlaceBy::Traffic };
        let mut few = planner(placing, packages);
        let mut all = Planner { sees_all: true, ..few.clone() };
        let mut now = 0;
        for slot in 0..12 {
            let added = [&mut few, &mut all].map(|planner| planner.add_table(table(slot), 1 << 19));
            prop_assert_eq!(&added[0], &added[1]);
        }
        for act in acts {
            let remaps = [&mut few, &mut all].map(|planner| match act {
                Act::Add(slot, size, package) => {
                    planner.add_table_on(table(slot), size, package);
                    None
                }
                Act::Remove(slot) => {
                    planner.remove_table(table(slot));
                    None
                }
                Act::Resize(slot, size) => {
                    planner.set_size(table(slot), size);
                    None
                }
                Act::Use(slot, count, millis) => {
                    for slot in slot..slot + count {
                        planner.record(table(slot), Time::from_secs(now), usage(millis));
                    }
                    None
                }
                Act::Tick(seconds) => planner.tick(Time::from_secs(now + seconds)),
                Act::Cores(cores) => planner.resize(Time::from_secs(now), &cores),
            });
            if let Act::Tick(seconds) = act {
                now += seconds;
            }
            let [one, other] = remaps.map(|remap| remap.map(|remap| (remap.moves, remap.reason, remap.cold_bytes)));
            prop_assert_eq!(one, other);
            prop_assert_eq!(few.placement(), all.placement());
            prop_assert_eq!(few.home_for_new(), all.home_for_new());
            // Counted move by move it is what a count of everything gives.
            let mut counted = Tallies::new(&few.domains, by_time);
            for (table, homes) in few.placement.iter() {
                counted.add(homes, 0.0, few.memories.of(table).0);
            }
            counted.take_loads(&few.tallies);
            prop_assert_eq!(&counted, &few.tallies);
        }
    }
}
