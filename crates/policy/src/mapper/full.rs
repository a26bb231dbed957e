//! Where tables are placed by time and the whole machine is asked for all of it, bytes decide between boards.
//!
//! A full machine waits for memory, and how long depends on what its caches have. Time tells little of that then: a
//! domain that waits for the socket is as busy as one that computes, and greedy boards by time put small tables beside
//! streams on all domains. A draft that balances bytes gives streams domains of their own more often. So it is looked
//! at too, and taken if its busiest domain is no busier than the mapper lets any be, and its caches have [`MORE`] of
//! what is read ([`super::misses`]). Only on one socket: what lies on another's memory costs more than a miss.

use super::draft::{Draft, Spot};
use super::greedy;
use super::idle;
use super::input::{Demand, DomainSpec, FULL, PlaceBy};
use super::item::Item;
use super::machine::Machine;
use super::misses::missed;
use super::relabel::keep_most_at_home;
use super::several;

/// How many times as much caches must have of what is read. Boards that differ by less are alike, and none is worth a
/// move.
const MORE: f64 = 1.03;

/// `draft`, or one that balances bytes and is better. No domain of that has more than `goal` load per core.
pub(super) fn or_by_bytes(
    draft: Draft,
    items: &[Item],
    machine: &Machine,
    goal: f64,
    stay: f64,
) -> Draft {
    let load: f64 = items.iter().map(|item| item.load).sum();
    let read: f64 = items.iter().map(|item| item.traffic).sum();
    let package = |domain: usize| machine.spec(domain).package;
    // Balanced by bytes alone, tables would leave their memory.
    let is_one_socket = (1..machine.len()).all(|domain| package(domain) == package(0));
    let is_full = machine.by_time() && machine.mean(load) >= FULL;
    if !is_full || !is_one_socket || read == 0.0 {
        return draft;
    }
    let mut other = by_bytes(items, machine, stay);
    keep_most_at_home(&mut other, items, machine);
    idle::put(&mut other, items, machine);
    let is_level = other.rounded_peak(items, machine) <= goal;
    let found = |draft: &Draft| read - missed(draft, items, machine);
    match is_level && found(&other) > MORE * found(&draft) {
        true => other,
        false => draft,
    }
}

/// From scratch, as the greedy does it where tables are placed by traffic. A table that needs several homes has as many
/// as it reads fair shares of the bytes.
fn by_bytes(items: &[Item], machine: &Machine, stay: f64) -> Draft {
    let specs: Vec<DomainSpec> = machine.specs().to_vec();
    let bytes = Machine::new(&specs, PlaceBy::Traffic);
    let fair = items.iter().map(|item| item.traffic).sum::<f64>() / bytes.len() as f64;
    let weighed = items.iter().map(|item| {
        let demand = Demand {
            least_homes: item.least_homes as u32,
            ..Demand::new(item.table, item.traffic)
        };
        let mut weighed = Item::new(&demand, None, &bytes);
        if item.wanted > 1 && item.traffic > 0.0 {
            let shares = (item.traffic / fair).ceil() as usize;
            weighed.wanted = shares.clamp(item.least_homes, bytes.len());
        }
        weighed
    });
    let (by_traffic, _) = greedy::from_scratch(&weighed.collect::<Vec<_>>(), &bytes, stay);
    let mut draft = Draft::new(items.len(), machine);
    for (index, (spot, item)) in by_traffic.spots.into_iter().zip(items).enumerate() {
        if item.load == 0.0 {
            continue;
        }
        // Of what reads nothing that is known, only the load says where homes are to be.
        if item.traffic == 0.0 && item.least_homes > 1 {
            several::put(&mut draft, index, item, &[], machine);
            continue;
        }
        let spot = match spot {
            Spot::Several(shares) => {
                let load = |bytes: f64| bytes * item.load / item.traffic;
                let shares = shares.into_iter();
                Spot::Several(
                    shares
                        .map(|(domain, bytes)| (domain, load(bytes)))
                        .collect(),
                )
            }
            Spot::One(domain) => Spot::One(domain),
            // It reads nothing that is known.
            Spot::AsNow | Spot::Nowhere => {
                Spot::One(draft.receiver(item, machine, 0.0, f64::INFINITY))
            }
        };
        draft.put(index, item, spot);
    }
    draft
}

#[cfg(test)]
mod tests {
    use chiplet_topology::DomainId;
    use proptest::prelude::*;

    use super::*;
    use crate::mapper::{MapperConfig, assign_homes, gather, incremental};
    use crate::{Homes, Placement, TableId};

    const CORES: u32 = 8;
    const CACHE: u64 = 32 << 20;

    fn domains(count: u32) -> Vec<DomainSpec> {
        let domain = |id| DomainSpec {
            cache_bytes: CACHE,
            ..DomainSpec::new(DomainId(id), CORES)
        };
        (0..count).map(domain).collect()
    }

    /// Tables of so many caches that read so many GB a second, and ask for `use_of` of the machine in all, each for so
    /// many parts.
    fn demands(tables: &[(f64, f64, f64)], domains: u32, use_of: f64) -> Vec<Demand> {
        let parts: f64 = tables.iter().map(|table| table.2).sum();
        let cores = f64::from(domains * CORES);
        let demand = |(slot, &(caches, rate, part)): (u32, &(f64, f64, f64))| Demand {
            size: (caches * CACHE as f64) as u64,
            traffic: rate * 1e9,
            ..Demand::new(
                TableId {
                    slot,
                    generation: 0,
                },
                part / parts * cores * use_of,
            )
        };
        (0..).zip(tables).map(demand).collect()
    }

    /// What caches have of what is read with the draft by time, as near to `current` as balance allows, and with what
    /// is taken instead, whether that is another, and by how much its busiest domain is above what is allowed.
    fn compared(
        demands: &[Demand],
        domains: &[DomainSpec],
        current: Option<&Placement>,
    ) -> ([f64; 2], bool, f64) {
        let machine = Machine::new(domains, PlaceBy::Time);
        let config = MapperConfig::default();
        let total = demands.iter().map(|demand| demand.load).sum();
        let items = gather(demands, &machine, current, |item| {
            several::homes_wanted(item, total, &machine, &config)
        });
        let (mut fresh, goal) = greedy::from_scratch(&items, &machine, config.stay);
        idle::put(&mut fresh, &items, &machine);
        let near = config.stay * machine.mean(total);
        let kept = incremental::from_current(&items, &machine, goal, near);
        let draft = kept.unwrap_or(fresh);
        let read: f64 = items.iter().map(|item| item.traffic).sum();
        let (spots, before) = (draft.spots.clone(), missed(&draft, &items, &machine));
        let taken = or_by_bytes(draft, &items, &machine, goal, config.stay);
        assert!(!taken.spots.contains(&Spot::Nowhere));
        let found = [before, missed(&taken, &items, &machine)].map(|missed| read - missed);
        let over = taken.rounded_peak(&items, &machine) / goal - 1.0;
        (found, taken.spots != spots, over)
    }

    /// The paper's lists as a seed draws them: caches, GB a second, parts of the time. The small ones are read from
    /// caches, so they take less time for each byte.
    const LISTS: [(f64, f64, f64); 15] = [
        (1.6, 23.5, 0.237),
        (1.9, 11.3, 0.15),
        (19.1, 56.7, 1.14),
        (1.7, 6.3, 0.09),
        (0.2, 0.84, 0.01),
        (17.1, 30.2, 0.57),
        (1.7, 4.2, 0.06),
        (2.8, 4.2, 0.07),
        (0.6, 1.7, 0.02),
        (0.2, 0.4, 0.005),
        (264.5, 205.4, 4.405),
        (1.9, 3.4, 0.05),
        (4.4, 4.2, 0.08),
        (0.1, 0.4, 0.003),
        (112.4, 67.6, 1.376),
    ];

    #[test]
    fn a_full_machine_of_lists_has_more_of_them_in_its_caches() {
        // Each where it was put before anything was known of it.
        let full = demands(&LISTS, 8, 1.0);
        let first = |table: &Demand| Homes::single(DomainId(table.table.slot % 8));
        let first = full.iter().map(|table| (table.table, first(table)));
        let current = Placement::default().next(first);
        let ([before, after], other, over) = compared(&full, &domains(8), Some(&current));
        assert!(
            other && after > MORE * before,
            "{before} {after} {other} {over}"
        );
        assert!(over <= 0.0, "{over}");
        // Half as much, and time decides alone.
        let half = demands(&LISTS, 8, 0.5);
        assert!(!compared(&half, &domains(8), Some(&current)).1);
    }

    proptest! {
        #[test]
        fn what_is_taken_finds_more_and_is_as_level(
            tables in proptest::collection::vec((0.01..300.0, 0.0..100.0, 0.01..2.0), 1..24),
            count in 1_u32..9,
        ) {
            let domains = domains(count);
            let ([before, after], other, over) = compared(&demands(&tables, count, 1.0), &domains, None);
            prop_assert!(!other || (after > MORE * before && over <= 1e-9), "{} {}", before, after);
            prop_assert!(!compared(&demands(&tables, count, 0.9), &domains, None).1);
        }

        #[test]
        fn what_is_taken_stays(
            tables in proptest::collection::vec((0.01..300.0, 0.0..100.0, 0.01..2.0), 1..24),
            count in 1_u32..9,
        ) {
            let (domains, demands) = (domains(count), demands(&tables, count, 1.0));
            let config = MapperConfig::default();
            let mut homes = assign_homes(&demands, &domains, None, &config).homes;
            // A table that got several homes wants as many as it has from then on, which may take a second look.
            for _ in 0..2 {
                let current = Placement::default().next(homes);
                homes = assign_homes(&demands, &domains, Some(&current), &config).homes;
            }
            let current = Placement::default().next(homes.clone());
            prop_assert_eq!(assign_homes(&demands, &domains, Some(&current), &config).homes, homes);
        }
    }
}
