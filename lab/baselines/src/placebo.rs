//! The placebo of a comparison: the executor as it is, with domains that share no cache.
//!
//! Whatever `ccd-aware-fifo` gains over the placebo is the caches' part: queues, wake-ups, placement and stealing are
//! the same code with the same settings. Whatever the placebo gains over another pool is not.

use std::collections::BTreeMap;

use chiplet_topology::{Domain, DomainList, Topology};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use crate::Strategy;

/// The name of the placebo beside those of the strategies.
pub const PLACEBO: &str = "placebo";

/// Pairs of strategies that differ in one thing: what that is, which has it, and which it is compared with. They lead
/// from `rayon` to `ccd-aware`.
pub const PARTS: [(&str, &str, &str); 4] = [
    ("work stealing", Strategy::GLOBAL_STEAL.name, "rayon"),
    (
        "chiplet's queues, no cache shared",
        PLACEBO,
        Strategy::GLOBAL_STEAL.name,
    ),
    ("placement", Strategy::CCD_AWARE_FIFO.name, PLACEBO),
    (
        "runs of one table",
        Strategy::CCD_AWARE.name,
        Strategy::CCD_AWARE_FIFO.name,
    ),
];

/// Deals the cores of one package, which are numbered through its domains of `sizes` cores each, to as many domains of
/// the same sizes, at random. Domains of one core each are one domain together: dealing would only rename them.
///
/// ```
/// let dealt = chiplet_baselines::deal(&[8; 12], 1);
/// assert_eq!(dealt.len(), 12);
/// // A dealt domain has cores of many of the true ones.
/// let mut true_domains: Vec<usize> = dealt[0].iter().map(|core| core / 8).collect();
/// true_domains.sort_unstable();
/// true_domains.dedup();
/// assert!(true_domains.len() > 3);
///
/// assert_eq!(chiplet_baselines::deal(&[1; 4], 1).len(), 1);
/// ```
pub fn deal(sizes: &[usize], seed: u64) -> Vec<Vec<usize>> {
    let mut cores: Vec<usize> = (0..sizes.iter().sum()).collect();
    if sizes.iter().all(|&size| size == 1) {
        return vec![cores];
    }
    cores.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut rest = &cores[..];
    let dealt = sizes.iter().map(|&size| {
        let (domain, others) = rest.split_at(size);
        rest = others;
        domain.to_vec()
    });
    dealt.collect()
}

/// The machine with its cores dealt to domains at random ([`deal`]), within each package: so memory is as near as
/// before.
///
/// Give the executor `Pin::Core` with it, or its workers wander between caches.
///
/// # Panics
/// Never: the dealt domains have the cores of the machine's own.
pub fn scrambled(topology: &Topology, seed: u64) -> Topology {
    let mut packages: BTreeMap<u32, Vec<&Domain>> = BTreeMap::new();
    for domain in topology.domains() {
        packages.entry(domain.package).or_default().push(domain);
    }
    let mut dealt = Vec::new();
    for domains in packages.values() {
        let sizes: Vec<usize> = domains.iter().map(|domain| domain.cores.len()).collect();
        let cores: Vec<_> = domains.iter().flat_map(|domain| &domain.cores).collect();
        for domain in deal(&sizes, seed) {
            let cpus = domain.iter().flat_map(|&core| &cores[core].cpus);
            dealt.push(cpus.copied().collect());
        }
    }
    let caches = topology.domains().iter().map(|domain| domain.cache_bytes);
    let scrambled = topology
        .with_domains(&DomainList::from(dealt))
        .expect("each core is in one domain");
    scrambled.with_cache_bytes(caches.min().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_is_dealt_once_and_sizes_stay() {
        let sizes = [7, 8, 8, 3];
        let dealt = deal(&sizes, 9);
        let dealt_sizes: Vec<usize> = dealt.iter().map(Vec::len).collect();
        assert_eq!(dealt_sizes, sizes);
        let mut cores = dealt.concat();
        cores.sort_unstable();
        assert_eq!(cores, (0..26).collect::<Vec<_>>());
        assert_eq!(deal(&sizes, 9), dealt);
        assert_ne!(deal(&sizes, 10), dealt);
    }

    #[test]
    fn a_scrambled_machine_keeps_its_cpus_and_cache_sizes() {
        let machine = Topology::uniform(12, 8, 32 << 20);
        let placebo = scrambled(&machine, 1);
        assert_eq!(placebo.domains().len(), 12);
        let cpus = |machine: &Topology| {
            let mut cpus: Vec<u32> = machine.domains().iter().flat_map(Domain::cpus).collect();
            cpus.sort_unstable();
            cpus
        };
        assert_eq!(cpus(&placebo), cpus(&machine));
        for domain in placebo.domains() {
            assert_eq!((domain.cache_bytes, domain.cores.len()), (32 << 20, 8));
            assert!(
                !machine
                    .domains()
                    .iter()
                    .any(|own| own.cpus() == domain.cpus())
            );
        }
    }

    #[test]
    fn cores_stay_in_their_package() {
        let machine = Topology::builder()
            .package()
            .domain(1 << 20, 4)
            .domain(1 << 20, 4)
            .package()
            .domain(1 << 20, 4)
            .domain(1 << 20, 4)
            .build()
            .unwrap();
        for domain in scrambled(&machine, 3).domains() {
            let package = |cpu: u32| cpu / 8;
            let cpus = domain.cpus();
            assert!(
                cpus.iter().all(|&cpu| package(cpu) == package(cpus[0])),
                "{cpus:?}"
            );
        }
    }
}
