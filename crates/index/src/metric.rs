//! What "near" means: three metrics, one convention for what every table reports.
//!
//! A reported distance is always *smaller is nearer*, so that answers of different tables compare:
//! L2 is the squared Euclidean distance (as Faiss reports it), cosine is `1 - cos`, inner product is
//! negated. The arithmetic of one distance is the same in [`FlatTable`](crate::FlatTable) and
//! [`HnswTable`](crate::HnswTable), bit for bit, on one machine; Faiss sums in an order of its own, so its distances
//! agree to rounding.
//!
//! Vectors longer than [`MAX_NORM`] are refused, so no distance is ever infinite or NaN.

use std::borrow::Cow;

use chiplet_table::SearchError;
use serde::{Deserialize, Serialize};

use crate::kernel::{self, Element, Positions, Rows, Span};

/// The largest Euclidean norm of a row or query under L2 and inner product: `(2 * MAX_NORM)^2` and every
/// partial sum towards it still fit in an `f32` (whose largest value is 3.4e38).
pub const MAX_NORM: f64 = 4e18;

/// How far apart two vectors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Squared Euclidean distance (hnsw_rs' `DistL2` takes the root; Faiss does not).
    #[default]
    L2,
    /// `1 - cos` of the angle between the vectors, in `[0, 2]`. Rows and queries are scaled to length 1
    /// when they come in; a zero vector has no direction and is at distance 1 from everything. Computed as half the
    /// squared distance of the scaled vectors, which tells nearly parallel ones apart.
    Cosine,
    /// The inner product, negated; a zero vector is at distance 0 from everything.
    InnerProduct,
}

impl Metric {
    /// The metric of an index of Faiss' that ranks rows, prepared for this one, as this one does.
    pub(crate) fn of_faiss(self) -> Self {
        match self {
            Self::L2 => Self::L2,
            Self::Cosine | Self::InnerProduct => Self::InnerProduct,
        }
    }

    /// The reported distance between a prepared query and a prepared row: for [`Metric::Cosine`] both must
    /// have length 1 (or 0), see [`normalized`].
    ///
    /// ```
    /// use chiplet_index::Metric;
    /// assert_eq!(Metric::L2.distance(&[0.0, 0.0], &[3.0, 4.0]), 25.0);
    /// assert_eq!(Metric::InnerProduct.distance(&[1.0, 2.0], &[3.0, 4.0]), -11.0);
    /// assert_eq!(Metric::Cosine.distance(&[0.0, 1.0], &[1.0, 0.0]), 1.0);
    /// ```
    ///
    /// # Panics
    /// If the vectors differ in dimension.
    pub fn distance(self, query: &[f32], row: &[f32]) -> f32 {
        assert_eq!(query.len(), row.len(), "vectors of different dimension");
        let mut distance = [0.0];
        if !row.is_empty() {
            let rows = Rows::new(bytemuck::cast_slice(row), size_of_val(row));
            let only = Span { start: 0, end: 1 };
            self.distances(Element::F32, query, rows, only, &mut distance);
        }
        distance[0]
    }

    /// The reported distances between a prepared query and prepared `rows` (`[n][dim]`, one after the other), into
    /// `out` (`[n]`): to the bit what [`Metric::distance`] says of each row. One call for a few hundred rows takes a
    /// fraction of the time of a call for each.
    ///
    /// ```
    /// use chiplet_index::Metric;
    /// let mut distances = [0.0; 2];
    /// Metric::L2.distances_to(&[0.0, 0.0], &[3.0, 4.0, 0.0, 1.0], &mut distances);
    /// assert_eq!(distances, [25.0, 1.0]);
    /// ```
    ///
    /// # Panics
    /// If `query` is empty, or `rows` are not `out.len()` rows of its dimension.
    pub fn distances_to(self, query: &[f32], rows: &[f32], out: &mut [f32]) {
        assert!(!query.is_empty(), "vectors of dimension 0");
        assert_eq!(
            Some(rows.len()),
            query.len().checked_mul(out.len()),
            "rows of another dimension, or another number of them"
        );
        let all = Span {
            start: 0,
            end: out.len(),
        };
        let rows = Rows::new(bytemuck::cast_slice(rows), size_of_val(query));
        self.distances(Element::F32, query, rows, all, out);
    }

    /// What is reported of a distance that codes claim, as they can claim one below the least or above the largest that
    /// there is.
    #[inline]
    pub(crate) fn reported(self, distance: f32) -> f32 {
        match self {
            Self::L2 => distance.clamp(0.0, f32::INFINITY),
            Self::Cosine => distance.clamp(0.0, 2.0),
            Self::InnerProduct => distance,
        }
    }

    /// The reported distances between a prepared query and the prepared rows at `positions`, into `out`.
    ///
    /// # Panics
    /// As [`kernel::squared_l2`].
    #[inline]
    pub(crate) fn distances<P: Positions>(
        self,
        element: Element,
        query: &[f32],
        rows: Rows<'_>,
        positions: P,
        out: &mut [f32],
    ) {
        match self {
            Self::L2 => kernel::squared_l2(element, query, rows, positions, out),
            Self::Cosine => {
                // 1 - cos = |q - r|^2 / 2 of vectors of length 1. 1 less their product, in f32, would be a multiple of
                // 6e-8: nothing to tell rows apart that are within an angle of 1e-3 from the query.
                kernel::squared_l2(element, query, rows, positions, out);
                if query.iter().all(|&x| x == 0.0) {
                    return out.fill(1.0);
                }
                let bytes = query.len() * element.bytes();
                for (i, x) in out.iter_mut().enumerate() {
                    // A row of zeros is at 1 from the query, up to rounding, as is one at 60 degrees.
                    let maybe_zero = (*x - 1.0).abs() < 0.01;
                    *x = if maybe_zero && rows.is_zero(positions.at(i), bytes, element.bytes()) {
                        1.0
                    } else {
                        // Rounding can make it more than 2.
                        (0.5 * *x).min(2.0)
                    };
                }
            }
            Self::InnerProduct => {
                kernel::dot(element, query, rows, positions, out);
                // Not -product: a product of 0 shall be 0.0, as -0.0 would sort before it.
                out.iter_mut().for_each(|x| *x = 0.0 - *x);
            }
        }
    }

    /// `vector` as the table compares it: scaled to length 1 for cosine, as it is for the others.
    ///
    /// # Errors
    /// [`SearchError::TooLong`] over [`MAX_NORM`], for L2 and inner product.
    pub(crate) fn prepare_query(self, vector: &[f32]) -> Result<Cow<'_, [f32]>, SearchError> {
        self.check_length(vector)?;
        Ok(match self {
            Self::Cosine => Cow::Owned(normalized(vector)),
            Self::L2 | Self::InnerProduct => Cow::Borrowed(vector),
        })
    }

    /// [`Metric::prepare_query`] into a buffer.
    ///
    /// # Errors
    /// As [`Metric::prepare_query`].
    pub(crate) fn prepare_query_into(
        self,
        vector: &[f32],
        to: &mut Vec<f32>,
    ) -> Result<(), SearchError> {
        self.check_length(vector)?;
        to.clear();
        to.extend_from_slice(vector);
        if self == Self::Cosine {
            normalize(to);
        }
        Ok(())
    }

    fn check_length(self, vector: &[f32]) -> Result<(), SearchError> {
        if self == Self::Cosine {
            return Ok(());
        }
        let norm = norm(vector);
        if norm > MAX_NORM {
            return Err(SearchError::TooLong {
                norm,
                limit: MAX_NORM,
            });
        }
        Ok(())
    }
}

/// `vector` scaled to length 1; a zero vector stays zero. Computed in `f64`, so no finite vector is too long
/// or too short.
///
/// ```
/// assert_eq!(chiplet_index::normalized(&[3.0, 4.0]), [0.6, 0.8]);
/// assert_eq!(chiplet_index::normalized(&[0.0, 0.0]), [0.0, 0.0]);
/// ```
pub fn normalized(vector: &[f32]) -> Vec<f32> {
    let mut vector = vector.to_vec();
    normalize(&mut vector);
    vector
}

/// [`normalized`], in place.
pub(crate) fn normalize(vector: &mut [f32]) {
    let norm = norm(vector);
    if norm > 0.0 {
        for x in vector {
            *x = (f64::from(*x) / norm) as f32;
        }
    }
}

/// The Euclidean norm. No finite `f32` vector overflows or underflows it.
pub(crate) fn norm(vector: &[f32]) -> f64 {
    vector
        .iter()
        .map(|&x| f64::from(x) * f64::from(x))
        .sum::<f64>()
        .sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_at_the_norm_limit_are_finite() {
        let near_limit = [(MAX_NORM * 0.99) as f32, 0.0];
        let opposite = [-near_limit[0], 0.0];
        assert!(Metric::L2.distance(&near_limit, &opposite).is_finite());
        assert!(
            Metric::InnerProduct
                .distance(&near_limit, &near_limit)
                .is_finite()
        );
        assert!(Metric::L2.prepare_query(&near_limit).is_ok());
        assert!(matches!(
            Metric::InnerProduct.prepare_query(&[5e18]),
            Err(SearchError::TooLong { .. })
        ));
    }

    #[test]
    fn rows_have_the_same_distances_together_as_alone() {
        for dim in [1, 3, 16, 50, 65] {
            let value = |i: usize| (i * 7_919 % 1_009) as f32 / 1_009.0 - 0.5;
            let query: Vec<f32> = (1..=dim).map(value).collect();
            for count in [0, 1, 2, 3, 4, 9] {
                let rows: Vec<f32> = (0..count * dim).map(value).collect();
                for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
                    let mut together = vec![f32::NAN; count];
                    metric.distances_to(&query, &rows, &mut together);
                    let alone: Vec<f32> = rows
                        .chunks_exact(dim)
                        .map(|row| metric.distance(&query, row))
                        .collect();
                    assert_eq!(together, alone, "{metric:?}, {count} rows of {dim}");
                }
            }
        }
    }

    #[test]
    fn normalizing_survives_extreme_lengths() {
        for scale in [1e-40f32, 1e-20, 1.0, 1e20, 3e38] {
            let unit = normalized(&[scale, 0.0]);
            assert_eq!(unit, [1.0, 0.0], "scale {scale:e}");
        }
    }
}
