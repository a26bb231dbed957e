//! Relief of the domains above the goal: what leaves them, and where it goes.
//!
//! Whole tables move first, then single homes of tables that have to have several. Homes that a table has for its load
//! alone stay: their weights have been shifted already.

use std::collections::BTreeSet;

use super::draft::Draft;
use super::item::Item;
use super::several;

/// Moves whole tables until no domain has more than `goal` load per core, or nothing more can go.
pub(super) fn unload(draft: &mut Draft, goal: f64) {
    let machine = draft.machine;
    let room = |draft: &Draft, domain: usize| goal * machine.cores(domain) - draft.load[domain];
    let mut overloaded: Vec<usize> = (0..machine.len())
        .filter(|&domain| room(draft, domain) < 0.0)
        .collect();
    overloaded.sort_by(|&a, &b| draft.level(b).total_cmp(&draft.level(a)).then(a.cmp(&b)));
    for domain in overloaded {
        let mut tables = movable(draft, domain, |item| item.wanted == 1);
        while room(draft, domain) < 0.0 {
            let most = machine.highest(|receiver| room(draft, receiver));
            let excess = -room(draft, domain);
            let Some((part, index)) = choose(&tables, excess, room(draft, most)) else {
                break;
            };
            tables.remove(&(part, index));
            draft.take_out(index);
            draft.put_on(index, &[most]);
        }
    }
}

/// Moves one home from the busiest domain to another that is below the goal: the smallest part that is all that is too
/// much, or the largest. Returns whether there was one.
pub(super) fn shift_home(draft: &mut Draft, goal: f64) -> bool {
    let machine = draft.machine;
    let busiest = machine.highest(|domain| draft.level(domain));
    let excess = draft.load[busiest] - goal * machine.cores(busiest);
    // Homes that are spread over all packages stay so.
    let has_to_have_several = |item: &Item| item.least_homes > 1 && !item.everywhere;
    let homes = movable(draft, busiest, has_to_have_several);
    let enough = homes.range((excess.max(0.0).to_bits(), 0)..);
    let less = homes.range(..(excess.max(0.0).to_bits(), 0)).rev();
    let mut moves = enough.chain(less).filter_map(|&(_, index)| {
        let homes: Vec<usize> = draft.shares(index).map(|(domain, _)| domain).collect();
        let room = |domain: usize| match homes.contains(&domain) {
            true => 0.0,
            false => goal * machine.cores(domain) - draft.load[domain],
        };
        let receiver = machine.highest(room);
        let kept = homes.iter().copied().filter(|&domain| domain != busiest);
        (room(receiver) > 0.0).then(|| (index, kept.chain([receiver]).collect::<Vec<usize>>()))
    });
    let Some((index, homes)) = moves.next() else {
        return false;
    };
    several::pour_over(draft, index, &homes);
    true
}

/// Tables by their load on a domain, as bits: the order of floats that are not negative is that of their bits.
type ByLoad = BTreeSet<(u64, usize)>;

/// The tables of this kind with load on a domain.
fn movable(draft: &Draft, domain: usize, kind: impl Fn(&Item) -> bool) -> ByLoad {
    let of_kind = |&index: &usize| draft.items[index].load > 0.0 && kind(&draft.items[index]);
    let here = |index: usize| {
        let part = draft.shares(index).find(|&(other, _)| other == domain)?.1;
        Some((part.to_bits(), index))
    };
    (0..draft.items.len())
        .filter(of_kind)
        .filter_map(here)
        .collect()
}

/// The table to move out of a domain with `excess` into one with `room`, both in units of load: the smallest that ends
/// the excess, or else the largest for which there is room.
fn choose(tables: &ByLoad, excess: f64, room: f64) -> Option<(u64, usize)> {
    if room <= 0.0 {
        return None;
    }
    let enough = tables
        .range((excess.to_bits(), 0)..)
        .next()
        .filter(|(bits, _)| f64::from_bits(*bits) <= room);
    let part = || {
        tables
            .range(..=(excess.min(room).to_bits(), usize::MAX))
            .next_back()
    };
    enough.or_else(part).copied()
}
