//! Links that only filtered searches under the inner product follow.
//!
//! Under the inner product a long row is nearer to most queries than a short one beside it. So links go to long rows,
//! and the links from those back to short ones are dropped: to many short rows few links lead, or none. They are hardly
//! ever among the nearest of *all* rows. They are among the nearest of those that a filter allows, so a walk through a
//! filter also follows some of the links that were dropped.

use super::build::Links;
use super::walk::NONE;
use crate::error::BuildError;
use crate::progress::Watch;

/// Links that shall lead to each node. Recall at `ef` 64 of 100,000 rows of 32 dimensions in 100 clusters, a tenth of
/// them allowed: 0.825 without these links, 0.895 with 1, 0.978 with 4, 0.985 with 6, 0.988 with 8 (0.993 without a
/// filter); the shorter half of them allowed: 0.588, 0.898, 0.960, 0.973, 0.973. Of 8,000 rows of 96 dimensions with
/// lognormal norms, the shorter half allowed: 0.538, then 0.998 and more. 6 are 8 bytes a row in the first and 25 in
/// the second.
pub(super) const LEAD_TO: usize = 6;

/// Links that a node gets besides, at most: a walk follows all links of a node in one step, in which it does not look
/// whether anybody still waits. With 256 recall of the shorter half of the clusters above was 0.895; from 1,024 on it
/// did not change.
const MOST: usize = 1024;

/// Pairs of a node and one that it shall link to besides: the other way round of a link that is there.
///
/// # Errors
/// [`BuildError::Stopped`].
pub(super) fn of(links: &Links, watch: &Watch<'_>) -> Result<Vec<[u32; 2]>, BuildError> {
    let Some(ground) = links.layers.first() else {
        return Ok(Vec::new());
    };
    let list = |node: u32| {
        let list = &ground[node as usize * links.ground_stride..][..links.ground_stride];
        list.iter().copied().take_while(|&link| link != NONE)
    };
    let nodes = links.rows.len();
    let mut lead_to = vec![0; nodes];
    for &link in ground.iter().filter(|&&link| link != NONE) {
        lead_to[link as usize] += 1;
    }
    let (mut found, mut given) = (Vec::new(), vec![0; nodes]);
    for node in 0..nodes as u32 {
        let wanted = LEAD_TO.saturating_sub(lead_to[node as usize]);
        let others = list(node)
            .filter(|&other| given[other as usize] < MOST)
            .filter(|&other| list(other).all(|link| link != node));
        let first = found.len();
        found.extend(others.take(wanted).map(|other| [other, node]));
        for &[other, _] in &found[first..] {
            given[other as usize] += 1;
        }
        watch.glance()?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_few_links_lead_to_get_some_back() {
        // All link to 0 and 1, which link to each other.
        let ground = [[1, NONE], [0, NONE], [0, 1], [1, 0], [NONE; 2]];
        let links = Links {
            rows: (0..5).collect(),
            ground_stride: 2,
            stride: 2,
            layers: vec![ground.concat()],
            one_look: false,
            one_by_one: false,
            copies: Vec::new(),
        };
        let of = |links: &Links| super::of(links, &Watch::none()).unwrap();
        assert_eq!(of(&links), [[0, 2], [1, 2], [1, 3], [0, 3]]);
    }

    #[test]
    fn no_node_gets_more_than_a_walk_may_follow_at_once() {
        // All link to 0, which links to none.
        let mut ground = vec![0; 2 * MOST];
        ground[0] = NONE;
        let links = Links {
            rows: (0..2 * MOST as u32).collect(),
            ground_stride: 1,
            stride: 1,
            layers: vec![ground],
            one_look: false,
            one_by_one: false,
            copies: Vec::new(),
        };
        assert_eq!(of(&links, &Watch::none()).unwrap().len(), MOST);
    }
}
