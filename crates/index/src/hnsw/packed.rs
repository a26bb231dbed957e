//! Lists of links as a frozen graph keeps them: 3 bytes a link where every node's number is below 2^24 - 1, else 4.
//!
//! A quarter less memory holds them, and 64 links lie in three cache lines where they would lie in four. Each link is
//! read as four bytes, so [`padding`] follows the last one.

use crate::kernel;

use super::walk::{FOLLOWED_A_STEP, Layer, NONE};

/// Bytes of a link in a file that does not say.
pub(super) const UNPACKED: usize = 4;

/// Bytes of a link in a graph of that many nodes. All bits of a link set stand for no link.
pub(crate) fn link_bytes(nodes: usize) -> usize {
    if nodes < 1 << 24 { 3 } else { UNPACKED }
}

/// Bytes that follow the last link of a section.
fn padding(link_bytes: usize) -> usize {
    UNPACKED - link_bytes
}

/// Bytes of a section of that many links.
pub(super) fn section_bytes(links: usize, link_bytes: usize) -> usize {
    links * link_bytes + padding(link_bytes)
}

/// Writes `links` to the front of `out`.
pub(super) fn write(links: impl Iterator<Item = u32>, link_bytes: usize, out: &mut [u8]) {
    for (out, link) in out.chunks_exact_mut(link_bytes).zip(links) {
        out.copy_from_slice(&link.to_le_bytes()[..link_bytes]);
    }
}

/// One layer of a frozen graph.
#[derive(Clone, Copy)]
pub(super) struct PackedLayer<'a> {
    /// The lists of all nodes, and what follows them.
    links: &'a [u8],
    link_bytes: usize,
    stride: usize,
    nodes: usize,
    step: usize,
}

impl<'a> PackedLayer<'a> {
    /// The lists of `nodes` nodes with `stride` links each, which begin at link `start` of `section`.
    pub(super) fn new(
        section: &'a [u8],
        link_bytes: usize,
        start: usize,
        stride: usize,
        nodes: usize,
    ) -> Self {
        let links = &section[start * link_bytes..][..section_bytes(nodes * stride, link_bytes)];
        Self {
            links,
            link_bytes,
            stride,
            nodes,
            step: FOLLOWED_A_STEP,
        }
    }

    /// Has a walk follow so many nodes a step.
    pub(super) fn with_step(self, step: usize) -> Self {
        Self { step, ..self }
    }

    /// Where the list of `node` begins.
    fn start(&self, node: u32) -> usize {
        node as usize * self.stride * self.link_bytes
    }
}

impl Layer for PackedLayer<'_> {
    fn nodes(&self) -> usize {
        self.nodes
    }

    #[inline]
    fn step(&self) -> usize {
        self.step
    }

    #[inline]
    fn links(&self, node: u32) -> impl Iterator<Item = u32> {
        let mut list =
            &self.links[self.start(node)..][..section_bytes(self.stride, self.link_bytes)];
        let (step, none) = (self.link_bytes, NONE >> (8 * padding(self.link_bytes)));
        std::iter::from_fn(move || {
            let four = list.first_chunk::<UNPACKED>()?;
            let link = u32::from_le_bytes(*four) & none;
            list = &list[step..];
            (link != none).then_some(link)
        })
    }

    #[inline]
    fn prefetch(&self, node: u32) {
        if let Some(first) = self.links.get(self.start(node)) {
            kernel::prefetch(first, self.stride * self.link_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_come_back_from_three_bytes_and_from_four() {
        let lists = [[5, 0xff_fffe, NONE], [NONE; 3], [0, 1, 0x12_3456]];
        for link_bytes in [3, 4] {
            let mut section = vec![0; section_bytes(9, link_bytes)];
            write(lists.iter().flatten().copied(), link_bytes, &mut section);
            let layer = PackedLayer::new(&section, link_bytes, 0, 3, 3);
            for (node, list) in (0..).zip(lists) {
                let links: Vec<u32> = layer.links(node).collect();
                let wanted = list.into_iter().filter(|&link| link != NONE);
                assert_eq!(links, wanted.collect::<Vec<_>>());
            }
            let last = PackedLayer::new(&section, link_bytes, 6, 3, 1);
            assert_eq!(last.links(0).collect::<Vec<_>>(), [0, 1, 0x12_3456]);
        }
    }

    #[test]
    fn three_bytes_hold_every_node_and_none() {
        assert_eq!(link_bytes(0), 3);
        assert_eq!(link_bytes((1 << 24) - 1), 3);
        assert_eq!(link_bytes(1 << 24), 4);
    }
}
