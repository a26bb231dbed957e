//! Gives the greedy's bins to the domains where most of their load lives already.
//!
//! The greedy starts from nothing, so its bins could be any domains of the same size. Pairs of a bin and
//! a domain are taken in order of the load that would stay at home, largest first, each bin and each
//! domain once: the known greedy matching, which keeps at least half of what the best relabelling could.
//! A swap between domains with as many cores of one speed changes no load per core, so balance is kept. Their caches
//! must be equal too, so that what fits one fits the other.

use super::draft::{Draft, Spot, for_each_share};
use super::input::DomainSpec;
use super::item::Item;
use super::machine::Machine;

/// Renames the domains of all spots and loads on the draft.
pub(super) fn keep_most_at_home(draft: &mut Draft, items: &[Item], machine: &Machine) {
    let domains = machine.len();
    let at_home = load_at_home(draft, items, domains);
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for bin in 0..domains {
        for domain in 0..domains {
            let (one, other) = (machine.spec(bin), machine.spec(domain));
            let kind = |spec: &DomainSpec| (spec.cores, spec.speed, spec.cache_bytes);
            if kind(one) == kind(other) {
                pairs.push((at_home[bin * domains + domain], bin, domain));
            }
        }
    }
    // A bin that keeps nothing anywhere stays where the greedy put it, if that is still free.
    pairs.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then((a.1 != a.2).cmp(&(b.1 != b.2)))
            .then((a.1, a.2).cmp(&(b.1, b.2)))
    });

    let mut domain_of: Vec<Option<usize>> = vec![None; domains];
    let mut taken = vec![false; domains];
    for (_, bin, domain) in pairs {
        if domain_of[bin].is_none() && !taken[domain] {
            domain_of[bin] = Some(domain);
            taken[domain] = true;
        }
    }
    let domain_of = |bin: usize| domain_of[bin].expect("domains of equal size match up");
    rename(draft, domain_of);
}

/// Load that stays at home if a bin becomes a domain, at `[bin * domains + domain]`.
fn load_at_home(draft: &Draft, items: &[Item], domains: usize) -> Vec<f64> {
    let mut at_home = vec![0.0; domains * domains];
    for (item, spot) in items.iter().zip(&draft.spots) {
        for_each_share(item, spot, |bin, load| {
            for &(domain, share) in item.homes() {
                at_home[bin * domains + domain] += load.min(item.load * share);
            }
        });
    }
    at_home
}

fn rename(draft: &mut Draft, domain_of: impl Fn(usize) -> usize) {
    for spot in &mut draft.spots {
        match spot {
            Spot::One(domain) => *domain = domain_of(*domain),
            Spot::Several(shares) => {
                for (domain, _) in shares.iter_mut() {
                    *domain = domain_of(*domain);
                }
            }
            Spot::AsNow | Spot::Nowhere => {}
        }
    }
    let (load, tables) = (draft.load.clone(), draft.tables.clone());
    let budgets = draft.budgets.clone();
    for bin in 0..load.len() {
        draft.load[domain_of(bin)] = load[bin];
        draft.tables[domain_of(bin)] = tables[bin];
        draft.budgets[domain_of(bin)] = budgets[bin];
    }
}
