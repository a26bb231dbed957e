//! Which cores form domains, judged from a matrix of latencies.
//!
//! Noise only makes a pass longer, so what counts is the shortest way from each core to the others: the lengths of the
//! minimum spanning tree. Within domains they are short, between domains long, and the widest gap between two lengths
//! is where the machine comes apart. Innermost may be a gap between threads of one core, which a hypervisor shows as
//! cores; it is passed over. A gap counts if the parts are parts: most have several cores, and nearly all that
//! was measured inside them is short.

use crate::latencies::{Latencies, Sample};
use std::collections::BTreeMap;

/// Fewer cores cannot form two domains of two.
const LEAST_CORES: usize = 4;
/// Between cores of one CCD and of others of a die latencies differ by two to six; within a mesh by a fifth.
const GAP: f64 = 1.4;
/// Threads of a core pass a line in its own L1: 4-10 ns. The quickest L3s take 15 ns.
const THREADS_BELOW: f64 = 12.0;
/// As many threads as any core has (POWER).
const MOST_THREADS: usize = 8;
/// So much of what was measured inside of parts may be as long as between them: pairs that were disturbed.
const MISFITS: f64 = 0.15;
/// Runs whose median is so much longer than the best were disturbed by something.
const UNSTEADY: f64 = 1.5;

/// What a matrix of latencies says about domains.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// Cores that are near each other and far from all others.
    Domains {
        /// The cpus of each domain, those that the matrix names its cores by. Ascending.
        groups: Vec<Vec<u32>>,
        /// Median inside of domains, in nanoseconds; 0 if no pair was measured.
        near: f64,
        /// Median between domains.
        far: f64,
    },
    /// All cores are about equally far from each other: they are one domain, or each is one.
    Alike {
        /// The median of all pairs, in nanoseconds.
        nanos: f64,
    },
    /// Too few cores to form several domains.
    TooFew,
    /// The latencies differ and form no domains, or differ from run to run: something else kept the cores busy.
    TooNoisy,
    /// Not enough was measured to connect all cores.
    Unfinished,
}

/// Judges a matrix.
pub fn find_domains(matrix: &Latencies) -> Finding {
    if matrix.cpus().len() < LEAST_CORES {
        return Finding::TooFew;
    }
    let Some(tree) = Tree::of(matrix) else {
        return Finding::Unfinished;
    };
    let (mut best, mut misfit): (Option<Cut>, bool) = (None, false);
    for cut in tree.cuts().filter(|cut| cut.is_of_domains(matrix)) {
        if !cut.fits(matrix) {
            misfit = true;
        } else if best.as_ref().is_none_or(|best| cut.gap > best.gap) {
            best = Some(cut);
        }
    }
    match best {
        Some(cut) => cut.finding(matrix),
        None if misfit || is_unsteady(matrix) => Finding::TooNoisy,
        None => Finding::Alike {
            nanos: median(matrix.pairs().map(|(.., sample)| sample.best)),
        },
    }
}

/// What is near, judged from some of the cores: latencies below it are within domains. `None` if nothing can be told.
pub(crate) fn nearness(matrix: &Latencies) -> Option<f64> {
    let several = |cut: &Cut| cut.parts_of_several(matrix) > 1 && cut.fits(matrix);
    let cuts = Tree::of(matrix)?.cuts().filter(several).collect::<Vec<_>>();
    let widest = cuts.iter().max_by(|a, b| a.gap.total_cmp(&b.gap))?;
    Some(widest.at)
}

/// The minimum spanning tree: its edges, shortest first.
struct Tree {
    cores: usize,
    edges: Vec<(f64, usize, usize)>,
}

impl Tree {
    /// `None` if the measured pairs do not connect all cores.
    fn of(matrix: &Latencies) -> Option<Self> {
        let cores = matrix.cpus().len();
        let mut pairs: Vec<_> = matrix
            .pairs()
            .map(|(a, b, sample)| (sample.best, a, b))
            .collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut parts = Parts::new(cores);
        pairs.retain(|&(_, a, b)| parts.join(a, b));
        (pairs.len() + 1 == cores).then_some(Self {
            cores,
            edges: pairs,
        })
    }

    /// The ways to cut it where lengths differ much.
    fn cuts(&self) -> impl Iterator<Item = Cut> + '_ {
        let wide = self
            .edges
            .windows(2)
            .enumerate()
            .filter_map(|(short, pair)| {
                let (below, above) = (pair[0].0, pair[1].0);
                let gap = above / below;
                (gap >= GAP).then_some((short + 1, below, above, gap))
            });
        wide.map(|(short, below, above, gap)| {
            let mut parts = Parts::new(self.cores);
            for &(_, a, b) in &self.edges[..short] {
                parts.join(a, b);
            }
            Cut {
                at: (below * above).sqrt(),
                gap,
                part_of: (0..self.cores).map(|core| parts.root(core)).collect(),
            }
        })
    }
}

/// The cores in parts.
struct Cut {
    /// Latencies below are within parts.
    at: f64,
    /// How many times longer the shortest between parts is.
    gap: f64,
    /// By core, the first core of its part.
    part_of: Vec<usize>,
}

impl Cut {
    fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.part_of.len()];
        for &part in &self.part_of {
            sizes[part] += 1;
        }
        sizes.retain(|&size| size > 0);
        sizes
    }

    /// How many parts have several cores; none if they are cores of several threads. One pair of threads may have been
    /// disturbed, so most decide.
    fn parts_of_several(&self, matrix: &Latencies) -> usize {
        let sizes = self.sizes();
        let several = sizes.iter().filter(|&&size| size > 1).count();
        let mut longest = BTreeMap::<usize, f64>::new();
        for (a, _, sample) in self.inside(matrix) {
            let longest = longest.entry(self.part_of[a]).or_default();
            *longest = longest.max(sample.best);
        }
        let of_threads = longest
            .values()
            .filter(|&&nanos| nanos < THREADS_BELOW)
            .count();
        let are_small = sizes.iter().all(|&size| size <= MOST_THREADS);
        match are_small && of_threads * 2 >= several {
            true => 0,
            false => several,
        }
    }

    /// Whether at least two parts, and at least half of all, have several cores. The rule for caches, see `level`.
    fn is_of_domains(&self, matrix: &Latencies) -> bool {
        let several = self.parts_of_several(matrix);
        several > 1 && several * 2 >= self.sizes().len()
    }

    /// Whether nearly all latencies within parts are short. Those between parts are long, or they were not between.
    fn fits(&self, matrix: &Latencies) -> bool {
        let (mut inside, mut long) = (0_usize, 0_usize);
        for (.., sample) in self.inside(matrix) {
            inside += 1;
            long += usize::from(sample.best > self.at);
        }
        long as f64 <= MISFITS * inside as f64
    }

    fn inside<'a>(
        &'a self,
        matrix: &'a Latencies,
    ) -> impl Iterator<Item = (usize, usize, Sample)> + 'a {
        let within = |&(a, b, _): &(usize, usize, Sample)| self.part_of[a] == self.part_of[b];
        matrix.pairs().filter(within)
    }

    fn finding(&self, matrix: &Latencies) -> Finding {
        let mut groups = vec![Vec::new(); self.part_of.len()];
        for (core, &part) in self.part_of.iter().enumerate() {
            groups[part].push(matrix.cpus()[core]);
        }
        groups.retain(|group| !group.is_empty());
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.sort();
        let between = |&(a, b, _): &(usize, usize, Sample)| self.part_of[a] != self.part_of[b];
        Finding::Domains {
            groups,
            near: median(self.inside(matrix).map(|(.., sample)| sample.best)),
            far: median(
                matrix
                    .pairs()
                    .filter(between)
                    .map(|(.., sample)| sample.best),
            ),
        }
    }
}

/// Disjoint sets of cores, each named by its lowest.
struct Parts(Vec<usize>);

impl Parts {
    fn new(cores: usize) -> Self {
        Self((0..cores).collect())
    }

    fn root(&mut self, core: usize) -> usize {
        let mut root = core;
        while self.0[root] != root {
            self.0[root] = self.0[self.0[root]];
            root = self.0[root];
        }
        root
    }

    /// False if they were one before.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
        a != b
    }
}

fn is_unsteady(matrix: &Latencies) -> bool {
    median(
        matrix
            .pairs()
            .map(|(.., sample)| sample.typical / sample.best),
    ) > UNSTEADY
}

/// 0 of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
