//! Rebalancing that starts from the current placement and moves as little load as it can.
//!
//! 1. Everything stays where it is, except for tables whose number of homes changes, whose homes are
//!    gone, or that are new.
//! 2. If the busiest domain is at or under the goal, that is all.
//! 3. Tables with several homes shift their weights: no cache goes cold for that.
//! 4. From each domain above the goal, busiest first, tables go to the domain with the most room until
//!    it is at or under the goal (`unload`). A receiver is never filled above the goal, so every table moves at most
//!    once. The choice of table keeps the load moved near the excess that has to go. Where tables are placed by time,
//!    caches and links decide between receivers that are about equally busy (`budget`).
//!
//! 5. Tables that have to have several homes shift one home at a time from the busiest domain to the one with the most
//!    room, and then all weights, at most as many times as there are domains.
//!
//! If that does not reach the goal, there is no incremental plan and the greedy's is taken.

use super::board::{Board, Seat};
use super::idle;
use super::item::{Item, hottest_first, main_home};
use super::machine::Machine;
use super::several;
use super::unload::{shift_home, unload};

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
    for _ in 0..machine.len() {
        if reached(&board) || !shift_home(&mut board, items, machine, goal) {
            break;
        }
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
