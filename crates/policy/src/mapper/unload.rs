//! Relief of the domains above the goal: what leaves them, and where it goes.
//!
//! Whole tables move, and single homes of tables that have to have several. Homes that a table has for its load alone
//! stay: their weights have been shifted already.

use std::collections::BTreeSet;

use super::draft::{Draft, Spot, for_each_share};
use super::item::Item;
use super::machine::Machine;
use super::several;

/// Moves tables and homes until no domain has more than `goal` load per core, or nothing more can go.
pub(super) fn unload(draft: &mut Draft, items: &[Item], machine: &Machine, goal: f64, near: f64) {
    let limit = |domain: usize| goal * machine.cores(domain);
    let mut overloaded: Vec<usize> = (0..machine.len())
        .filter(|&domain| draft.load[domain] > limit(domain))
        .collect();
    let level = |draft: &Draft, domain: usize| draft.load[domain] / machine.cores(domain);
    overloaded.sort_by(|&a, &b| level(draft, b).total_cmp(&level(draft, a)).then(a.cmp(&b)));

    let mut movable = movable_tables(draft, items, &overloaded);
    let mut moved = vec![false; items.len()];
    for (domain, tables) in overloaded.iter().zip(&mut movable) {
        while draft.load[*domain] > limit(*domain) {
            let excess = draft.load[*domain] - limit(*domain);
            let room = |receiver: usize| limit(receiver) - draft.load[receiver];
            let mut receiver = (1..machine.len()).fold(0, |best, other| {
                if room(other) > room(best) {
                    other
                } else {
                    best
                }
            });
            let Some((part, index)) = choose(tables, excess, room(receiver)) else {
                break;
            };
            tables.remove(&(part, index));
            if items[index].wanted > 1 {
                // Another of its homes may have moved, so that this one has more of it by now.
                if !moved[index] {
                    let part = f64::from_bits(part);
                    let room =
                        |draft: &Draft, receiver| limit(receiver) - draft.load[receiver] - part;
                    moved[index] = move_home(draft, index, &items[index], *domain, machine, room);
                }
                continue;
            }
            draft.take_out(index, &items[index]);
            if machine.by_time() {
                receiver = draft.receiver(&items[index], machine, near, goal);
            }
            draft.put(index, &items[index], Spot::One(receiver));
        }
    }
}

/// Moves one home from the busiest domain to another that is below the goal: the smallest part that is all that is too
/// much, or the largest. Returns whether there was one.
pub(super) fn shift_home(draft: &mut Draft, items: &[Item], machine: &Machine, goal: f64) -> bool {
    let level = |domain: usize| draft.load[domain] / machine.cores(domain);
    let busiest = (1..machine.len()).fold(0, |most, other| {
        if level(other) > level(most) {
            other
        } else {
            most
        }
    });
    let excess = draft.load[busiest] - goal * machine.cores(busiest);
    let tables = movable_tables(draft, items, &[busiest]).remove(0);
    let enough = tables.range((excess.max(0.0).to_bits(), 0)..);
    let less = tables.range(..(excess.max(0.0).to_bits(), 0)).rev();
    let room = |draft: &Draft, receiver| goal * machine.cores(receiver) - draft.load[receiver];
    enough
        .chain(less)
        .filter(|(_, index)| items[*index].wanted > 1)
        .any(|&(_, index)| move_home(draft, index, &items[index], busiest, machine, room))
}

/// Moves the home on `from` to the domain with the most room, if one that is no home yet has any. Returns whether one
/// had.
fn move_home(
    draft: &mut Draft,
    index: usize,
    item: &Item,
    from: usize,
    machine: &Machine,
    room: impl Fn(&Draft, usize) -> f64,
) -> bool {
    let mut homes = several::homes_of(&draft.spots[index], item);
    let receiver = (0..machine.len())
        .filter(|domain| !homes.contains(domain) && room(draft, *domain) > 0.0)
        .reduce(|best, other| {
            if room(draft, other) > room(draft, best) {
                other
            } else {
                best
            }
        });
    let Some(receiver) = receiver else {
        return false;
    };
    homes.retain(|&domain| domain != from);
    homes.push(receiver);
    several::put_on(draft, index, item, &homes, machine);
    true
}

/// Tables by their load on a domain, as bits: the order of floats that are not negative is that of their bits.
type ByLoad = BTreeSet<(u64, usize)>;

/// For each of `domains`, the tables with load there that may leave it.
fn movable_tables(draft: &Draft, items: &[Item], domains: &[usize]) -> Vec<ByLoad> {
    let mut movable = vec![ByLoad::new(); domains.len()];
    let mut place_in_list = vec![None; draft.load.len()];
    for (place, &domain) in domains.iter().enumerate() {
        place_in_list[domain] = Some(place);
    }
    for (index, spot) in draft.spots.iter().enumerate() {
        let item = &items[index];
        // Homes that are spread over all packages stay so.
        let has_to_have_several = item.least_homes > 1 && !item.everywhere;
        if item.load == 0.0 || item.wanted > 1 && !has_to_have_several {
            continue;
        }
        for_each_share(item, spot, |domain, part| {
            if let Some(place) = place_in_list[domain] {
                movable[place].insert((part.to_bits(), index));
            }
        });
    }
    movable
}

/// The table to move out of a domain with `excess` into one with `room`, both in units of load.
///
/// Preferred is the smallest that ends the excess at once without moving more than twice of it; then the
/// largest that is all excess; then the smallest that ends it at all.
fn choose(tables: &ByLoad, excess: f64, room: f64) -> Option<(u64, usize)> {
    if room <= 0.0 {
        return None;
    }
    let load = |bits: u64| f64::from_bits(bits);
    let enough = tables
        .range((excess.to_bits(), 0)..)
        .next()
        .filter(|(bits, _)| load(*bits) <= room);
    if let Some(&(bits, index)) = enough
        && load(bits) <= 2.0 * excess
    {
        return Some((bits, index));
    }
    let part = tables
        .range(..=(excess.min(room).to_bits(), usize::MAX))
        .next_back();
    part.or(enough).copied()
}
