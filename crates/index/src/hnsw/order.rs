//! Which nodes lie side by side in memory.

use super::build::Links;
use crate::error::BuildError;
use crate::progress::Watch;

/// The old number of each new node. Layers stay the nodes below some number.
///
/// # Errors
/// [`BuildError::Stopped`].
pub(super) fn order(
    links: &Links,
    reorder: bool,
    watch: &Watch<'_>,
) -> Result<Vec<u32>, BuildError> {
    let nodes = links.rows.len();
    if !reorder {
        return Ok((0..nodes as u32).collect());
    }
    let ends: Vec<usize> = links
        .layers
        .iter()
        .zip(0..)
        .map(|(layer, level)| layer.len() / links.stride_of(level))
        .collect();
    let first_ground = ends.get(1).copied().unwrap_or(nodes.min(1));
    // Breadth first over the ground links, from the entry.
    let mut order: Vec<u32> = (0..first_ground as u32).collect();
    let mut placed = vec![false; nodes];
    placed[..first_ground].fill(true);
    let mut at = 0;
    let mut rest = first_ground;
    while order.len() < nodes {
        if at == order.len() {
            while placed[rest] {
                rest += 1;
            }
            placed[rest] = true;
            order.push(rest as u32);
        }
        let node = order[at] as usize;
        at += 1;
        for &link in &links.layers[0][node * links.ground_stride..][..links.ground_stride] {
            if link != super::walk::NONE && !placed[link as usize] {
                placed[link as usize] = true;
                order.push(link);
            }
        }
        watch.glance()?;
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::walk::NONE;
    use super::*;

    fn order(links: &Links, reorder: bool) -> Vec<u32> {
        super::order(links, reorder, &Watch::none()).unwrap()
    }

    /// Nodes of one ground layer, and the first `upper` of them of a second one.
    fn links(nodes: usize, upper: usize, stride: usize, ground: Vec<u32>) -> Links {
        let mut layers = vec![ground];
        if upper > 0 {
            layers.push(vec![NONE; upper * stride]);
        }
        Links {
            rows: (0..nodes as u32).collect(),
            ground_stride: stride,
            stride,
            layers,
            one_look: false,
            one_by_one: false,
            copies: Vec::new(),
        }
    }

    #[test]
    fn nodes_follow_each_other_as_links_lead_from_the_entry() {
        // 0 -> 3, 4; 3 -> 1; 4 -> 2. Nothing leads to 5.
        let ground = [[3, 4], [NONE; 2], [NONE; 2], [1, 0], [2, NONE], [NONE; 2]];
        let ground = ground.concat();
        let found = order(&links(6, 1, 2, ground.clone()), true);
        assert_eq!(found, [0, 3, 4, 1, 2, 5]);
        assert_eq!(order(&links(6, 1, 2, ground), false), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn no_nodes_and_one_node_are_in_order() {
        for reorder in [false, true] {
            assert!(order(&links(0, 0, 2, vec![]), reorder).is_empty());
            assert_eq!(order(&links(1, 0, 2, vec![NONE; 2]), reorder), [0]);
        }
    }

    proptest! {
        #[test]
        fn every_node_has_one_place_and_higher_layers_stay_first(
            (nodes, upper, ground) in (1usize..40).prop_flat_map(|nodes| {
                let link = prop_oneof![0..nodes as u32, Just(NONE)];
                (Just(nodes), 1..=nodes, prop::collection::vec(link, 3 * nodes))
            }),
        ) {
            // As the builder leaves them: what is not there comes last.
            let mut ground = ground;
            ground.chunks_exact_mut(3).for_each(<[u32]>::sort);
            let found = order(&links(nodes, upper, 3, ground), true);
            let mut sorted = found.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..nodes as u32).collect::<Vec<_>>());
            prop_assert_eq!(found[0], 0);
            let first: Vec<u32> = (0..upper as u32).collect();
            prop_assert_eq!(&found[..upper], &first[..]);
        }
    }
}
