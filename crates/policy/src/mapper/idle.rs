//! Homes for tables without load.
//!
//! Nothing is gained by moving them, so they stay at home if they have one. Homes that are still missing go where the
//! fewest tables per core are. Several homes of one table get equal weights.

use super::draft::{Draft, Spot};
use super::item::Item;
use super::machine::Machine;
use super::several;

/// Puts the items without load that are nowhere.
pub(super) fn put(draft: &mut Draft, items: &[Item], machine: &Machine) {
    let idle: Vec<usize> = (0..items.len())
        .filter(|&index| items[index].load == 0.0 && draft.spots[index] == Spot::Nowhere)
        .collect();
    for &index in &idle {
        let item = &items[index];
        if item.can_stay() {
            draft.put(index, item, Spot::AsNow);
        } else {
            draft.put(index, item, spot_on(&item.heaviest_homes()));
        }
    }
    for &index in &idle {
        let item = &items[index];
        let keep = item.heaviest_homes();
        if keep.len() == item.wanted {
            continue;
        }
        draft.take_out(index, item);
        let tables: Vec<f64> = draft.tables.iter().map(|&count| f64::from(count)).collect();
        let level = |domain: usize| (tables[domain] + 1.0) / machine.cores(domain);
        let homes = match item.wanted {
            1 => vec![machine.least_loaded(&tables, 1.0)],
            _ => several::choose(item, &keep, level, machine),
        };
        draft.put(index, item, spot_on(&homes));
    }
}

/// The spot of a table without load.
fn spot_on(homes: &[usize]) -> Spot {
    match homes {
        [] => Spot::Nowhere,
        [home] => Spot::One(*home),
        several => Spot::Several(several.iter().map(|&domain| (domain, 0.0)).collect()),
    }
}
