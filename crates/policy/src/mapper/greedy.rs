//! Placements from an empty machine: hottest first, each where the load per core is least with it.
//!
//! Tables with several homes are poured first. So hot tables end beside cold ones, as by the greedy of arXiv 2605.10090,
//! which takes the coldest table with each hot one; its bound on equal domains is 3/2, not 4/3, and modelled no query
//! waits less for it.
//!
//! **Bounds** for whole tables on `m` domains, in optima:
//!
//! 1. *Equal domains: `4/3 - 1/(3m)`* (Graham, Bounds on Multiprocessing Timing Anomalies, 1969).
//! 2. *Any sizes: `2 - 2/(m + 1)`* (Gonzalez, Ibarra, Sahni, Bounds for LPT Schedules on Uniform Processors, 1977).

use super::draft::Draft;
use super::several;

/// Puts the items with load that are nowhere yet, hottest first. What gets several homes
/// keeps those that it has, if it may.
pub(super) fn put_open(draft: &mut Draft, keep: bool) {
    let split = put_split(draft, keep);
    for index in draft.open(|item| item.load > 0.0) {
        let domain = draft.receiver(index);
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
