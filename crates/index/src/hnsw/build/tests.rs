//! What every graph must be, however many threads built it.

use super::*;
use crate::hnsw::walk::NONE;

const DIM: usize = 8;
const ROWS: usize = 3000;

fn rows() -> Vec<f32> {
    let mut state = 7_u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    (0..ROWS * DIM).map(|_| draw()).collect()
}

const M: usize = 8;

fn built(threads: usize) -> Links {
    built_of(&rows(), threads)
}

fn built_of(rows: &[f32], threads: usize) -> Links {
    let config = HnswConfig::new(Metric::L2)
        .m(M)
        .ef_construction(40)
        .threads(threads);
    build(rows, DIM, &config, &Watch::none()).unwrap()
}

/// The links of `node` on `level`.
fn of(links: &Links, level: usize, node: u32) -> &[u32] {
    let stride = links.stride_of(level);
    let places = &links.layers[level][node as usize * stride..][..stride];
    let count = places.iter().position(|&link| link == NONE);
    let (there, rest) = places.split_at(count.unwrap_or(stride));
    assert!(rest.iter().all(|&link| link == NONE), "a gap: {places:?}");
    there
}

#[test]
fn links_lead_to_other_nodes_of_the_layer_once_each() {
    for threads in [1, 2, 4] {
        let links = built(threads);
        let mut rows = links.rows.clone();
        rows.sort_unstable();
        assert_eq!(rows, (0..ROWS as u32).collect::<Vec<_>>());
        for level in 0..links.layers.len() {
            let nodes = (links.layers[level].len() / links.stride_of(level)) as u32;
            for node in 0..nodes {
                let mut found = of(&links, level, node).to_vec();
                assert!(
                    nodes == 1 || !found.is_empty(),
                    "{node} on {level} has no links"
                );
                assert!(found.iter().all(|&link| link < nodes && link != node));
                found.sort_unstable();
                found.dedup();
                assert_eq!(found.len(), of(&links, level, node).len(), "a link twice");
            }
        }
    }
}

#[test]
fn rows_of_unequal_lengths_keep_their_links() {
    // About the middle, and up to 128 times as long: the short ones are nearest to most.
    let mut rows = rows();
    for (row, length) in rows.chunks_exact_mut(DIM).zip((0..8).cycle()) {
        row.iter_mut()
            .for_each(|x| *x = (*x - 0.5) * (1 << length) as f32);
    }
    for threads in [1, 4] {
        let links = built_of(&rows, threads);
        let mut lead_to = vec![0; ROWS];
        for node in 0..ROWS as u32 {
            let found = of(&links, 0, node);
            assert!(found.len() >= M, "{node} has {} links", found.len());
            found.iter().for_each(|&link| lead_to[link as usize] += 1);
        }
        let least = lead_to.iter().min().unwrap();
        assert!(*least >= 4, "{least} lead to one");
    }
}

#[test]
fn every_node_can_be_reached_from_the_entry() {
    // Four threads more than once: how they meet differs from build to build.
    for threads in [1, 2, 4, 4, 4, 4, 4, 4] {
        let links = built(threads);
        let mut reached = vec![false; ROWS];
        reached[0] = true;
        let mut next = vec![0];
        let mut count = 1;
        while let Some(node) = next.pop() {
            for &link in of(&links, 0, node) {
                if !std::mem::replace(&mut reached[link as usize], true) {
                    count += 1;
                    next.push(link);
                }
            }
        }
        assert_eq!(count, ROWS, "{threads} threads");
    }
}

#[test]
fn one_thread_links_the_same_rows_the_same_way() {
    let (a, b) = (built(1), built(1));
    assert_eq!((a.rows, a.layers), (b.rows, b.layers));
}

#[test]
fn layers_do_not_depend_on_threads() {
    let (a, b) = (built(1), built(3));
    assert_eq!(a.rows, b.rows);
    let sizes = |links: &Links| links.layers.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(&a), sizes(&b));
}
