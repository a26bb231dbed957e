//! The two-ended hot-cold greedy, from an empty machine.
//!
//! Tables that need several homes are poured first, then whole tables follow from both ends of the list.
//!
//! **Bound** for whole tables. Write `W` for all cores, `m` for the number of domains, `u` for the mean
//! traffic per core, `t` for the traffic of a table. A table from the hot end goes where
//! `(L[d] + t) / w[d]` is least, which is at most the mean of these values weighted by `w[d]`:
//! `(sum of L + m t) / W <= (u W - t + m t) / W = u + (m - 1) t / W`, because `t` itself is not yet in
//! any `L`. A table from the cold end is placed only if its domain stays at or under `u`. So the busiest
//! domain ends at or under `u + (m - 1) max(t) / W`, whatever the order. With equal domains of one core,
//! `W = m`, and as no schedule beats `u` nor `max(t)`, that is Graham's `(2 - 1/m)` times the optimum
//! (R. L. Graham, Bounds on Multiprocessing Timing Anomalies, 1969). His better 4/3 for longest-first
//! order is not claimed: the cold end gives that order up.

use super::machine::{Board, Item, Machine, Seat, hottest_first};
use super::several;

/// Seats every item with traffic; those without stay unseated.
pub(super) fn from_scratch(items: &[Item], machine: &Machine) -> Board {
    let mut board = Board::new(items.len(), machine);
    let order = hottest_first(items);
    let (split, whole): (Vec<usize>, Vec<usize>) = order
        .into_iter()
        .partition(|&index| items[index].wanted > 1);
    for &index in &split {
        several::seat(&mut board, index, &items[index], &[], machine);
    }
    let total: f64 = items.iter().map(|item| item.traffic).sum();
    seat_from_both_ends(&whole, items, &mut board, machine, machine.mean(total));
    // Whole tables come in lumps; the poured ones can even them out.
    several::level(&mut board, &split, items, machine);
    board
}

/// Seats `order` (hottest first): the hottest where it weighs least, then the coldest beside it if that
/// keeps the domain at or under the mean.
fn seat_from_both_ends(
    order: &[usize],
    items: &[Item],
    board: &mut Board,
    machine: &Machine,
    mean: f64,
) {
    let mut rest = order;
    while let [hottest, others @ ..] = rest {
        rest = others;
        let domain = machine.least_loaded(&board.load, items[*hottest].traffic);
        board.sit(*hottest, &items[*hottest], Seat::One(domain));
        if let [others @ .., coldest] = rest
            && board.load[domain] + items[*coldest].traffic <= mean * machine.cores(domain)
        {
            rest = others;
            board.sit(*coldest, &items[*coldest], Seat::One(domain));
        }
    }
}
