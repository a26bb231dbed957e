//! A fixed random rotation, in about `dim * log2(dim)` additions.
//!
//! Signs are flipped at random and a Walsh-Hadamard transform is applied to as many components as the largest power of
//! two has: first to those at the front, then to those at the back, and both once more. Each step keeps lengths, so
//! distances between rotated vectors are those between the vectors. It spreads each component over all others: their
//! ranges become alike, whatever they were (Ailon and Chazelle, "The fast Johnson-Lindenstrauss transform", 2009).

/// How often the transform is applied.
const PASSES: usize = 4;

/// Rotates `vector`. Files hold rotated rows, so this never changes.
pub(super) fn rotate(vector: &mut [f32]) {
    let Some(width) = vector.len().checked_ilog2().map(|bits| 1 << bits) else {
        return;
    };
    for pass in 0..PASSES {
        let start = if pass % 2 == 0 {
            0
        } else {
            vector.len() - width
        };
        let part = &mut vector[start..][..width];
        flip(part, pass);
        transform(part);
    }
}

/// Flips the signs of some components, others in each pass.
fn flip(part: &mut [f32], pass: usize) {
    for (number, block) in part.chunks_mut(64).enumerate() {
        let signs = random((pass << 32 | number) as u64);
        for (bit, x) in block.iter_mut().enumerate() {
            let sign = (signs >> bit & 1) as u32;
            *x = f32::from_bits(x.to_bits() ^ sign << 31);
        }
    }
}

/// The number at `position` of the sequence SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
pub(super) fn random(position: u64) -> u64 {
    let mut z = (position + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The Walsh-Hadamard transform of a power of two of components, scaled to keep lengths.
fn transform(part: &mut [f32]) {
    let mut half = 1;
    while half < part.len() {
        for pair in part.chunks_exact_mut(2 * half) {
            let (front, back) = pair.split_at_mut(half);
            for (a, b) in front.iter_mut().zip(back) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (part.len() as f32).sqrt();
    part.iter_mut().for_each(|x| *x *= scale);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lengths_and_angles_stay(
            pairs in proptest::collection::vec((-1f32..1.0, -1f32..1.0), 1..300),
        ) {
            let (mut a, mut b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let product = |a: &[f32], b: &[f32]| -> f64 {
                a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum()
            };
            let before = [product(&a, &a), product(&b, &b), product(&a, &b)];
            rotate(&mut a);
            rotate(&mut b);
            let after = [product(&a, &a), product(&b, &b), product(&a, &b)];
            for (before, after) in before.iter().zip(after) {
                prop_assert!((before - after).abs() < 1e-3, "{before} {after}");
            }
        }
    }

    #[test]
    fn one_component_is_spread_over_all() {
        for dim in [2, 3, 50, 100, 128, 384, 1000] {
            for at in [0, dim / 2, dim - 1] {
                let mut vector = vec![0.0; dim];
                vector[at] = 1.0;
                rotate(&mut vector);
                let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                assert!(
                    largest <= 0.8 || dim < 50,
                    "{dim} {at}: {largest} is left of 1"
                );
                assert!(vector.iter().filter(|&&x| x != 0.0).count() > dim / 3);
            }
        }
    }

    /// Rows in files were rotated like this.
    #[test]
    fn the_rotation_never_changes() {
        let mut vector: Vec<f32> = (0..6).map(|x| x as f32).collect();
        rotate(&mut vector);
        assert_eq!(vector, [-0.5, 2.0, -0.25, 5.25, 4.75, -0.75]);
    }
}
