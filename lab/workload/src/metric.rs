//! What near means, computed in f64.

/// How far apart two distances may be and still tie, relative to the size of the numbers they come from.
/// An `f32` sum of a few hundred terms is good to about 10 units in the last place, each 2^-24 = 6e-8.
pub const ROUNDING: f64 = 1e-6;

/// What near means. Smaller is nearer for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// Squared Euclidean distance; ranks as the Euclidean does.
    L2,
    /// 1 minus the cosine of the angle. A vector of zeros is at distance 1 from all.
    Cosine,
    /// The negated inner product.
    InnerProduct,
}

impl Metric {
    /// The distance between two vectors.
    ///
    /// # Panics
    /// If their lengths differ.
    #[must_use]
    pub fn distance(self, a: &[f32], b: &[f32]) -> f64 {
        assert_eq!(a.len(), b.len(), "vectors of different dimensions");
        match self {
            Self::L2 => sum(a, b, |x, y| (x - y) * (x - y)),
            Self::InnerProduct => -dot(a, b),
            Self::Cosine => {
                let (a_norm, b_norm) = (dot(a, a).sqrt(), dot(b, b).sqrt());
                if a_norm * b_norm == 0.0 {
                    return 1.0;
                }
                // Not 1 less their product, which has no digits left for vectors that are nearly parallel.
                let (a_scale, b_scale) = (1.0 / a_norm, 1.0 / b_norm);
                0.5 * sum(a, b, |x, y| (x * a_scale - y * b_scale).powi(2))
            }
        }
    }

    /// The size of the numbers that a distance of `distance` between `a` and `b` was computed from.
    pub(crate) fn scale(self, distance: f64, a: &[f32], b: &[f32]) -> f64 {
        match self {
            Self::L2 => distance,
            // Vectors scaled to length 1 in f32 are each off by up to 2^-24 of it, so |a - b| by e = 1.2e-7 and its
            // half square by e |a - b| + e^2 / 2, beside the rounding of the sum.
            Self::Cosine => {
                let off = 1.2e-7;
                distance + (off * (2.0 * distance).sqrt() + off * off / 2.0) / ROUNDING
            }
            Self::InnerProduct => (dot(a, a) * dot(b, b)).sqrt(),
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |x, y| x * y)
}

/// The sum of `term` over pairs, in eight parallel sums that the compiler turns into vector instructions.
fn sum(a: &[f32], b: &[f32], term: impl Fn(f64, f64) -> f64) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += term(a[lane].into(), b[lane].into());
        }
    }
    let rest = a_rest
        .iter()
        .zip(b_rest)
        .map(|(&x, &y)| term(x.into(), y.into()));
    sums.iter().sum::<f64>() + rest.sum::<f64>()
}
