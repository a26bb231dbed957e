//! Tables whose memory is known to lie near one package: a new one's home near it, and copies of it.

use std::time::Duration;

use chiplet_policy::{MemoryChange, MemoryStep, PlaceBy, Planner, PlannerConfig, Time, Usage};

use crate::common::table;
use crate::time::{CACHE, MIB, with_caches};

#[test]
fn a_new_table_goes_near_its_memory() {
    let specs = with_caches(16, 8);
    let mut planner = Planner::new(PlannerConfig::default(), specs.clone());
    let home = |planner: &mut Planner, slot, package| {
        let domain = planner
            .add_table_on(table(slot), CACHE, package)
            .main()
            .domain;
        let spec = specs.iter().find(|spec| spec.id == domain);
        spec.expect("homes are on the machine").package
    };
    for slot in 0..9 {
        assert_eq!(home(&mut planner, slot, Some(1)), 1, "table {slot}");
    }
    assert_eq!(home(&mut planner, 9, Some(0)), 0);
    // No domain is near that memory.
    assert_eq!(home(&mut planner, 10, Some(77)), 0);
}

#[test]
fn by_traffic_memory_does_not_count() {
    let mut config = PlannerConfig::default();
    config.mapper.placing = PlaceBy::Traffic;
    let mut planner = Planner::new(config, with_caches(16, 8));
    let mut plain = planner.clone();
    for slot in 0..40 {
        let homes = planner.add_table_on(table(slot), MIB, Some(1));
        assert_eq!(homes, plain.add_table(table(slot), MIB));
    }
    assert!(planner.tick(Time::from_secs(60)).is_none());
}

/// Package 0 has no workers any more: table 0 lives in package 1, and its memory in package 0.
fn moved_away() -> Planner {
    let mut planner = Planner::new(PlannerConfig::default(), with_caches(16, 8));
    planner.add_table_on(table(0), 64 * MIB, Some(0));
    let cores: Vec<u32> = (0..16)
        .map(|domain| if domain < 8 { 0 } else { 8 })
        .collect();
    assert!(planner.resize(Time::from_secs(1), &cores).is_some());
    planner
}

/// For so many seconds queries read so many bytes a second.
fn read(planner: &mut Planner, seconds: std::ops::RangeInclusive<u64>, bytes: u64) {
    for second in seconds {
        let now = Time::from_secs(second);
        let busy = Duration::from_millis(100);
        planner.record(table(0), now, Usage { busy, bytes });
        let _ = planner.tick(now);
    }
}

#[test]
fn memory_is_copied_to_where_a_table_lives_and_not_back_at_once() {
    let mut planner = moved_away();
    read(&mut planner, 2..=80, MIB);
    assert_eq!(planner.next_memory_step(), None, "60 of 64 MiB a minute");
    // A burst is not enough: the slow window has seen less.
    read(&mut planner, 81..=84, 8 * MIB);
    assert_eq!(planner.next_memory_step(), None);
    read(&mut planner, 85..=160, 8 * MIB);
    let step = planner.next_memory_step().expect("480 MiB a minute");
    let wanted = MemoryStep {
        table: table(0),
        package: 1,
        change: MemoryChange::Move,
    };
    assert_eq!(step, wanted);
    assert_eq!(planner.next_memory_step(), Some(wanted), "said again");
    let mut failed = planner.clone();
    failed.took(step, false);
    read(&mut failed, 161..=700, 8 * MIB);
    assert_eq!(failed.next_memory_step(), None, "not tried again at once");
    read(&mut failed, 701..=800, 8 * MIB);
    assert_eq!(failed.next_memory_step(), Some(wanted));
    planner.took(step, true);
    read(&mut planner, 161..=1_000, 8 * MIB);
    assert_eq!(planner.next_memory_step(), None, "it is there");
    // Another index, wherever its memory is.
    planner.set_memory(table(0), 64 * MIB, Some(0));
    assert_eq!(planner.next_memory_step(), None, "just now");
    read(&mut planner, 1_001..=1_011, 8 * MIB);
    assert_eq!(planner.next_memory_step(), Some(wanted));
    planner.remove_table(table(0));
    assert_eq!(planner.next_memory_step(), None);
    planner.took(step, true);
}

/// How many homes table 0 has in package 0 and in package 1, and what is to be done about its memory, after a minute
/// and a half in which it asked for half of a package's cores.
fn spread(budget: u64) -> ([usize; 2], Planner) {
    let specs = with_caches(16, 8);
    let mut planner = Planner::new(PlannerConfig::default(), specs.clone());
    planner.set_memory_budget(budget);
    planner.add_table_on(table(0), 64 * MIB, Some(0));
    for second in 1..=90 {
        let now = Time::from_secs(second);
        let busy = Duration::from_secs(32);
        let bytes = 1 << 30;
        planner.record(table(0), now, Usage { busy, bytes });
        let _ = planner.tick(now);
    }
    let placement = planner.placement();
    let homes = placement.homes(table(0)).expect("it was added");
    let in_package = |package| {
        let specs = specs.iter().filter(|spec| spec.package == package);
        specs.filter(|spec| homes.contains(spec.id)).count()
    };
    ([0, 1].map(in_package), planner)
}

#[test]
fn a_large_table_lives_on_all_packages_if_it_may_be_copied() {
    for budget in [0, 64 * MIB - 1] {
        let (homes, mut planner) = spread(budget);
        assert!(homes[0] > 4 && homes[1] == 0, "{homes:?}");
        assert_eq!(planner.next_memory_step(), None);
    }
    let (homes, mut planner) = spread(64 * MIB);
    assert!(
        homes[0] > 2 && homes[0].abs_diff(homes[1]) <= 1,
        "{homes:?}"
    );
    let step = MemoryStep {
        table: table(0),
        package: 1,
        change: MemoryChange::Copy,
    };
    assert_eq!(planner.next_memory_step(), Some(step));
    planner.took(step, true);
    assert_eq!(planner.next_memory_step(), None);
}

#[test]
fn by_traffic_no_memory_is_copied() {
    let mut config = PlannerConfig::default();
    config.mapper.placing = PlaceBy::Traffic;
    let mut planner = Planner::new(config, with_caches(16, 8));
    planner.set_memory_budget(u64::MAX);
    planner.add_table_on(table(0), MIB, Some(1));
    read(&mut planner, 1..=100, 64 * MIB);
    assert_eq!(planner.next_memory_step(), None);
}
