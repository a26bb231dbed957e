//! Gives the greedy's bins to the domains where most of their load lives already.
//!
//! The greedy starts from nothing, so its bins could be any domains of the same size. Pairs of a bin and
//! a domain are taken in order of the load that would stay at home, largest first, each bin and each
//! domain once: the known greedy matching, which keeps at least half of what the best relabelling could.
//! A swap between domains with as many cores of one speed changes no load per core, so balance is kept. Their caches
//! must be equal too, so that what fits one fits the other.

use super::draft::{Draft, Spot};
use super::input::DomainSpec;

/// The draft with the domains of all spots renamed.
pub(super) fn keep_most_at_home<'a>(draft: &Draft<'a>) -> Draft<'a> {
    let (items, machine) = (draft.items, draft.machine);
    let domains = machine.len();
    // Load that stays at home if a bin becomes a domain.
    let mut at_home = vec![vec![0.0; domains]; domains];
    for (index, item) in items.iter().enumerate() {
        for (bin, load) in draft.shares(index) {
            for &(domain, share) in &item.homes {
                at_home[bin][domain] += load.min(item.load * share);
            }
        }
    }
    let kind = |spec: &DomainSpec| (spec.cores, spec.speed, spec.cache_bytes);
    let is_alike =
        |&(bin, domain): &(usize, usize)| kind(machine.spec(bin)) == kind(machine.spec(domain));
    let pairs = (0..domains).flat_map(|bin| (0..domains).map(move |domain| (bin, domain)));
    let mut pairs: Vec<(usize, usize)> = pairs.filter(is_alike).collect();
    // A bin that keeps nothing anywhere stays where the greedy put it, if that is still free.
    pairs.sort_by(|a, b| {
        (at_home[b.0][b.1].total_cmp(&at_home[a.0][a.1])).then((a.0 != a.1).cmp(&(b.0 != b.1)))
    });
    let mut domain_of = vec![None; domains];
    let mut taken = vec![false; domains];
    for (bin, domain) in pairs {
        if domain_of[bin].is_none() && !taken[domain] {
            domain_of[bin] = Some(domain);
            taken[domain] = true;
        }
    }
    let domain_of = |bin: usize| domain_of[bin].expect("domains of equal size match up");
    let mut renamed = Draft::new(items, machine);
    for (index, spot) in draft.spots.iter().enumerate() {
        if let Spot::On(shares) = spot {
            let shares = shares.iter().map(|&(bin, load)| (domain_of(bin), load));
            renamed.put(index, Spot::On(shares.collect()));
        }
    }
    renamed
}
