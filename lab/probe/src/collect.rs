//! Which pairs of cores are measured.
//!
//! All of them on machines of up to 64 cores: 2,016 pairs, about a second. On larger ones all pairs of 64 cores first,
//! from which follows what is near. Then each other core is measured against a core of each domain that is known, the
//! last one's first, until it is near one; if it is near none, it is the first of a new domain. With neighbours in
//! number in one domain, as most systems have them, that is hardly more than one pair for each core.
//!
//! At last cores that are near nobody are measured once more.

use crate::cluster::nearness;
use crate::latencies::{Latencies, Sample};
use std::ops::ControlFlow;

/// Up to so many cores all pairs are measured.
const ALL_PAIRS: usize = 64;
/// Of those that are measured first on a larger machine, so many stand in rows of neighbours; the rest is strewn. So
/// some are in one domain whether domains are numbered one after the other or in turn.
const IN_ROWS: usize = 32;
const ROW: usize = 8;
/// Where nothing is known to be near, each other core is measured against so many.
const STREWN: usize = 8;
/// A core is alone if it is far from each domain so many times.
const TIMES_ASKED: usize = 3;

/// How far measuring has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Pairs that were measured.
    pub done: usize,
    /// Pairs in all, as far as that is known by now.
    pub of: usize,
}

/// Measures as many pairs of these cores as it takes to judge them. `measure` is given positions. After each pair
/// `go_on` is asked; if it breaks, what was measured so far is returned.
///
/// # Errors
/// The first error of `measure`.
pub fn collect<E>(
    cpus: Vec<u32>,
    measure: impl FnMut(usize, usize) -> Result<Sample, E>,
    go_on: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Latencies, E> {
    let cores = cpus.len();
    let mut run = Sweep {
        matrix: Latencies::new(cpus),
        measure,
        go_on,
        done: 0,
        of: 0,
    };
    let all: Vec<usize> = (0..cores).collect();
    let near = match cores > ALL_PAIRS {
        true => run.sampled(cores)?,
        false => run.all(&all, 0)?.map_continue(|()| run.near_among(&all)),
    };
    if let ControlFlow::Continue(Some(near)) = near {
        // Broken off or not, what was measured counts.
        let _ = run.look_again(&all, near)?;
    }
    Ok(run.matrix)
}

struct Sweep<M, G> {
    matrix: Latencies,
    measure: M,
    go_on: G,
    done: usize,
    of: usize,
}

impl<M, G, E> Sweep<M, G>
where
    M: FnMut(usize, usize) -> Result<Sample, E>,
    G: FnMut(Progress) -> ControlFlow<()>,
{
    /// Measures one pair, and breaks if that shall be all.
    fn pair(&mut self, a: usize, b: usize) -> Result<ControlFlow<()>, E> {
        let sample = (self.measure)(a, b)?;
        self.matrix.set(a, b, sample);
        self.done += 1;
        self.of = self.of.max(self.done);
        Ok((self.go_on)(Progress {
            done: self.done,
            of: self.of,
        }))
    }

    /// All pairs of these cores; `more` are to come after.
    fn all(&mut self, cores: &[usize], more: usize) -> Result<ControlFlow<()>, E> {
        self.of = cores.len() * cores.len().saturating_sub(1) / 2 + more;
        for (at, &a) in cores.iter().enumerate() {
            for &b in &cores[..at] {
                if self.pair(a, b)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Measures cores that are near nobody once more, against any that they may be near: with few cores in a domain,
    /// one pair that was disturbed makes a core look alone.
    fn look_again(&mut self, cores: &[usize], near: f64) -> Result<ControlFlow<()>, E> {
        for &core in cores {
            if cores.iter().any(|&other| self.is_near(core, other, near)) {
                continue;
            }
            for &other in cores.iter().filter(|&&other| other != core) {
                if self.pair(core, other)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if self.is_near(core, other, near) {
                    break;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Enough pairs of a large machine; what is near in it, if that can be told.
    fn sampled(&mut self, cores: usize) -> Result<ControlFlow<(), Option<f64>>, E> {
        let first = first_cores(cores);
        if self.all(&first, cores - first.len())?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let others = (0..cores).filter(|core| !first.contains(core));
        let Some(near) = self.near_among(&first) else {
            for core in others {
                for &one in first.iter().take(STREWN) {
                    if self.pair(core, one)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            return Ok(ControlFlow::Continue(None));
        };
        // Members of each domain that is known.
        let mut domains: Vec<Vec<usize>> = Vec::new();
        for &core in &first {
            let holds_near = |members: &&mut Vec<usize>| {
                let is_near = |&member: &usize| self.is_near(core, member, near);
                members.iter().any(is_near)
            };
            match domains.iter_mut().find(holds_near) {
                Some(members) => members.push(core),
                None => domains.push(vec![core]),
            }
        }
        for core in others {
            let ControlFlow::Continue(found) = self.domain_of(core, &domains, near)? else {
                return Ok(ControlFlow::Break(()));
            };
            // The next core is measured against this domain first.
            let mut members = found.map_or_else(Vec::new, |at| domains.remove(at));
            members.push(core);
            domains.push(members);
        }
        Ok(ControlFlow::Continue(Some(near)))
    }

    /// The domain that a core is near, the last ones first. If that is none by their first members, the next ones are
    /// asked, or the same again, as a pair may have been disturbed.
    fn domain_of(
        &mut self,
        core: usize,
        domains: &[Vec<usize>],
        near: f64,
    ) -> Result<ControlFlow<(), Option<usize>>, E> {
        for asked in 0..TIMES_ASKED {
            for (at, members) in domains.iter().enumerate().rev() {
                let member = members[asked.min(members.len() - 1)];
                if self.pair(core, member)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if self.is_near(core, member, near) {
                    return Ok(ControlFlow::Continue(Some(at)));
                }
            }
        }
        Ok(ControlFlow::Continue(None))
    }

    fn is_near(&self, a: usize, b: usize, near: f64) -> bool {
        self.matrix
            .get(a, b)
            .is_some_and(|sample| sample.best < near)
    }

    /// What is near, as far as these cores tell.
    fn near_among(&self, cores: &[usize]) -> Option<f64> {
        let mut some = Latencies::new(cores.iter().map(|&core| self.matrix.cpus()[core]).collect());
        for a in 1..cores.len() {
            for b in 0..a {
                if let Some(sample) = self.matrix.get(cores[a], cores[b]) {
                    some.set(a, b, sample);
                }
            }
        }
        nearness(&some)
    }
}

/// The cores of a large machine that are measured first: rows of neighbours, and others strewn over all.
fn first_cores(cores: usize) -> Vec<usize> {
    let rows = IN_ROWS / ROW;
    let mut chosen: Vec<usize> = (0..rows)
        .flat_map(|row| (0..ROW).map(move |at| row * (cores / rows) + at))
        .collect();
    // A known generator (the MINSTD of Park and Miller), so that every run measures the same cores.
    let mut state: u64 = 1;
    while chosen.len() < ALL_PAIRS {
        state = state * 48_271 % 0x7fff_ffff;
        let core = state as usize % cores;
        if !chosen.contains(&core) {
            chosen.push(core);
        }
    }
    chosen
}
