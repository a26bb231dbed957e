//! Placements from an empty machine: the two-ended hot-cold greedy, or hottest-first where better.
//!
//! Tables with several homes are poured first, then whole tables from both ends of the list by load ([`two_ended`]) or
//! hottest first. [`from_scratch`] takes the better: all bounds hold.
//!
//! **Bounds** for whole tables. `w[d]` are the cores of domain `d`, `W` all cores, `m` the domains, `u` the mean load a
//! core, `t` the last load on the busiest domain, from the hot end if that is above `u`.
//!
//! 1. *Two-ended, any sizes: at most `u + (m - 1) t / W`* (Graham, Bounds for Certain Multiprocessing Anomalies, 1966).
//!    `t` went where `(L[d] + t) / w[d]` is least: at most `(sum of L + m t) / W <= (u W - t + m t) / W`.
//! 2. *Two-ended, equal domains: `3/2 - 1/(2m)` times the optimum.* Unless `t` is alone, each domain's first table came
//!    from the hot end before it. Two of these `m + 1` share a domain, so the optimum is at least `2 t`. Loads 2, 2, 2,
//!    1, 1 on two domains reach it.
//! 3. *Hottest first, equal domains: `4/3 - 1/(3m)`* (Graham, Bounds on Multiprocessing Timing Anomalies, 1969).
//! 4. *Hottest first, any sizes: `2 - 2/(m + 1)`* (Gonzalez, Ibarra, Sahni, Bounds for LPT Schedules on Uniform
//!    Processors, 1977).
//!
//! By time, a third placement is tried: hottest first by caches and distances (`budget`). It is taken if its busiest
//! domain has at most `1 + stay` times the load of the better of the two. So the bounds hold times that.

use super::draft::Draft;
use super::item::Item;
use super::machine::Machine;
use super::several;

/// Puts every item with load; those without stay nowhere. Also returns the highest level that counts as about as
/// good: `1 + stay` times the better of the two orders.
pub(super) fn from_scratch<'a>(
    items: &'a [Item<'a>],
    machine: &'a Machine,
    stay: f64,
    near: f64,
) -> (Draft<'a>, f64) {
    let both_ends = two_ended(items, machine);
    let mut hot_end = Draft::new(items, machine);
    put_open(&mut hot_end, false, 0.0);
    let best = if hot_end.peak() < both_ends.peak() {
        hot_end
    } else {
        both_ends
    };
    let goal = best.peak() * (1.0 + stay);
    if machine.by_time() {
        let mut roomy = Draft::new(items, machine);
        put_open(&mut roomy, false, near);
        if roomy.peak() <= goal {
            return (roomy, goal);
        }
    }
    (best, goal)
}

/// Puts every item with load, whole tables from both ends; those without stay nowhere.
pub(super) fn two_ended<'a>(items: &'a [Item<'a>], machine: &'a Machine) -> Draft<'a> {
    let mut draft = Draft::new(items, machine);
    let split = put_split(&mut draft, false);
    let mean = machine.mean(items.iter().map(|item| item.load).sum());
    let whole = draft.open(|item| item.load > 0.0);
    let mut rest = &whole[..];
    // The hottest where it weighs least, then the coldest beside it if that keeps the domain at or under the mean.
    while let [hottest, others @ ..] = rest {
        rest = others;
        let domain = draft.receiver(*hottest, 0.0, f64::INFINITY);
        draft.put_on(*hottest, &[domain]);
        if let [others @ .., coldest] = rest
            && draft.load[domain] + items[*coldest].load <= mean * machine.cores(domain)
        {
            rest = others;
            draft.put_on(*coldest, &[domain]);
        }
    }
    several::level(&mut draft, &split);
    draft
}

/// Puts the items with load that are nowhere yet, hottest first, each where there is room among domains whose levels
/// differ by `near` at most. What gets several homes keeps those that it has, if it may.
pub(super) fn put_open(draft: &mut Draft, keep: bool, near: f64) {
    let split = put_split(draft, keep);
    let mut whole = draft.open(|item| item.load > 0.0);
    if near > 0.0 {
        // Those that must not meet have the fewest choices: they come first.
        let (items, machine) = (draft.items, draft.machine);
        whole.sort_by_key(|&index| !machine.exceeds_all_caches(items[index].size));
    }
    for index in whole {
        let domain = draft.receiver(index, near, f64::INFINITY);
        draft.put_on(index, &[domain]);
    }
    // Whole tables come in lumps; the poured ones can even them out.
    several::level(draft, &split);
}

/// Puts the items with load that want several homes and are nowhere yet, and returns them.
fn put_split(draft: &mut Draft, keep: bool) -> Vec<usize> {
    let split = draft.open(|item| item.load > 0.0 && item.wanted > 1);
    let items = draft.items;
    let kept = |index: usize| {
        if keep {
            items[index].heaviest_homes()
        } else {
            Vec::new()
        }
    };
    // No table's new homes shall be where another's old ones are.
    for &index in &split {
        draft.put_on(index, &kept(index));
    }
    for &index in &split {
        draft.take_out(index);
        several::put(draft, index, &kept(index));
    }
    split
}
