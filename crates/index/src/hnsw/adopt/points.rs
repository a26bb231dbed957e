//! Links as hnsw_rs has them, in memory and in its dumps (0.3), and the graph that they amount to.
//!
//! hnsw_rs differs from the paper in three ways, and a search that shall find what it finds has to follow:
//!
//! - A point may link, on a layer, to points that are not of that layer: when a layer gets its first point, that is
//!   linked to the entry below. So a point is counted to each layer on which links lead to it.
//! - A search looks at one list of links on each higher layer and goes down. `Descent::OneLook` says so.
//! - The walk is on the lowest layer that some point has as its highest, which in a graph of few rows need not be the
//!   ground.

use super::Graph;
use crate::error::{BuildError, bad_graph};

/// A point: its highest layer and its place among the points that have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) layer: u8,
    pub(super) rank: i32,
}

/// All points, those of the lowest layer first.
#[derive(Default)]
pub(super) struct Points {
    /// How many points have each layer as their highest, from the ground up.
    pub(super) counts: Vec<usize>,
    /// `links[point][layer]`.
    pub(super) links: Vec<Vec<Vec<Point>>>,
}

impl Points {
    /// The links with points numbered in order. `entry` is where a search begins.
    pub(super) fn into_graph(self, entry: Point) -> Result<Graph, BuildError> {
        let Self { counts, links } = self;
        let mut starts = vec![0];
        for count in &counts {
            starts.push(starts[starts.len() - 1] + count);
        }
        let row = |point: Point| {
            let Point { layer, rank } = point;
            let rank = usize::try_from(rank).ok();
            let rank = rank.filter(|rank| counts.get(usize::from(layer)).is_some_and(|n| rank < n));
            let row = rank.map(|rank| (starts[usize::from(layer)] + rank) as u32);
            row.ok_or_else(|| {
                bad_graph(format!(
                    "a link or the entry is point {} of layer {layer}, which does not exist",
                    point.rank
                ))
            })
        };
        let mut links = links
            .into_iter()
            .map(|layers| {
                let lists = layers
                    .into_iter()
                    .map(|list| list.into_iter().map(row).collect());
                lists.collect::<Result<Vec<Vec<u32>>, _>>()
            })
            .collect::<Result<Vec<_>, _>>()?;
        let lowest = counts.iter().position(|&count| count > 0).unwrap_or(0);
        if lowest > 0 {
            for layers in links.iter_mut().filter(|layers| layers.len() > lowest) {
                layers[0] = layers[lowest].clone();
            }
        }
        let mut layer_of: Vec<usize> = (0..counts.len())
            .flat_map(|layer| std::iter::repeat_n(layer, counts[layer]))
            .collect();
        for layer in (1..=usize::from(entry.layer)).rev() {
            let rows = 0..links.len();
            let mut members: Vec<usize> = rows.filter(|&row| layer_of[row] >= layer).collect();
            while let Some(member) = members.pop() {
                for &link in links[member].get(layer).map_or(&[][..], Vec::as_slice) {
                    let link = link as usize;
                    if layer_of[link] < layer {
                        layer_of[link] = layer;
                        members.push(link);
                    }
                }
            }
        }
        for (layers, &layer) in links.iter_mut().zip(&layer_of) {
            layers.resize(layer + 1, Vec::new());
        }
        Ok(Graph {
            entry: row(entry)?,
            links,
        })
    }
}
