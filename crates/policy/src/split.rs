//! How an IVF query is cut into scan units: runs of inverted lists, balanced by their cost.
//!
//! Units are contiguous, in order, and cover every list exactly once, whatever the costs are. How many
//! there are follows from three things: the cores that could help now (fan-out hurts when every core
//! already has work, so a busy domain gets fewer), the hand-over that each unit costs, and the number
//! of lists.

use std::ops::Range;

/// When and how finely [`split`] cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitConfig {
    /// Bytes that a unit should scan at least. Default 256 KiB: about 10 us of scanning for one core at
    /// 25 GB/s, ten times the ~1 us that published pools need to hand a task to another core (rayon
    /// 0.94 us, affinitypool 1.07 us), so hand-over stays under a tenth of the work. 0 counts as 1.
    pub min_unit_bytes: u64,
    /// Units for each core that takes part. Default 2: with a single unit a core, one slow core holds up the whole
    /// query; with two, the others take half of its part. A third was measured too: what it gains in balance on two
    /// cores, it loses to the 5 us that each more unit of a Faiss index costs. 0 counts as 1.
    pub units_per_core: u32,
}

impl Default for SplitConfig {
    fn default() -> Self {
        Self {
            min_unit_bytes: 256 << 10,
            units_per_core: 2,
        }
    }
}

/// Cuts a query that scans lists of these `costs` (bytes) into units for the caller and `idle_cores`
/// more cores of its domain.
///
/// One unit if no core is idle or the whole is worth less than two units; if there is more than one for each core,
/// all cores get equally many. With `n` units wanted, none
/// costs more than `ceil(total / n)` plus the dearest single list, because a list is never cut. There
/// may be fewer than `n`: a unit is never empty. No lists give no units.
///
/// ```
/// use chiplet_policy::{SplitConfig, split};
///
/// let config = SplitConfig { min_unit_bytes: 100, units_per_core: 1 };
/// // One long list and six short ones: balanced by bytes, not by lists.
/// let costs = [600, 100, 100, 100, 100, 100, 100];
/// assert_eq!(split(&costs, 1, &config), [0..1, 1..7]);
/// // Nobody is free to help: one unit.
/// assert_eq!(split(&costs, 0, &config), [0..7]);
/// ```
pub fn split(costs: &[u64], idle_cores: usize, config: &SplitConfig) -> Vec<Range<usize>> {
    let total: u128 = costs.iter().map(|&cost| u128::from(cost)).sum();
    let units = wanted(total, costs.len(), idle_cores, config);
    if units <= 1 {
        return whole(costs.len());
    }
    cut(costs, total, units)
}

/// Cuts as OpenMP's `schedule(dynamic)` does, the baseline: every list is a unit of its own, and
/// `cores` take the next one whenever they are free. One unit if there is only one core.
///
/// ```
/// assert_eq!(chiplet_policy::fork_join(&[5, 900, 5], 8), [0..1, 1..2, 2..3]);
/// ```
pub fn fork_join(costs: &[u64], cores: usize) -> Vec<Range<usize>> {
    if cores <= 1 {
        return whole(costs.len());
    }
    (0..costs.len()).map(|list| list..list + 1).collect()
}

/// How many units a query of this cost is worth.
fn wanted(total: u128, lists: usize, idle_cores: usize, config: &SplitConfig) -> usize {
    if idle_cores == 0 {
        return 1;
    }
    let cores = idle_cores.saturating_add(1);
    let by_cores = cores.saturating_mul(config.units_per_core.max(1) as usize);
    let by_cost = total / u128::from(config.min_unit_bytes.max(1));
    let by_cost = usize::try_from(by_cost).unwrap_or(usize::MAX);
    let units = by_cores.min(by_cost).min(lists);
    // Three equal units on two cores take as long as four would: the second core idles while the first runs its
    // second one. So each core gets as many as the others.
    if units > cores {
        units - units % cores
    } else {
        units
    }
}

/// A single unit of all lists, or none if there are no lists.
fn whole(lists: usize) -> Vec<Range<usize>> {
    if lists == 0 {
        return Vec::new();
    }
    std::iter::once(0..lists).collect()
}

/// Cuts where the running sum comes closest to each multiple of `total / units`.
///
/// Each cut is at most half a list away from its multiple, so a unit between two of them exceeds
/// `total / units` by at most the two halves: one dearest list.
fn cut(costs: &[u64], total: u128, units: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::with_capacity(units);
    let parts = units as u128;
    let (mut start, mut end, mut sum) = (0, 0, 0_u128);
    for part in 1..parts {
        // `total * part / parts` without the product, which may not fit.
        let goal = total / parts * part + total % parts * part / parts;
        while end < costs.len() {
            let next = sum + u128::from(costs[end]);
            let overshoots = next > goal && next - goal > goal.saturating_sub(sum);
            if overshoots {
                break;
            }
            sum = next;
            end += 1;
        }
        if end > start {
            ranges.push(start..end);
            start = end;
        }
    }
    if start < costs.len() {
        ranges.push(start..costs.len());
    }
    ranges
}
