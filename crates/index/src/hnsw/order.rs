//! Which nodes lie side by side in memory.

use super::build::Links;

/// The old number of each new node. Layers stay the nodes below some number.
pub(super) fn order(links: &Links, reorder: bool) -> Vec<u32> {
    let nodes = links.rows.len();
    if !reorder {
        return (0..nodes as u32).collect();
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
    }
    order
}
