//! An order of vectors in which near ones are side by side.

/// The place of each of `vectors` in such an order, from 0 up: they are halved, again and again, across the line
/// between two that are far apart.
pub(super) fn places(vectors: &[f32], dim: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..(vectors.len() / dim) as u32).collect();
    halve(vectors, dim, &mut order);
    let mut places = vec![0; order.len()];
    for (place, &vector) in (0_u32..).zip(&order) {
        places[vector as usize] = place;
    }
    places
}

fn halve(vectors: &[f32], dim: usize, part: &mut [u32]) {
    if part.len() < 3 {
        return;
    }
    let row = |vector: u32| &vectors[vector as usize * dim..][..dim];
    let distance = |a: u32, b: u32| -> f32 {
        let pairs = row(a).iter().zip(row(b));
        pairs.map(|(a, b)| (a - b) * (a - b)).sum()
    };
    let farthest = |from: u32| {
        let others = part.iter().copied();
        others.max_by(|&a, &b| distance(from, a).total_cmp(&distance(from, b)))
    };
    let one = farthest(part[0]).unwrap_or(part[0]);
    let other = farthest(one).unwrap_or(one);
    let mut along: Vec<(f32, u32)> = part
        .iter()
        .map(|&vector| (distance(one, vector) - distance(other, vector), vector))
        .collect();
    along.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (slot, (_, vector)) in part.iter_mut().zip(along) {
        *slot = vector;
    }
    let (left, right) = part.split_at_mut(part.len() / 2);
    halve(vectors, dim, left);
    halve(vectors, dim, right);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_vectors_are_side_by_side() {
        // Eight groups of four, far from each other, mixed.
        let vectors: Vec<f32> = (0..32)
            .flat_map(|at| [(at % 8) as f32 * 100.0, (at / 8) as f32])
            .collect();
        let places = places(&vectors, 2);
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..32).collect::<Vec<_>>());
        for group in 0..8 {
            let of_group: Vec<u32> = (0..4).map(|turn| places[turn * 8 + group] / 4).collect();
            assert_eq!(of_group, [of_group[0]; 4]);
        }
    }
}
