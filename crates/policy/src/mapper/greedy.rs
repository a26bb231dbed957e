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
//! Placed by time, hottest first by caches and links (`budget`) wins at up to `1 + stay` times the load; bounds hold
//! times that.

use super::draft::{Draft, Spot};
use super::item::{Item, hottest_first};
use super::machine::Machine;
use super::several;

/// Puts every item with load; those without stay nowhere. Also returns the highest level that counts as about as
/// good: `1 + stay` times the better of the two orders.
pub(super) fn from_scratch(items: &[Item], machine: &Machine, stay: f64) -> (Draft, f64) {
    let both_ends = two_ended(items, machine);
    let hot_end = put_all(items, machine, Order::HotEnd);
    let best = if hot_end.peak(machine) < both_ends.peak(machine) {
        hot_end
    } else {
        both_ends
    };
    let goal = best.peak(machine) * (1.0 + stay);
    if machine.by_time() {
        let roomy = put_all(items, machine, Order::Room { stay });
        if roomy.peak(machine) <= goal {
            return (roomy, goal);
        }
    }
    (best, goal)
}

/// Puts every item with load, whole tables from both ends; those without stay nowhere.
pub(super) fn two_ended(items: &[Item], machine: &Machine) -> Draft {
    put_all(items, machine, Order::BothEnds)
}

/// In which order whole tables are taken.
#[derive(Clone, Copy)]
enum Order {
    HotEnd,
    BothEnds,
    /// Hottest first, to where there is room in the cache, of domains that differ by `stay` times the mean at most.
    Room {
        stay: f64,
    },
}

fn put_all(items: &[Item], machine: &Machine, by: Order) -> Draft {
    let mut draft = Draft::new(items.len(), machine);
    let order = hottest_first(items);
    let (split, whole): (Vec<usize>, Vec<usize>) = order
        .into_iter()
        .partition(|&index| items[index].wanted > 1);
    for &index in &split {
        several::put(&mut draft, index, &items[index], &[], machine);
    }
    let total: f64 = items.iter().map(|item| item.load).sum();
    match by {
        Order::BothEnds => {
            put_from_both_ends(&whole, items, &mut draft, machine, machine.mean(total));
        }
        Order::HotEnd => {
            for &index in &whole {
                put_where_least(index, items, &mut draft, machine);
            }
        }
        Order::Room { stay } => {
            let near = stay * machine.mean(total);
            // Those that must not meet have the fewest choices: they come first.
            let (streams, others): (Vec<usize>, Vec<usize>) = whole
                .iter()
                .partition(|&&index| machine.exceeds_all_caches(items[index].size));
            for &index in streams.iter().chain(&others) {
                let domain = draft.receiver(&items[index], machine, near, f64::INFINITY);
                draft.put(index, &items[index], Spot::One(domain));
            }
        }
    }
    // Whole tables come in lumps; the poured ones can even them out.
    several::level(&mut draft, &split, items, machine);
    draft
}

/// Puts `order` (hottest first): the hottest where it weighs least, then the coldest beside it if that
/// keeps the domain at or under the mean.
fn put_from_both_ends(
    order: &[usize],
    items: &[Item],
    draft: &mut Draft,
    machine: &Machine,
    mean: f64,
) {
    let mut rest = order;
    while let [hottest, others @ ..] = rest {
        rest = others;
        let domain = put_where_least(*hottest, items, draft, machine);
        if let [others @ .., coldest] = rest
            && draft.load[domain] + items[*coldest].load <= mean * machine.cores(domain)
        {
            rest = others;
            draft.put(*coldest, &items[*coldest], Spot::One(domain));
        }
    }
}

/// Puts a whole table where the load per core is least with it; returns that domain.
fn put_where_least(index: usize, items: &[Item], draft: &mut Draft, machine: &Machine) -> usize {
    let domain = machine.least_loaded(&draft.load, items[index].load);
    draft.put(index, &items[index], Spot::One(domain));
    domain
}
