//! How links of hnsw_rs become a graph, on graphs small enough to follow by hand.

use super::points::{Point, Points};
use super::*;
use crate::hnsw::walk::NONE;

fn at(layer: u8, rank: i32) -> Point {
    Point { layer, rank }
}

#[test]
fn a_point_is_counted_to_each_layer_on_which_links_lead_to_it() {
    // Points 0 and 1 of layer 0, one of layer 2, which is the entry. It came after 0 and links to it on all layers; 0
    // links to 1 on layer 1, though neither is of it.
    let points = Points {
        counts: vec![2, 0, 1],
        links: vec![
            vec![vec![at(0, 1)], vec![at(0, 1), at(2, 0)]],
            vec![vec![at(0, 0)], vec![at(2, 0)], vec![at(0, 0)]],
            vec![vec![at(0, 0)], vec![at(0, 0)], vec![at(0, 0)]],
        ],
    };
    let graph = points.into_graph(at(2, 0)).unwrap();
    let expected = Graph {
        entry: 2,
        links: vec![
            // On layer 2 the entry leads to it, and it leads nowhere.
            vec![vec![1], vec![1, 2], vec![]],
            // On layer 1 point 0 leads to it; what it has on layer 2 no search sees.
            vec![vec![0], vec![2]],
            vec![vec![0], vec![0], vec![0]],
        ],
    };
    assert_eq!(graph, expected);
    graph.check(3).unwrap();
}

#[test]
fn the_walk_is_on_the_lowest_layer_that_is_some_points_highest() {
    let points = Points {
        counts: vec![0, 2],
        links: vec![
            vec![vec![], vec![at(1, 1)]],
            vec![vec![at(1, 1)], vec![at(1, 0)]],
        ],
    };
    let graph = points.into_graph(at(1, 0)).unwrap();
    assert_eq!(graph.links, [[[1], [1]], [[0], [0]]]);
}

#[test]
fn a_link_to_no_point_is_refused() {
    for link in [at(0, 1), at(0, -1), at(1, 0), at(16, 0)] {
        let points = Points {
            counts: vec![1],
            links: vec![vec![vec![link]]],
        };
        let error = points.into_graph(at(0, 0)).unwrap_err().to_string();
        let named = format!("point {} of layer {}", link.rank, link.layer);
        assert!(error.contains(&named), "{error}");
    }
    let entry = Points::default().into_graph(at(0, 0));
    assert!(matches!(entry, Err(BuildError::Graph { .. })));
}

#[test]
fn nodes_are_numbered_from_the_highest_layer_down_the_entry_first() {
    let graph = Graph {
        entry: 3,
        links: vec![
            vec![vec![1, 2, 3]],
            vec![vec![0], vec![3]],
            vec![vec![1]],
            vec![vec![1], vec![1]],
        ],
    };
    graph.check(4).unwrap();
    let links = graph.to_links().unwrap();
    assert_eq!(links.rows, [3, 1, 0, 2]);
    assert_eq!((links.ground_stride, links.stride), (3, 2));
    let ground = [[1, NONE, NONE], [2, NONE, NONE], [1, 3, 0], [1, NONE, NONE]];
    assert_eq!(
        links.layers,
        [ground.concat(), [[1, NONE], [0, NONE]].concat()]
    );
}
