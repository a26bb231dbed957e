//! How much room the lists of links of an adopted graph get. All lists of the ground layer take as much as its longest
//! one, and those of the higher layers as much as theirs. So one long list could make a small file take gigabytes.

use crate::error::{BuildError, bad_graph};
use crate::hnsw::meta::MAX_STRIDE;

/// Room for so many links, 4 MiB, is given to any graph.
const LEAST: usize = 1 << 20;

/// Else how many times as much as the links and lists that are there. Graphs of hnswlib and hnsw_rs take 1 to 4 times:
/// their longest list has twice `M` links, and the mean is somewhat over half of that.
const TIMES: usize = 16;

/// The room of each list, in links.
#[derive(Debug, PartialEq)]
pub(super) struct Room {
    pub(super) ground_stride: usize,
    /// Of the layers above the ground.
    pub(super) stride: usize,
}

impl Room {
    /// Of the lists `links[row][layer]`. Fails where the longest list asks for too much.
    pub(super) fn of(links: &[Vec<Vec<u32>>]) -> Result<Self, BuildError> {
        let (mut ground, mut upper) = (Lists::default(), Lists::default());
        for (layers, row) in links.iter().zip(0..) {
            for (layer, list) in layers.iter().enumerate() {
                let lists = if layer == 0 { &mut ground } else { &mut upper };
                lists.count(row, layer, list.len());
            }
        }
        let ground_stride = ground.longest.0.max(1);
        // The ground layer has twice as many links: a work estimate counts half of them.
        let stride = upper.longest.0.max(ground_stride.div_ceil(2));
        let there = ground.links + ground.number + upper.links + upper.number;
        let budget = LEAST.max(TIMES.saturating_mul(there));
        for (lists, stride) in [(&ground, ground_stride), (&upper, stride)] {
            let limit = (budget / lists.number.max(1)).min(MAX_STRIDE);
            if stride > limit {
                // Half of the ground's longest list may be what is too long for the higher layers.
                let (links, row, layer) = lists.longest.max(ground.longest);
                return Err(bad_graph(format!(
                    "row {row} has {links} links on layer {layer}, and each row's list takes the room of the longest; up \
                     to some {limit} are accepted in this graph: keep only the nearest"
                )));
            }
        }
        Ok(Self {
            ground_stride,
            stride,
        })
    }
}

/// The lists of some layers.
#[derive(Default)]
struct Lists {
    number: usize,
    links: usize,
    /// Links of the longest, its row and its layer.
    longest: (usize, u32, usize),
}

impl Lists {
    fn count(&mut self, row: u32, layer: usize, links: usize) {
        self.number += 1;
        self.links += links;
        self.longest = self.longest.max((links, row, layer));
    }
}
