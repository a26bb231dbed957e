//! Which nodes a walk has met: one bit a node.

/// A set of nodes that is emptied as cheaply as it was filled.
#[derive(Debug, Default)]
pub(crate) struct Visited {
    words: Vec<u64>,
}

impl Visited {
    /// Makes room for nodes below `nodes`. The set must be empty.
    pub(crate) fn reserve(&mut self, nodes: usize) {
        let words = nodes.div_ceil(64);
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }

    /// Adds `node`, which is below the nodes reserved; whether it is new.
    #[inline(always)]
    pub(crate) fn insert(&mut self, node: u32) -> bool {
        let word = &mut self.words[node as usize / 64];
        let bit = 1 << (node % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Empties the set, which holds exactly `members`; `nodes` were reserved.
    pub(crate) fn clear(&mut self, members: &[u32], nodes: usize) {
        let words = nodes.div_ceil(64);
        // A word in a row of words is cleared many times as fast as one somewhere.
        if members.len() < words / 16 {
            for &node in members {
                self.words[node as usize / 64] = 0;
            }
        } else {
            self.words[..words].fill(0);
        }
    }
}
