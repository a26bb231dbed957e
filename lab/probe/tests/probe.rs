//! What is made of measured latencies: on made-up matrices of known machines, and once on this machine.

use chiplet_probe::{Finding, Latencies, Progress, Sample, collect, find_domains, measure};
use chiplet_topology::{LevelChoice, Topology};
use proptest::prelude::*;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

/// A made-up machine, with latencies that were published of such parts.
#[derive(Clone, Debug)]
struct Made {
    sockets: usize,
    /// Per socket.
    domains: usize,
    /// Per domain.
    cores: usize,
    /// Threads of a core that look like cores.
    threads: usize,
    /// Whether neighbours in number are in different domains.
    in_turn: bool,
    within_core: f64,
    within_domain: f64,
    across_domains: f64,
    across_sockets: f64,
}

/// Twelve CCDs of eight cores: 28 ns inside of one, 182 ns between two.
const GENOA: Made = Made {
    sockets: 1,
    domains: 12,
    cores: 8,
    threads: 1,
    in_turn: false,
    within_core: 7.0,
    within_domain: 28.0,
    across_domains: 182.0,
    across_sockets: 260.0,
};

/// Eight dies of two CCXs of four cores.
const ROME: Made = Made {
    domains: 16,
    cores: 4,
    within_domain: 26.0,
    across_domains: 104.0,
    across_sockets: 201.0,
    ..GENOA
};

/// One mesh in each socket.
const MESH: Made = Made {
    domains: 1,
    cores: 24,
    within_domain: 48.0,
    across_sockets: 118.0,
    ..GENOA
};

impl Made {
    fn len(&self) -> usize {
        self.sockets * self.domains * self.cores * self.threads
    }

    fn domain(&self, cpu: usize) -> usize {
        let domains = self.sockets * self.domains;
        match self.in_turn {
            true => cpu % domains,
            false => cpu / (self.cores * self.threads),
        }
    }

    /// Threads of a core are numbered one after the other within their domain.
    fn core(&self, cpu: usize) -> usize {
        let domains = self.sockets * self.domains;
        let at = match self.in_turn {
            true => cpu / domains,
            false => cpu % (self.cores * self.threads),
        };
        at / self.threads
    }

    fn nanos(&self, a: usize, b: usize) -> f64 {
        let (one, other) = (self.domain(a), self.domain(b));
        if one / self.domains != other / self.domains {
            self.across_sockets
        } else if one != other {
            self.across_domains
        } else if self.core(a) != self.core(b) {
            self.within_domain
        } else {
            self.within_core
        }
    }

    fn truth(&self) -> Vec<Vec<u32>> {
        let mut groups = vec![Vec::new(); self.sockets * self.domains];
        for cpu in 0..self.len() {
            groups[self.domain(cpu)].push(cpu as u32);
        }
        groups.sort();
        groups
    }

    /// As measured: each time a little longer than it is, and sometimes much longer.
    fn measured(&self, noise: &Noise) -> Latencies {
        let names: Vec<u32> = (0..self.len() as u32).collect();
        let mut noise = noise.clone();
        let sample = |a: usize, b: usize| Ok::<_, Infallible>(noise.on(self.nanos(a, b)));
        let Ok(matrix) = collect(names, sample, |_| ControlFlow::Continue(()));
        matrix
    }
}

/// Adds to what is measured, from a seed.
#[derive(Clone, Debug)]
struct Noise {
    seed: u64,
    /// The most that is added each time, as a part of it.
    each: f64,
    /// Of a thousand measurements, so many are disturbed and take two to nine times as long.
    disturbed: u64,
}

const QUIET: Noise = Noise {
    seed: 0,
    each: 0.0,
    disturbed: 0,
};

impl Noise {
    fn on(&mut self, nanos: f64) -> Sample {
        let mut next = || {
            // SplitMix64.
            self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.seed;
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        let part = |number: u64| (number % 10_000) as f64 / 10_000.0;
        let mut nanos = nanos * (1.0 + self.each * part(next()));
        if next() % 1000 < self.disturbed {
            nanos *= 2.0 + 7.0 * part(next());
        }
        Sample::exact(nanos)
    }
}

fn found(made: &Made, noise: &Noise) -> Vec<Vec<u32>> {
    match find_domains(&made.measured(noise)) {
        Finding::Domains { groups, near, far } => {
            assert!(near < far, "{near} and {far} of {made:?}");
            groups
        }
        other => panic!("{other:?} of {made:?}"),
    }
}

#[test]
fn the_domains_of_known_machines_are_found() {
    for made in [
        GENOA,
        ROME,
        Made {
            sockets: 2,
            ..GENOA
        },
        Made { sockets: 2, ..ROME },
        Made { sockets: 2, ..MESH },
        Made {
            in_turn: true,
            ..GENOA
        },
        // A guest that shows threads as cores.
        Made {
            domains: 4,
            threads: 2,
            ..GENOA
        },
        Made {
            sockets: 2,
            domains: 16,
            cores: 16,
            ..GENOA
        },
        Made {
            domains: 2,
            cores: 2,
            ..GENOA
        },
    ] {
        assert_eq!(found(&made, &QUIET), made.truth(), "{made:?}");
    }
}

#[test]
fn one_domain_is_not_taken_apart() {
    for made in [
        MESH,
        Made {
            domains: 1,
            ..GENOA
        },
        Made {
            cores: 8,
            threads: 2,
            ..MESH
        },
    ] {
        let finding = find_domains(&made.measured(&QUIET));
        assert!(
            matches!(finding, Finding::Alike { .. }),
            "{finding:?} of {made:?}"
        );
    }
    // A cache for each core, as of an EPYC 72F3: nobody is near anybody.
    let finding = find_domains(
        &Made {
            domains: 8,
            cores: 1,
            ..GENOA
        }
        .measured(&QUIET),
    );
    assert_eq!(finding, Finding::Alike { nanos: 182.0 });
}

#[test]
fn what_cannot_be_told_is_said() {
    assert_eq!(find_domains(&Latencies::new(Vec::new())), Finding::TooFew);
    let three = Made {
        domains: 1,
        cores: 3,
        ..GENOA
    };
    assert_eq!(find_domains(&three.measured(&QUIET)), Finding::TooFew);
    assert_eq!(
        find_domains(&Latencies::new((0..8).collect())),
        Finding::Unfinished
    );
    // Every run took another time.
    let mut matrix = Latencies::new((0..8).collect());
    for a in 0..8 {
        for b in 0..a {
            matrix.set(
                a,
                b,
                Sample {
                    best: 50.0,
                    typical: 120.0,
                },
            );
        }
    }
    assert_eq!(find_domains(&matrix), Finding::TooNoisy);
}

#[test]
fn a_core_alone_in_its_domain_stays_alone() {
    // A cpuset that holds two whole CCDs and one core of a third.
    let names: Vec<u32> = (0..17).collect();
    let sample = |a: usize, b: usize| Ok::<_, Infallible>(Sample::exact(GENOA.nanos(a, b)));
    let Ok(matrix) = collect(names, sample, |_| ControlFlow::Continue(()));
    let Finding::Domains { groups, .. } = find_domains(&matrix) else {
        panic!("no domains")
    };
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 1]);
}

#[test]
fn a_large_machine_is_sampled_and_stops_when_told() {
    let made = Made {
        sockets: 2,
        domains: 16,
        cores: 16,
        ..GENOA
    };
    let pairs = |made: &Made, most: usize| {
        let mut last = Progress { done: 0, of: 0 };
        let names: Vec<u32> = (0..made.len() as u32).collect();
        let sample = |a, b| Ok::<_, Infallible>(Sample::exact(made.nanos(a, b)));
        let Ok(matrix) = collect(names, sample, |progress| {
            assert!(progress.done <= progress.of && progress.done == last.done + 1);
            last = progress;
            match progress.done < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        assert!(matrix.pairs().count() <= last.done);
        (matrix, last.done)
    };
    let (_, done) = pairs(&made, usize::MAX);
    assert!(done < 4_000, "{done} of 130,816 pairs");
    let (_, done) = pairs(
        &Made {
            in_turn: true,
            ..made.clone()
        },
        usize::MAX,
    );
    assert!(done < 20_000, "{done} pairs");
    let (matrix, done) = pairs(&made, 100);
    assert_eq!((done, find_domains(&matrix)), (100, Finding::Unfinished));
}

fn machines() -> impl Strategy<Value = Made> {
    let shape = (
        1..3_usize,
        2..9_usize,
        2..9_usize,
        1..3_usize,
        any::<bool>(),
    );
    let nanos = (15.0..50.0, 2.2..6.5, 1.0..1.6);
    (shape, nanos).prop_map(
        |((sockets, domains, cores, threads, in_turn), (near, far, sockets_far))| Made {
            sockets,
            domains,
            cores,
            threads,
            in_turn,
            within_core: 6.0,
            within_domain: near,
            across_domains: near * far,
            across_sockets: near * far * sockets_far,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Noise that is smaller than the difference, and a few pairs that were disturbed.
    #[test]
    fn domains_are_found_through_noise(
        made in machines(),
        seed in any::<u64>(),
        each in 0.0..0.25,
        disturbed in 0..10_u64,
    ) {
        // One pair is all that is known of a domain of two cores: if it was disturbed nothing shows the domain. Of more
        // than 64 cpus only a sample of pairs is measured, and a core whose few pairs were disturbed may be misjudged.
        let all_pairs = made.len() <= 64;
        let disturbed = if made.cores > 2 && all_pairs { disturbed } else { 0 };
        let noise = Noise { seed, each, disturbed };
        // Of few pairs one or two that were disturbed are many: then it may be said that nothing can be told.
        let may_give_up = disturbed > 0 && made.len() <= 32;
        if !may_give_up || find_domains(&made.measured(&noise)) != Finding::TooNoisy {
            prop_assert_eq!(found(&made, &noise), made.truth());
        }
    }

    /// However disturbed, one domain is told as one or as not to be told.
    #[test]
    fn noise_is_not_taken_for_domains(
        cores in 8..64_usize,
        seed in any::<u64>(),
        each in 0.0..1.0,
        disturbed in 0..100_u64,
    ) {
        let made = Made { domains: 1, cores, ..GENOA };
        let finding = find_domains(&made.measured(&Noise { seed, each, disturbed }));
        let wrong = matches!(finding, Finding::Domains { .. });
        prop_assert!(!wrong, "{finding:?}");
    }

    /// Which numbers cores have does not matter.
    #[test]
    fn the_order_of_cores_does_not_matter(made in machines(), order in Just(()).prop_perturb(|(), rng| rng)) {
        let mut order = order;
        let mut cpus: Vec<usize> = (0..made.len()).collect();
        for at in (1..cpus.len()).rev() {
            cpus.swap(at, order.random_range(0..=at));
        }
        let mut matrix = Latencies::new(cpus.iter().map(|&cpu| cpu as u32).collect());
        for a in 0..cpus.len() {
            for b in 0..a {
                matrix.set(a, b, Sample::exact(made.nanos(cpus[a], cpus[b])));
            }
        }
        let Finding::Domains { groups, .. } = find_domains(&matrix) else { panic!("no domains") };
        prop_assert_eq!(groups, made.truth());
    }
}

#[test]
fn a_finding_names_all_cpus_of_its_cores() {
    let machine = Topology::builder().smt(2).domain(0, 4).build().unwrap();
    let groups = vec![vec![0, 2], vec![4, 6]];
    let finding = Finding::Domains {
        groups,
        near: 20.0,
        far: 90.0,
    };
    let list = finding.domains(&machine).unwrap();
    assert_eq!(list.to_string(), "0-3,4-7");
    assert_eq!(machine.with_domains(&list).unwrap().domains().len(), 2);
    assert_eq!(Finding::TooFew.domains(&machine), None);
}

#[cfg(target_os = "linux")]
#[test]
fn this_machine_is_measured_and_only_this() {
    let machine = Topology::detect(LevelChoice::Auto).unwrap();
    let cpus: Vec<u32> = machine
        .domains()
        .iter()
        .flat_map(|domain| domain.cpus())
        .collect();
    let machine = machine.restricted_to(&cpus[..cpus.len().min(4)]).unwrap();
    let matrix = measure(&machine, Duration::from_secs(20), |_| ()).unwrap();
    let cores = machine.core_count();
    assert_eq!(matrix.pairs().count(), cores * (cores - 1) / 2);
    let other = Topology::uniform(2, 2, 0);
    let error = measure(&other, Duration::from_secs(1), |_| ()).unwrap_err();
    assert!(error.to_string().contains("made up"), "{error}");
}
