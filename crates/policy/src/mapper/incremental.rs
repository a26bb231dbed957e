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

use super::draft::{Draft, Spot};
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
) -> Option<Draft> {
    // By rounded weights, or what reaches the goal by a hair now would miss it at the next look, and move again.
    let reached = |draft: &Draft| draft.rounded_peak(items, machine) <= goal * (1.0 + TOLERANCE);
    let order = hottest_first(items);
    if order.iter().all(|&index| items[index].homes().is_empty()) {
        return None;
    }
    let mut draft = as_now(items, &order, machine, near);
    if reached(&draft) {
        return Some(draft);
    }
    let split: Vec<usize> = order
        .into_iter()
        .filter(|&index| items[index].wanted > 1)
        .collect();
    several::level(&mut draft, &split, items, machine);
    if !reached(&draft) {
        unload(&mut draft, items, machine, goal, near);
        several::level(&mut draft, &split, items, machine);
    }
    for _ in 0..machine.len() {
        if reached(&draft) || !shift_home(&mut draft, items, machine, goal) {
            break;
        }
        several::level(&mut draft, &split, items, machine);
    }
    reached(&draft).then_some(draft)
}

/// Step 1: all items put, none moved that need not be.
fn as_now(items: &[Item], order: &[usize], machine: &Machine, near: f64) -> Draft {
    let mut draft = Draft::new(items.len(), machine);
    for (index, item) in items.iter().enumerate() {
        if item.can_stay() {
            draft.put(index, item, Spot::AsNow);
        } else if item.wanted == 1
            && let Some(home) = main_home(item)
        {
            draft.put(index, item, Spot::One(home));
        }
    }
    for &index in order {
        let item = &items[index];
        if draft.spots[index] != Spot::Nowhere {
            continue;
        }
        if item.wanted > 1 {
            let keep = item.heaviest_homes();
            several::put(&mut draft, index, item, &keep, machine);
        } else {
            let domain = draft.receiver(item, machine, near, f64::INFINITY);
            draft.put(index, item, Spot::One(domain));
        }
    }
    let poured: Vec<usize> = order
        .iter()
        .copied()
        .filter(|&index| matches!(draft.spots[index], Spot::Several(_)))
        .collect();
    several::level(&mut draft, &poured, items, machine);
    idle::put(&mut draft, items, machine);
    draft
}
