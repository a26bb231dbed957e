//! Rebalancing that starts from the current placement and moves as little load as it can.
//!
//! 1. Everything stays where it is, except for tables whose number of homes changes, whose homes are
//!    gone, or that are new.
//! 2. If the busiest domain is at or under the goal, that is all.
//! 3. Tables with several homes shift their weights: no cache goes cold for that.
//! 4. From each domain above the goal, busiest first, tables go to the domain with the most room until
//!    it is at or under the goal (`unload`). A receiver is never filled above the goal, so every table moves at most
//!    once.
//! 5. Tables that have to have several homes shift one home at a time from the busiest domain to the one with the most
//!    room, and then all weights, at most as many times as there are domains.
//!
//! If that does not reach the goal, there is no incremental plan and the greedy's is taken.

use super::draft::{Draft, hottest_first};
use super::greedy;
use super::item::Item;
use super::machine::Machine;
use super::several;
use super::unload::{shift_home, unload};

/// How far above the goal still counts as reaching it: weights are rounded to parts of 2^16, which can
/// lift a domain by a thousandth, and such a trifle must not set tables moving.
const TOLERANCE: f64 = 0.002;

/// The current placement, changed until no domain has more than `goal` load per core; `None` if that cannot be done
/// this way, or if no table with load has a home to start from.
pub(super) fn from_current<'a>(
    items: &'a [Item<'a>],
    machine: &'a Machine,
    goal: f64,
) -> Option<Draft<'a>> {
    // By rounded weights, or what reaches the goal by a hair now would miss it at the next look, and move again.
    let reached = |draft: &Draft| draft.rounded_peak() <= goal * (1.0 + TOLERANCE);
    if !(items.iter()).any(|item| item.load > 0.0 && !item.homes.is_empty()) {
        return None;
    }
    let mut draft = Draft::new(items, machine);
    draft.keep_at_home(|item| item.load > 0.0);
    greedy::put_open(&mut draft, true);
    several::put_idle(&mut draft);
    if reached(&draft) {
        return Some(draft);
    }
    let is_split = |&index: &usize| items[index].load > 0.0 && items[index].wanted > 1;
    let split = hottest_first((0..items.len()).filter(is_split).collect(), items);
    several::level(&mut draft, &split);
    if !reached(&draft) {
        unload(&mut draft, goal);
        several::level(&mut draft, &split);
    }
    for _ in 0..machine.len() {
        if reached(&draft) || !shift_home(&mut draft, goal) {
            break;
        }
        several::level(&mut draft, &split);
    }
    reached(&draft).then_some(draft)
}
