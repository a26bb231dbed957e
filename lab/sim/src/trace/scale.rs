//! Walks of a graph that is too large to build, made of those of a smaller one.
//!
//! A table of `f` times the rows is `f` *tiles*, each like the recorded graph to queries that end in it. A query makes
//! a recorded walk. Where a walk compares `N` of `n` rows, `N / n` of all queries read the average row; in the large
//! graph `1 / f` of that. So a row of average popularity or less has `f` copies, one for each tile. A more popular row
//! lies on many queries' way in the large graph too, and has as many fewer copies. All tiles share the most popular.
//!
//! Kept: how many rows a walk compares and follows; how popular the most popular rows are, so short reuse distances;
//! that the average row is read `f` times less often, so how much of the table a cache holds. Checked against real
//! walks of four times the rows (16,384 to 65,536 rows of 48, ef 100, 300 and 750): the miss ratio of a cache of 4,000
//! rows is off by 2 to 13 points, of 16,000 rows by 4 to 7.
//!
//! Not kept: walks in a larger graph are a little longer (about as the logarithm of the rows); which rows lie side by
//! side, so all pages of a table are read equally often; the clusters of real data. Tables of millions of rows take
//! factors of 15 to 150, far beyond the checked 4.

use super::mix;
use super::walks::Walks;

/// Tables that take part in a sample of their own; a node that all tables sampled would weigh too much.
pub(crate) const SALTS: usize = 8;

/// Walks as they are replayed: a sample of the nodes of each, and how many copies each node has at most.
#[derive(Clone, Debug)]
pub struct Scale {
    /// How many rows each walk compares, and how many lists of links it reads.
    pub counts: Vec<(u32, u32)>,
    /// How many candidates each walk ends with.
    pub(crate) candidates: Vec<u32>,
    /// For each salt and walk: the sampled nodes that are read.
    pub(crate) sampled: Vec<Vec<Sampled>>,
    /// Of how many parts each node is one: its popularity over the average one, at least 1.
    popularity: Vec<f32>,
    /// Walks of queries that are drawn anywhere; after them come those of topics.
    pub(crate) anywhere: usize,
    /// The part of a walk's rows that another walk of its topic compares, too; `None` without topics.
    pub(crate) in_common: Option<f64>,
    /// Rows of the recorded graph.
    pub nodes: usize,
}

/// What is replayed of one walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sampled {
    pub(crate) rows: Vec<u32>,
    pub(crate) links: Vec<u32>,
    /// Of the candidates: how many are nearer, and the node.
    pub(crate) nearest: Vec<(u32, u32)>,
}

impl Scale {
    /// Prepares `walks`, of whose nodes the part `sample` is replayed.
    pub fn new(walks: &Walks, sample: f64) -> Self {
        // How popular a node is, is told by queries that are drawn anywhere.
        let anywhere = &walks.walks[..walks.anywhere];
        let queries = anywhere.len().max(1) as f64;
        let mut read = vec![0_u32; walks.nodes];
        let mut all = 0.0;
        for walk in anywhere {
            for &node in &walk.rows {
                read[node as usize] += 1;
            }
            all += walk.rows.len() as f64;
        }
        let average = (all / queries / walks.nodes as f64).max(f64::MIN_POSITIVE);
        let popularity = read
            .iter()
            .map(|&read| (f64::from(read) / queries / average).max(1.0) as f32);
        let limit = (sample.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
        let salts = if sample < 1.0 { SALTS } else { 1 };
        let sampled = (0..salts).map(|salt| {
            let keeps = |node: &&u32| mix(u64::from(**node) ^ ((salt as u64) << 40)) <= limit;
            let of = |nodes: &[u32]| nodes.iter().filter(keeps).copied().collect();
            let ranked = |nodes: &[u32]| {
                let ranked = (0..).zip(nodes).filter(|(_, node)| keeps(node));
                ranked.map(|(rank, &node)| (rank, node)).collect()
            };
            let walks = walks.walks.iter().map(|walk| Sampled {
                rows: of(&walk.rows),
                links: of(&walk.links),
                nearest: ranked(&walk.nearest),
            });
            walks.collect()
        });
        Self {
            counts: walks
                .walks
                .iter()
                .map(|walk| (walk.rows.len() as u32, walk.links.len() as u32))
                .collect(),
            candidates: walks
                .walks
                .iter()
                .map(|walk| walk.nearest.len() as u32)
                .collect(),
            sampled: sampled.collect(),
            popularity: popularity.collect(),
            anywhere: walks.anywhere,
            in_common: walks.in_common(),
            nodes: walks.nodes,
        }
    }

    /// The copy of `node` that a query of `tile` reads in a table of `factor` tiles.
    pub(crate) fn copy(&self, node: u32, tile: u32, factor: u32) -> u32 {
        let copies = factor as f32 / self.popularity[node as usize];
        let copies = (copies.round() as u32).clamp(1, factor.max(1));
        // Neighbouring tiles share a copy.
        (u64::from(tile) * u64::from(copies) / u64::from(factor.max(1))) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Walk;

    fn walks() -> Walks {
        // Node 0 is in each of ten walks, the others in one each.
        let walk = |query: u32| Walk {
            rows: (0..10)
                .map(|step| if step == 0 { 0 } else { query * 9 + step })
                .collect(),
            links: vec![0],
            nearest: Vec::new(),
        };
        Walks {
            nodes: 91,
            ef: 10,
            anywhere: 10,
            walks: (0..10).map(walk).collect(),
        }
    }

    #[test]
    fn popular_nodes_are_shared_and_others_have_a_copy_for_each_tile() {
        let scale = Scale::new(&walks(), 1.0);
        let copies = |node| {
            let mut seen: Vec<u32> = (0..8).map(|tile| scale.copy(node, tile, 8)).collect();
            seen.dedup();
            seen.len()
        };
        assert_eq!(copies(0), 1);
        assert_eq!(copies(5), 8);
    }

    #[test]
    fn a_sample_keeps_about_its_part_of_the_nodes_whole() {
        let walks = Walks {
            nodes: 10_000,
            ef: 1,
            anywhere: 1,
            walks: vec![Walk {
                rows: (0..10_000).collect(),
                links: (0..10_000).collect(),
                nearest: (0..10_000).rev().collect(),
            }],
        };
        let scale = Scale::new(&walks, 0.25);
        for sampled in &scale.sampled {
            assert!((2_300..2_700).contains(&sampled[0].rows.len()));
            assert_eq!(sampled[0].rows, sampled[0].links);
            let nearest = &sampled[0].nearest;
            assert_eq!(nearest.len(), sampled[0].rows.len());
            assert!(nearest.iter().all(|(rank, node)| rank + node == 9_999));
        }
    }
}
