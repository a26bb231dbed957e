//! Tables with several homes, and those without load: how many homes, on which domains, and with which weights.
//!
//! A table's load is poured over its homes like water over steps: it goes where the load per core is least until the
//! homes stand level.

use super::MapperConfig;
use super::draft::{Draft, Spot};
use super::item::Item;
use super::machine::Machine;
use crate::wait::{predicted_wait, utilisation_at};

/// So many fair shares of all load a table has that gets a second home. One of less is served better by one home from
/// which an idle domain takes: those tasks lose nothing elsewhere. With 1.1, tables that are hot for minutes had 1.12
/// times the p999 of tables that stand still (modelled).
const SPLIT_FROM: f64 = 1.43;

/// How many homes a table should have, given those that it has: at least [`Demand::least_homes`](super::Demand), at
/// most the number of domains. `config` must be sane and the load clean.
///
/// A table with one home gets more when it saturates it: by time, when its load exceeds
/// [`saturation`](MapperConfig::saturation) of the home's cores, and [`SPLIT_FROM`] fair shares of the total;
/// by traffic, [`hot_share`](MapperConfig::hot_share) fair shares. It then gets as many as it has fair
/// shares, rounded up, and at least two. By traffic the share of the total decides, because the traffic of a saturated
/// table is capped by what its home can serve. By time, where load counts what was refused, it gets no more homes than
/// it would saturate: on a machine that is idle but for one table, some homes are enough and the others stay cold.
///
/// Going back has hysteresis: every threshold is `relax / saturation` times lower on the way down.
pub(super) fn homes_wanted(
    item: &Item,
    total: f64,
    machine: &Machine,
    config: &MapperConfig,
) -> usize {
    let (homes, least) = (&item.homes, item.least_homes);
    if machine.len() <= 1 || item.load == 0.0 || total == 0.0 {
        return least;
    }
    let fair = total / machine.len() as f64;
    let lower = config.relax / config.saturation;
    let saturation = || saturation(item, machine, config);
    // Homes that it has to have are no sign that it was hot.
    let split_already = homes.len() > least;
    let ease = if split_already { lower } else { 1.0 };
    let hot = match machine.by_time() {
        true => {
            let weakest = homes.iter().map(|&(domain, _)| machine.cores(domain));
            let cores = weakest.reduce(f64::min).unwrap_or(machine.mean_cores());
            item.load > SPLIT_FROM * ease * fair && item.load > saturation() * ease * cores
        }
        false => item.load > config.hot_share * ease * fair,
    };
    if !hot {
        return least;
    }
    // What one home should have of it.
    let each = match machine.by_time() {
        true => fair.max(saturation() * machine.mean_cores()),
        false => fair,
    };
    let count = |share: f64| (((item.load / share).ceil()) as usize).clamp(2, machine.len());
    let wanted = if split_already {
        homes.len().clamp(count(each), count(each * lower))
    } else {
        count(each)
    };
    wanted.max(least)
}

/// The part of its home's time that a table may ask for before it gets another home. See [`MapperConfig::saturation`].
fn saturation(item: &Item, machine: &Machine, config: &MapperConfig) -> f64 {
    let home = machine.spec(item.main_home().unwrap_or(0));
    let reuse = home.reuse(item.size);
    // From 1 on no table shall be split.
    if reuse == 1.0 || config.saturation >= 1.0 {
        return config.saturation;
    }
    let wait = reuse * predicted_wait(home.cores, config.saturation);
    utilisation_at(home.cores, wait).min(config.saturation)
}

/// Puts an item with load that wants several homes on those that it keeps and on the least loaded others. Call
/// [`level`] after all items that want several are put: they take even parts here. Were they poured one by one, all
/// domains would soon stand equally high, and the first have most homes.
pub(super) fn put(draft: &mut Draft, index: usize, keep: &[usize]) {
    let item = &draft.items[index];
    let homes = choose(item, keep, |domain| draft.level(domain), draft.machine);
    draft.put_on(index, &homes);
}

/// Puts the items without load. Nothing is gained by moving them, so they stay at home if they have one. Homes that are
/// missing go where the fewest tables per core are.
pub(super) fn put_idle(draft: &mut Draft) {
    draft.keep_at_home(|item| item.load == 0.0);
    for index in draft.open(|item| item.load == 0.0) {
        let item = &draft.items[index];
        let crowd = |domain: usize| draft.crowd(domain);
        let homes = choose(item, &item.heaviest_homes(), crowd, draft.machine);
        draft.put_on(index, &homes);
    }
}

/// As many homes as the item wants: those in `keep`, and of the others those with the lowest `level`; of equals the
/// lowest. Where each package may have its memory, each gets its part of the homes: one package's memory would give the
/// bytes of a second for all of them.
pub(super) fn choose(
    item: &Item,
    keep: &[usize],
    level: impl Fn(usize) -> f64,
    machine: &Machine,
) -> Vec<usize> {
    let mut homes = keep.to_vec();
    let mut others: Vec<usize> = (0..machine.len())
        .filter(|domain| !keep.contains(domain))
        .collect();
    // As many domains as it wants are in its memory's package, or it needs the others' cores, too.
    let near = |domain: &usize| !item.is_remote(machine.spec(*domain));
    let enough = (0..machine.len()).filter(near).count() >= item.wanted;
    let remote = |domain: usize| enough && item.is_remote(machine.spec(domain));
    others.sort_by(|&a, &b| {
        (remote(a).cmp(&remote(b)))
            .then(level(a).total_cmp(&level(b)))
            .then(a.cmp(&b))
    });
    while homes.len() < item.wanted && !others.is_empty() {
        let in_package = |domain: usize| {
            let package = machine.spec(domain).package;
            let there = |home: &&usize| machine.spec(**home).package == package;
            homes.iter().filter(there).count()
        };
        let next = match item.everywhere {
            true => (0..others.len()).min_by_key(|&at| in_package(others[at])),
            false => None,
        };
        homes.push(others.remove(next.unwrap_or(0)));
    }
    homes
}

/// Pours the load of each of these items anew over the homes that it has.
pub(super) fn level(draft: &mut Draft, split: &[usize]) {
    for &index in split {
        let homes: Vec<usize> = draft.shares(index).map(|(domain, _)| domain).collect();
        pour_over(draft, index, &homes);
    }
}

/// Pours the load of the item over these homes in the place of those that it has.
pub(super) fn pour_over(draft: &mut Draft, index: usize, homes: &[usize]) {
    draft.take_out(index);
    let shares = pour(draft.items[index].load, homes, &draft.load, draft.machine);
    draft.put(index, Spot::On(shares));
}

/// Shares of `amount` for each of `homes`, sorted by domain, so that the loads per core end as level as they can.
fn pour(amount: f64, homes: &[usize], load: &[f64], machine: &Machine) -> Vec<(usize, f64)> {
    let mut steps: Vec<(usize, f64)> = homes.iter().map(|&domain| (domain, load[domain])).collect();
    let height = |&(domain, load): &(usize, f64)| load / machine.cores(domain);
    steps.sort_by(|a, b| height(a).total_cmp(&height(b)).then(a.0.cmp(&b.0)));

    let (mut volume, mut cores) = (amount, 0.0);
    let mut surface = 0.0;
    for (position, step) in steps.iter().enumerate() {
        volume += step.1;
        cores += machine.cores(step.0);
        surface = volume / cores;
        if steps
            .get(position + 1)
            .is_none_or(|next| surface <= height(next))
        {
            break;
        }
    }
    let mut shares: Vec<(usize, f64)> = steps
        .iter()
        .map(|&(domain, load)| {
            let above = surface * machine.cores(domain) - load;
            (domain, above.max(0.0))
        })
        .collect();
    shares.sort_by_key(|&(domain, _)| domain);
    shares
}

#[cfg(test)]
mod tests {
    use chiplet_topology::DomainId;

    use super::*;
    use crate::{DomainSpec, PlaceBy};

    #[test]
    fn load_is_poured_level_and_past_what_stands_higher() {
        let specs = [0, 1, 2].map(|id| DomainSpec::new(DomainId(id), 1));
        let machine = Machine::new(&specs, PlaceBy::Traffic);
        let shares = pour(60.0, &[2, 0, 1], &[0.0, 10.0, 100.0], &machine);
        assert_eq!(shares, [(0, 35.0), (1, 25.0), (2, 0.0)]);
    }

    #[test]
    fn a_domain_twice_as_large_takes_twice_as_much() {
        let specs = [(0, 2), (1, 4)].map(|(id, cores)| DomainSpec::new(DomainId(id), cores));
        let machine = Machine::new(&specs, PlaceBy::Traffic);
        let shares = pour(30.0, &[0, 1], &[0.0, 0.0], &machine);
        assert_eq!(shares, [(0, 10.0), (1, 20.0)]);
    }
}
