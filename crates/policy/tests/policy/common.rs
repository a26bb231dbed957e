//! Short ways to write tables, domains and demands.

use std::time::Duration;

use chiplet_policy::{
    Assignment, Demand, DomainSpec, Home, Homes, MapperConfig, PlaceBy, Placement, PlannerConfig,
    TableId, Time, TriggerConfig, Usage,
};
use chiplet_topology::DomainId;
use proptest::prelude::*;

/// Slack for sums in another order.
pub const ROUNDING: f64 = 1.0 + 1e-9;

pub fn table(slot: u32) -> TableId {
    TableId {
        slot,
        generation: 0,
    }
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// So many seconds after the beginning.
pub fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

/// Tables 0, 1, ... with these loads.
pub fn demands(loads: impl IntoIterator<Item = f64>) -> Vec<Demand> {
    loads
        .into_iter()
        .zip(0..)
        .map(|(load, slot)| Demand::new(table(slot), load))
        .collect()
}

/// The byte-balanced mapper of the paper.
pub fn by_traffic() -> MapperConfig {
    MapperConfig::new().placing(PlaceBy::Traffic)
}

/// The same for whole tables only, so that a placement is a schedule of jobs on machines.
pub fn whole() -> MapperConfig {
    by_traffic().saturation(1e9).hot_share(1e9)
}

/// A planner that places by this.
pub fn planned_by(placing: PlaceBy) -> PlannerConfig {
    let mapper = MapperConfig::new().placing(placing);
    PlannerConfig::new().mapper(mapper)
}

/// The planner of the paper.
pub fn planned_by_traffic() -> PlannerConfig {
    planned_by(PlaceBy::Traffic)
}

/// Both measures.
pub fn any_placing() -> impl proptest::strategy::Strategy<Value = PlaceBy> {
    prop_oneof![Just(PlaceBy::Time), Just(PlaceBy::Traffic)]
}

/// What a table uses that pulls so many bytes, if its core waits for memory at 100 MB/s.
pub fn usage(bytes: u64) -> Usage {
    Usage {
        busy: Duration::from_nanos(bytes * 10),
        bytes,
    }
}

/// Equal domains.
pub fn domains(count: u32, cores: u32) -> Vec<DomainSpec> {
    let domain = |id| DomainSpec::new(DomainId(id), cores);
    (0..count).map(domain).collect()
}

/// Domains of any sizes, with gaps between their ids.
pub fn any_domains() -> impl proptest::strategy::Strategy<Value = Vec<DomainSpec>> {
    proptest::collection::vec(1_u32..=16, 1..20).prop_map(|specs| {
        let domain =
            |(position, cores): (u32, u32)| DomainSpec::new(DomainId(3 * position + 1), cores);
        (0..).zip(specs).map(domain).collect()
    })
}

/// Traffics as they come: many cold, few hot.
pub fn any_traffic() -> impl proptest::strategy::Strategy<Value = Vec<f64>> {
    let one = prop_oneof![2 => Just(0.0), 5 => 0.0..10.0, 2 => 0.0..1_000.0];
    proptest::collection::vec(one, 0..120)
}

/// The assignment as version `version` of a placement.
pub fn placed(assignment: &Assignment) -> Placement {
    Placement::default().next(assignment.homes.clone())
}

/// Checks what holds of the homes of any table.
pub fn assert_valid(homes: &Homes, domains: &[DomainSpec]) {
    assert!(!homes.as_slice().is_empty());
    assert_eq!(
        homes.iter().map(|home| home.weight).sum::<u32>(),
        Home::WHOLE
    );
    assert!(homes.as_slice().is_sorted_by(|a, b| a.domain < b.domain));
    for home in homes {
        assert!(home.weight > 0);
        assert!(domains.iter().any(|spec| spec.id == home.domain));
    }
}

/// The strain at which the pause is a whole horizon: each step above the burst doubles it.
pub fn most_strain(config: &TriggerConfig) -> u32 {
    let cooldown = config.cooldown.expect("placements change");
    let longest = config.horizon.max(cooldown);
    let mut pause = cooldown;
    let mut strain = config.burst.expect("there is a brake");
    while pause < longest {
        // One of zero could be doubled for ever.
        pause = 2 * pause.max(longest / 1024).max(Duration::from_nanos(1));
        strain += 1;
    }
    strain
}

/// The most remaps in a run of this length, whatever the load does: the bound that `src/trigger.rs` proves.
pub fn most_remaps(config: &TriggerConfig, run: Duration) -> u64 {
    let cooldown = config.cooldown.expect("placements change");
    let horizon = config.horizon.max(cooldown).as_nanos().max(1);
    2 * (run.as_nanos() / horizon) as u64 + u64::from(most_strain(config)) + 1
}
