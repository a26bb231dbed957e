//! Distances that a graph of hnsw_rs can be built with.
//!
//! hnsw_rs asks two things of a distance: it must never be negative or NaN (a panic), and only its order
//! matters (a graph walk compares distances, it computes nothing with them). So [`InnerProduct`] maps the
//! order of the negated product onto the non-negative floats. What a table reports it computes by its [`Metric`].

use ::hnsw_rs::prelude::{DistL2, Distance};

use crate::metric::Metric;

/// A distance of hnsw_rs whose graphs [`HnswTable::new`](crate::HnswTable::new) takes.
///
/// `eval` must order rows as [`GraphDistance::METRIC`] does and return neither a negative value nor NaN for
/// rows that the table accepts; hnsw_rs panics on those.
pub trait GraphDistance: Distance<f32> + Send + Sync + 'static {
    /// The metric whose order `eval` follows, and which the table reports.
    const METRIC: Metric;
}

/// Squared Euclidean distance: the order of `DistL2` without its square root.
#[derive(Clone, Copy, Debug, Default)]
pub struct SquaredL2;

impl Distance<f32> for SquaredL2 {
    #[inline]
    fn eval(&self, a: &[f32], b: &[f32]) -> f32 {
        Metric::L2.distance(a, b)
    }
}

impl GraphDistance for SquaredL2 {
    const METRIC: Metric = Metric::L2;
}

/// Cosine distance of rows that have length 1 (or 0); pass each through [`normalized`](crate::normalized)
/// before inserting it.
///
/// There is no [`GraphDistance`] for hnsw_rs' `DistCosine` and `DistDot`: the first puts a zero vector nearest
/// to everything, both panic on rounding or overflow that finite vectors can cause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cosine;

impl Distance<f32> for Cosine {
    #[inline]
    fn eval(&self, a: &[f32], b: &[f32]) -> f32 {
        Metric::Cosine.distance(a, b)
    }
}

impl GraphDistance for Cosine {
    const METRIC: Metric = Metric::Cosine;
}

/// Inner product of any vectors: larger is nearer.
///
/// `eval` returns a value whose order is that of the negated product and which means nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct InnerProduct;

impl Distance<f32> for InnerProduct {
    #[inline]
    fn eval(&self, a: &[f32], b: &[f32]) -> f32 {
        order_non_negative(Metric::InnerProduct.distance(a, b))
    }
}

impl GraphDistance for InnerProduct {
    const METRIC: Metric = Metric::InnerProduct;
}

/// Euclidean distance as hnsw_rs has it; the table reports its square.
impl GraphDistance for DistL2 {
    const METRIC: Metric = Metric::L2;
}

/// Maps `[-1e38, 1e38]` onto non-negative floats, keeping the order (two neighbouring floats may become one).
///
/// A float's bits, the sign bit flipped (all bits, for a negative one), order like the float as an unsigned
/// integer. Shifted right by one they are the bits of a non-negative float, which orders the same way.
fn order_non_negative(x: f32) -> f32 {
    const SIGN: u32 = 1 << 31;
    // Products of accepted vectors stay below 1.6e37 (MAX_NORM squared); beyond 1.7e38 the result would be
    // a NaN's bits. Adding 0.0 turns -0.0 into 0.0, so that equal values stay equal.
    let bits = (x.clamp(-1e38, 1e38) + 0.0).to_bits();
    let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
    f32::from_bits(ordered >> 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_mapped_order_is_the_order(a in -1e38f32..1e38, b in -1e38f32..1e38) {
            let (low, high) = if a <= b { (a, b) } else { (b, a) };
            let (low, high) = (order_non_negative(low), order_non_negative(high));
            prop_assert!(low >= 0.0 && low.is_finite() && high.is_finite());
            prop_assert!(low <= high);
        }

        #[test]
        fn distinct_products_stay_distinct(a in -1e38f32..1e38) {
            let apart = a.next_up().next_up();
            prop_assert!(order_non_negative(a) < order_non_negative(apart));
        }
    }

    #[test]
    fn both_zeros_and_the_extremes_map_to_finite_values() {
        assert_eq!(order_non_negative(-0.0), order_non_negative(0.0));
        for extreme in [f32::MIN, f32::MAX, f32::NEG_INFINITY, f32::INFINITY] {
            let mapped = order_non_negative(extreme);
            assert!(mapped.is_finite() && mapped >= 0.0, "{extreme} -> {mapped}");
        }
    }
}
