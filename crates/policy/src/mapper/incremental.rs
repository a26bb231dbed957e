//! Rebalancing that starts from the current placement and moves as little load as it can.
//!
//! 1. Everything stays where it is, except for tables whose number of homes changes, whose homes are
//!    gone, or that are new.
//! 2. If the busiest domain is at or under the goal, that is all.
//! 3. Tables with several homes shift their weights: no cache goes cold for that.
//! 4. From each domain above the goal, busiest first, tables go to the domain with the most room until
//!    it is at or under the goal. A receiver is never filled above the goal, so every table moves at most
//!    once. The choice of table keeps the load moved near the excess that has to go. Where tables are placed by time,
//!    caches and links decide between receivers that are about equally busy (`budget`).
//!
//! If that does not reach the goal, there is no incremental plan and the greedy's is taken.

use std::collections::BTreeSet;

use super::board::{Board, Seat};
use super::idle;
use super::item::{Item, hottest_first, main_home};
use super::machine::Machine;
use super::several;

/// How far above the goal still counts as reaching it: weights are rounded to parts of 2^16, which can
/// lift a domain by a thousandth, and such a trifle must not set tables moving.
const TOLERANCE: f64 = 0.002;

/// The current placement, changed until no domain has more than `goal` load per core; `None` if that cannot be done
/// this way, or if no table with load has a home to start from. Domains whose levels differ by `near` are equally
/// busy.
pub(super) fn from_current(
    items: &[Item],
    machine: &Machine,
    goal: f64,
    near: f64,
) -> Option<Board> {
    // By rounded weights, or what reaches the goal by a hair now would miss it at the next look, and move again.
    let reached = |board: &Board| board.rounded_peak(items, machine) <= goal * (1.0 + TOLERANCE);
    let order = hottest_first(items);
    if order.iter().all(|&index| items[index].homes().is_empty()) {
        return None;
    }
    let mut board = as_now(items, &order, machine, near);
    if reached(&board) {
        return Some(board);
    }
    let split: Vec<usize> = order
        .into_iter()
        .filter(|&index| items[index].wanted > 1)
        .collect();
    several::level(&mut board, &split, items, machine);
    if !reached(&board) {
        unload(&mut board, items, machine, goal, near);
        several::level(&mut board, &split, items, machine);
    }
    reached(&board).then_some(board)
}

/// Step 1: all items seated, none moved that need not be.
fn as_now(items: &[Item], order: &[usize], machine: &Machine, near: f64) -> Board {
    let mut board = Board::new(items.len(), machine);
    for (index, item) in items.iter().enumerate() {
        if item.can_stay() {
            board.sit(index, item, Seat::AsNow);
        } else if item.wanted == 1
            && let Some(home) = main_home(item)
        {
            board.sit(index, item, Seat::One(home));
        }
    }
    for &index in order {
        let item = &items[index];
        if board.seats[index] != Seat::Nowhere {
            continue;
        }
        if item.wanted > 1 {
            let keep = item.heaviest_homes();
            several::seat(&mut board, index, item, &keep, machine);
        } else {
            let domain = board.receiver(item, machine, near, f64::INFINITY);
            board.sit(index, item, Seat::One(domain));
        }
    }
    let poured: Vec<usize> = order
        .iter()
        .copied()
        .filter(|&index| matches!(board.seats[index], Seat::Several(_)))
        .collect();
    several::level(&mut board, &poured, items, machine);
    idle::seat(&mut board, items, machine);
    board
}

/// Step 4.
fn unload(board: &mut Board, items: &[Item], machine: &Machine, goal: f64, near: f64) {
    let limit = |domain: usize| goal * machine.cores(domain);
    let mut overloaded: Vec<usize> = (0..machine.len())
        .filter(|&domain| board.load[domain] > limit(domain))
        .collect();
    let level = |board: &Board, domain: usize| board.load[domain] / machine.cores(domain);
    overloaded.sort_by(|&a, &b| level(board, b).total_cmp(&level(board, a)).then(a.cmp(&b)));

    let mut movable = movable_tables(board, items, &overloaded);
    for (domain, tables) in overloaded.iter().zip(&mut movable) {
        while board.load[*domain] > limit(*domain) {
            let excess = board.load[*domain] - limit(*domain);
            let room = |receiver: usize| limit(receiver) - board.load[receiver];
            let mut receiver = (1..machine.len()).fold(0, |best, other| {
                if room(other) > room(best) {
                    other
                } else {
                    best
                }
            });
            let Some(index) = choose(tables, excess, room(receiver)) else {
                break;
            };
            tables.remove(&key(items, index));
            board.rise(index, &items[index]);
            if machine.by_time() {
                receiver = board.receiver(&items[index], machine, near, goal);
            }
            board.sit(index, &items[index], Seat::One(receiver));
        }
    }
}

/// Tables by load, as bits: the order of floats that are not negative is that of their bits.
type ByLoad = BTreeSet<(u64, usize)>;

fn key(items: &[Item], index: usize) -> (u64, usize) {
    (items[index].load.to_bits(), index)
}

/// For each of `domains`, the tables with load and no other home.
fn movable_tables(board: &Board, items: &[Item], domains: &[usize]) -> Vec<ByLoad> {
    let mut movable = vec![ByLoad::new(); domains.len()];
    let mut place_in_list = vec![None; board.load.len()];
    for (place, &domain) in domains.iter().enumerate() {
        place_in_list[domain] = Some(place);
    }
    for (index, seat) in board.seats.iter().enumerate() {
        let item = &items[index];
        let domain = match seat {
            Seat::One(domain) => *domain,
            Seat::AsNow if item.wanted == 1 => item.homes()[0].0,
            Seat::AsNow | Seat::Several(_) | Seat::Nowhere => continue,
        };
        if item.load > 0.0
            && let Some(place) = place_in_list[domain]
        {
            movable[place].insert(key(items, index));
        }
    }
    movable
}

/// The table to move out of a domain with `excess` into one with `room`, both in units of load.
///
/// Preferred is the smallest that ends the excess at once without moving more than twice of it; then the
/// largest that is all excess; then the smallest that ends it at all.
fn choose(tables: &ByLoad, excess: f64, room: f64) -> Option<usize> {
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
        return Some(index);
    }
    let part = tables
        .range(..=(excess.min(room).to_bits(), usize::MAX))
        .next_back();
    part.or(enough).map(|&(_, index)| index)
}
