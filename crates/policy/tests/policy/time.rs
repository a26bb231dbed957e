//! Tables that are placed by time: what the mapper promises then.

use chiplet_policy::{
    Demand, DomainSpec, Homes, MapperConfig, PlaceBy, Placement, assign_homes, balance,
};
use chiplet_topology::DomainId;
use proptest::prelude::*;

use crate::common::{ROUNDING, placed, table};

pub const MIB: u64 = 1 << 20;
pub const CACHE: u64 = 32 * MIB;

/// Whole tables only.
fn whole() -> MapperConfig {
    MapperConfig::new()
        .saturation(1e9)
        .relax(1e9)
        .hot_share(1e9)
}

/// Equal domains with caches, in packages of eight.
pub fn with_caches(count: u32, cores: u32) -> Vec<DomainSpec> {
    (0..count)
        .map(|id| DomainSpec {
            cache_bytes: CACHE,
            package: id / 8,
            ..DomainSpec::new(DomainId(id), cores)
        })
        .collect()
}

/// A load in core-seconds per second, and a size.
fn any_demand() -> impl Strategy<Value = (f64, u64)> {
    let load = prop_oneof![2 => Just(0.0), 5 => 0.0..0.5, 3 => 0.0..6.0];
    let size = prop_oneof![Just(0), 0..CACHE, 0..8 * CACHE];
    (load, size)
}

fn demands(asked: &[(f64, u64)]) -> Vec<Demand> {
    (0..)
        .zip(asked)
        .map(|(slot, &(load, size))| Demand {
            size,
            ..Demand::new(table(slot), load)
        })
        .collect()
}

proptest! {
    #[test]
    fn no_domain_ends_above_the_bound_of_the_greedy(
        asked in proptest::collection::vec(any_demand(), 1..60),
        homes in proptest::collection::vec(any::<prop::sample::Index>(), 60),
        count in 1_u32..17,
    ) {
        let (config, specs) = (whole(), with_caches(count, 8));
        let demands = demands(&asked);
        let hottest = asked.iter().map(|asked| asked.0).fold(0.0, f64::max);
        let total: f64 = asked.iter().map(|asked| asked.0).sum();
        let cores = f64::from(8 * count);
        let bound = (total + f64::from(count - 1) * hottest) / cores;
        let somewhere = homes.iter().map(|home| Homes::single(specs[home.index(specs.len())].id));
        let current = Placement::default().next((0..).map(table).zip(somewhere));
        for current in [None, Some(&current)] {
            let peak = assign_homes(&demands, &specs, current, &config).balance.peak;
            let slack = (1.0 + config.stay) * 1.002 * ROUNDING;
            prop_assert!(peak <= bound * slack, "{peak} {bound}");
        }
    }

    #[test]
    fn nothing_moves_twice_by_time_either(
        before in proptest::collection::vec(any_demand(), 1..60),
        after in proptest::collection::vec(any_demand(), 1..60),
        count in 1_u32..17,
    ) {
        let (config, specs) = (MapperConfig::default(), with_caches(count, 8));
        let old = placed(&assign_homes(&demands(&before), &specs, None, &config));
        let after = demands(&after);
        let first = placed(&assign_homes(&after, &specs, Some(&old), &config));
        let second = placed(&assign_homes(&after, &specs, Some(&first), &config));
        prop_assert!(second.diff(&first).is_empty(), "{:?}", second.diff(&first));
    }

}

/// Domain 0 is busy for 40 % of its time with tables that are in its cache and so read fast. Domain 1 is busy for 95 %
/// with tables that wait for memory.
pub fn cached_beside_bound() -> (Vec<DomainSpec>, Placement, Vec<(f64, f64)>) {
    let asked: Vec<(f64, f64)> = (0..16)
        .map(|slot| if slot < 8 { (0.4, 6e9) } else { (0.95, 3e9) })
        .collect();
    let homes = (0..16).map(|slot| (table(slot), Homes::single(DomainId(slot / 8))));
    (with_caches(2, 8), Placement::default().next(homes), asked)
}

#[test]
fn by_bytes_the_busy_domain_gets_tables_and_by_time_it_gives_some() {
    let (specs, current, asked) = cached_beside_bound();
    let moved = |placing| {
        let demands: Vec<Demand> = (0..)
            .zip(&asked)
            .map(|(slot, &(time, traffic))| Demand {
                size: 4 * MIB,
                ..Demand::new(
                    table(slot),
                    if placing == PlaceBy::Time {
                        time
                    } else {
                        traffic
                    },
                )
            })
            .collect();
        let config = MapperConfig::new().placing(placing);
        let new = placed(&assign_homes(&demands, &specs, Some(&current), &config));
        let moves = new.diff(&current);
        assert!(!moves.is_empty());
        moves
            .into_iter()
            .map(|step| step.from.unwrap().main().domain.0)
            .collect::<Vec<_>>()
    };
    assert!(moved(PlaceBy::Traffic).iter().all(|&from| from == 0));
    assert!(moved(PlaceBy::Time).iter().all(|&from| from == 1));
}

#[test]
fn the_balance_of_loads_is_utilisation() {
    let demands = demands(&[(4.0, 0), (2.0, 0)]);
    let homes = [0, 1].map(|id| Homes::single(DomainId(id)));
    let seen = balance(
        demands,
        |id| homes.get(id.slot as usize),
        &with_caches(2, 8),
    );
    assert_eq!((seen.peak, seen.mean), (0.5, 0.375));
}
