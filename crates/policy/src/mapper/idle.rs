//! Seats for tables without load.
//!
//! Nothing is gained by moving them, so they stay at home if they have one. Homes that are still missing go where the
//! fewest tables per core are. Several homes of one table get equal weights.

use super::board::{Board, Seat};
use super::item::Item;
use super::machine::Machine;
use super::several;

/// Seats the items without load that sit nowhere.
pub(super) fn seat(board: &mut Board, items: &[Item], machine: &Machine) {
    let idle: Vec<usize> = (0..items.len())
        .filter(|&index| items[index].load == 0.0 && board.seats[index] == Seat::Nowhere)
        .collect();
    for &index in &idle {
        let item = &items[index];
        if item.can_stay() {
            board.sit(index, item, Seat::AsNow);
        } else {
            board.sit(index, item, seat_on(&item.heaviest_homes()));
        }
    }
    for &index in &idle {
        let item = &items[index];
        let keep = item.heaviest_homes();
        if keep.len() == item.wanted {
            continue;
        }
        board.rise(index, item);
        let tables: Vec<f64> = board.tables.iter().map(|&count| f64::from(count)).collect();
        let level = |domain: usize| (tables[domain] + 1.0) / machine.cores(domain);
        let homes = match item.wanted {
            1 => vec![machine.least_loaded(&tables, 1.0)],
            _ => several::choose(item, &keep, level, machine),
        };
        board.sit(index, item, seat_on(&homes));
    }
}

/// The seat of a table without load.
fn seat_on(homes: &[usize]) -> Seat {
    match homes {
        [] => Seat::Nowhere,
        [home] => Seat::One(*home),
        several => Seat::Several(several.iter().map(|&domain| (domain, 0.0)).collect()),
    }
}
